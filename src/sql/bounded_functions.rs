//! Limit of the values that scalar functions compute: some make any number of bytes of a few, as `range` and `repeat`.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::error::Error;

/// Largest size of the values that a call makes of a batch of rows, in bytes.
const MAX_VALUES_BYTES: u64 = 1 << 30;
/// Size of the value of a type whose values have no fixed size, without its content.
const VARIABLE_BYTES: u64 = 16;
/// Nanoseconds of a day, and days of the shortest month.
const DAY: i128 = 86_400_000_000_000;
const MONTH_DAYS: i128 = 28;

/// Size of the value that a function makes of a row, in bytes: an upper bound. The sizes of arguments are those of the row.
type ValueSize = fn(&RowArguments<'_>) -> Option<u64>;

/// Functions whose values can be much larger than their arguments.
const BOUNDED: [(&str, ValueSize); 9] = [
    ("range", range_size),
    ("generate_series", range_size),
    ("array_repeat", |row| Some(row.bytes(0)?.max(1).saturating_mul(row.count(1)?))),
    ("array_resize", resize_size),
    ("repeat", |row| Some(row.bytes(0)?.saturating_mul(row.count(1)?))),
    ("lpad", |row| row.count(1)),
    ("rpad", |row| row.count(1)),
    ("replace", replace_size),
    ("regexp_replace", replace_size),
];

/// The functions, with a limit of their values.
pub(super) fn bounded_functions(functions: Vec<Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    let bounded = |function: Arc<ScalarUDF>| match BOUNDED.iter().find(|(name, _)| *name == function.name()) {
        Some((_, size)) => Arc::new(ScalarUDF::new_from_impl(BoundedFunction { function, size: *size })),
        None => function,
    };
    functions.into_iter().map(bounded).collect()
}

/// Function that fails before it makes values of more than [`MAX_VALUES_BYTES`].
#[derive(Debug)]
struct BoundedFunction {
    function: Arc<ScalarUDF>,
    size: ValueSize,
}

impl PartialEq for BoundedFunction {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function
    }
}

impl Eq for BoundedFunction {}

impl std::hash::Hash for BoundedFunction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.function.hash(state);
    }
}

impl BoundedFunction {
    /// Refuses arguments of which the function would make too much.
    fn check(&self, arguments: &ScalarFunctionArgs) -> Result<()> {
        let is_constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let sizes = (0..rows).filter_map(|row| (self.size)(&RowArguments { arguments: &arguments.args, row }));
        let bytes = sizes.fold(0, u64::saturating_add);
        if bytes <= MAX_VALUES_BYTES {
            return Ok(());
        }
        let name = self.name();
        let rows = if rows == 1 { "one row".to_owned() } else { format!("{rows} rows") };
        let error = Error::usage(format!(
            "SQL: `{name}` would make up to {bytes} bytes of {rows}, wanted at most {MAX_VALUES_BYTES}"
        ));
        let hint = match name {
            "range" | "generate_series" => {
                "the table function makes rows, of which there may be any number: `FROM range(…)`"
            }
            _ => "make shorter values",
        };
        Err(DataFusionError::External(Box::new(error.hint(hint))))
    }
}

impl ScalarUDFImpl for BoundedFunction {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.function.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.function.return_field_from_args(arguments)
    }

    fn is_strict(&self) -> bool {
        self.function.inner().is_strict()
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.function.simplify(arguments, info)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(types)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.check(&arguments)?;
        self.function.invoke_with_args(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}

/// Arguments of a function in one row.
struct RowArguments<'a> {
    arguments: &'a [ColumnarValue],
    row: usize,
}

impl RowArguments<'_> {
    /// Value of an argument; `None` if it is missing.
    fn value(&self, index: usize) -> Option<ScalarValue> {
        let value = match self.arguments.get(index)? {
            ColumnarValue::Scalar(value) => value.clone(),
            ColumnarValue::Array(array) => ScalarValue::try_from_array(array, self.row).ok()?,
        };
        Some(value).filter(|value| !value.is_null())
    }

    /// Number of values or characters that an argument names.
    fn count(&self, index: usize) -> Option<u64> {
        u64::try_from(i64::try_from(self.value(index)?).ok()?).ok()
    }

    /// Size of the content of an argument; that of a missing value is 0.
    fn bytes(&self, index: usize) -> Option<u64> {
        let size = match self.arguments.get(index)? {
            ColumnarValue::Scalar(value) => match value.try_as_str() {
                Some(text) => text.map_or(0, str::len),
                None => value.to_array().ok()?.to_data().get_slice_memory_size().ok()?,
            },
            ColumnarValue::Array(array) => array.slice(self.row, 1).to_data().get_slice_memory_size().ok()?,
        };
        Some(size as u64)
    }
}

/// Size of the list of values from the first to the last, in steps.
fn range_size(row: &RowArguments<'_>) -> Option<u64> {
    let (start, stop, step) = match row.arguments.len() {
        1 => (ScalarValue::Int64(Some(0)), row.value(0)?, None),
        2 => (row.value(0)?, row.value(1)?, None),
        _ => (row.value(0)?, row.value(1)?, Some(row.value(2)?)),
    };
    let step = step.map_or(Some(1), |step| position(&step))?.unsigned_abs();
    let count = (position(&stop)? - position(&start)?).unsigned_abs().checked_div(step)?.saturating_add(1);
    u64::try_from(count.saturating_mul(8)).ok().or(Some(u64::MAX))
}

/// Number, moment in nanoseconds, or length in nanoseconds. A month counts as its shortest.
fn position(value: &ScalarValue) -> Option<i128> {
    Some(match *value {
        ScalarValue::Int64(number) => number?.into(),
        ScalarValue::Date32(days) => i128::from(days?) * DAY,
        ScalarValue::Date64(milliseconds) => i128::from(milliseconds?) * 1_000_000,
        ScalarValue::TimestampSecond(moment, _) => i128::from(moment?) * 1_000_000_000,
        ScalarValue::TimestampMillisecond(moment, _) => i128::from(moment?) * 1_000_000,
        ScalarValue::TimestampMicrosecond(moment, _) => i128::from(moment?) * 1_000,
        ScalarValue::TimestampNanosecond(moment, _) => moment?.into(),
        ScalarValue::IntervalMonthDayNano(length) => {
            let length = length?;
            (i128::from(length.months) * MONTH_DAYS + i128::from(length.days)) * DAY + i128::from(length.nanoseconds)
        }
        _ => return None,
    })
}

/// Size of a list with another number of values: each is the given one, or a missing one.
fn resize_size(row: &RowArguments<'_>) -> Option<u64> {
    let value = row.bytes(2).unwrap_or(0).max(VARIABLE_BYTES);
    Some(row.count(1)?.saturating_mul(value).saturating_add(row.bytes(0)?))
}

/// Size of a text whose every character is replaced.
fn replace_size(row: &RowArguments<'_>) -> Option<u64> {
    let text = row.bytes(0)?;
    Some(text.saturating_mul(row.bytes(2)?.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use crate::error::ErrorCategory;
    use crate::sql::testing::text;
    use crate::sql::{OutputFormat, Session};

    #[test]
    fn functions_make_no_values_beyond_the_limit() {
        let session = Session::of_empty_tables([]).unwrap();
        for (call, function) in [
            ("range(0, 3000000000)", "range"),
            ("range(9000000000, 0, -3)", "range"),
            ("generate_series(-9223372036854775808, 9223372036854775807)", "generate_series"),
            ("range(value, 300000) FROM range(0, 8000)", "range"),
            ("range(DATE '2020-01-01', DATE '2030-01-01', INTERVAL '1 nanosecond')", "range"),
            (
                "generate_series(TIMESTAMP '2020-01-01', TIMESTAMP '2020-01-02', INTERVAL '1 microsecond')",
                "generate_series",
            ),
            ("array_repeat('word', 1000000000)", "array_repeat"),
            ("array_repeat(array_repeat(1, 100000), 100000)", "array_repeat"),
            ("list_repeat(repeat('a', 1000000), value) FROM range(2000, 2001)", "array_repeat"),
            ("array_resize([1], 1000000000, 0)", "array_resize"),
            ("repeat('a', 2000000000)", "repeat"),
            ("repeat('words', 100000 * value) FROM range(0, 8000)", "repeat"),
            ("lpad('a', 2000000000)", "lpad"),
            ("rpad('a', 1000000 + value) FROM range(0, 8000)", "rpad"),
            ("replace(repeat('a', 1000000), 'a', repeat('b', 1000000))", "replace"),
            ("regexp_replace(repeat('a', 1000000), 'a', repeat('b', 1000000), 'g')", "regexp_replace"),
        ] {
            // The length of the value, so that it is not shown.
            let error = text(&session, &format!("SELECT {call}"), OutputFormat::Csv).unwrap_err();
            assert_eq!(error.category(), ErrorCategory::Usage, "{call}: {error}");
            assert!(error.to_string().starts_with(&format!("SQL: `{function}` would make up to ")), "{call}: {error}");
            assert!(error.hint_text().is_some(), "{call}: {error}");
        }
    }

    #[test]
    fn functions_within_the_limit_are_as_before() {
        let session = Session::of_empty_tables([]).unwrap();
        for (call, wanted) in [
            ("range(3)", "\"[0, 1, 2]\""),
            ("range(1, 7, 2)", "\"[1, 3, 5]\""),
            ("generate_series(3, 1, -1)", "\"[3, 2, 1]\""),
            (
                "range(DATE '2020-01-01', DATE '2020-04-01', INTERVAL '1 month')",
                "\"[2020-01-01, 2020-02-01, 2020-03-01]\"",
            ),
            ("range(NULL) IS NULL", "true"),
            ("array_repeat('a', 2)", "\"[a, a]\""),
            ("array_resize([1, 2], 3, 7)", "\"[1, 2, 7]\""),
            ("repeat('ab', 2)", "abab"),
            ("repeat(NULL, 2) IS NULL", "true"),
            ("lpad('a', 3, 'x')", "xxa"),
            ("rpad('a', 3)", "a  "),
            ("replace('banana', 'an', 'o')", "booa"),
            ("length(repeat('a', 1000000))", "1000000"),
            ("array_length(range(0, 100000000))", "100000000"),
            ("sum(value) FROM range(0, 100000)", "4999950000"),
        ] {
            let csv = text(&session, &format!("SELECT {call}"), OutputFormat::Csv).unwrap();
            let value = csv.split_once('\n').unwrap().1.trim_end_matches('\n');
            assert_eq!(value, wanted, "{call}");
        }
    }
}
