//! Limits of the values that functions make of short arguments, such as `range` and `repeat`.
//!
//! A query pauses between batches of rows, so a batch must not be large. And DataFusion computes constants while it plans, where
//! nothing pauses: it then compares them, hashes them, and prints them as names of columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use az::SaturatingAs;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

use crate::result_files::external;
use pairloom_base::error::Error;

/// Largest value of a row.
const MAX_VALUE_BYTES: i128 = 16 << 20;
/// Largest size of the values of a batch of rows.
const MAX_BATCH_BYTES: i128 = 256 << 20;

/// Functions whose arguments are a length, or have one, and the size of a row's value in bytes.
const FUNCTIONS: [(&str, SizeOfRow); 7] = [
    ("range", |of, row| of.series(row, false)),
    ("generate_series", |of, row| of.series(row, true)),
    ("repeat", |of, row| of.integer(1, row) * of.integer(0, row)),
    ("array_repeat", |of, row| of.integer(1, row) * of.bytes(0, row)),
    ("array_resize", |of, row| of.integer(1, row) * of.item_bytes(row)),
    ("lpad", |of, row| of.integer(1, row)),
    ("rpad", |of, row| of.integer(1, row)),
];

type SizeOfRow = fn(&Arguments, usize) -> i128;

/// Gives [`FUNCTIONS`] their limits.
///
/// # Errors
/// There is no function of one of the names.
pub(super) fn limit_values(session: &mut dyn FunctionRegistry) -> Result<()> {
    for (name, _) in FUNCTIONS {
        let function = session.udf(name)?;
        session.register_udf(Arc::new(ScalarUDF::new_from_impl(LimitedFunction { function })))?;
    }
    Ok(())
}

/// Function of DataFusion that refuses to make a long value.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LimitedFunction {
    function: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for LimitedFunction {
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some((_, size)) = FUNCTIONS.iter().find(|(name, _)| *name == self.name()) {
            check_values(self.name(), *size, &args)?;
        }
        self.function.invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}

/// Refuses values that are too long.
fn check_values(name: &str, size: SizeOfRow, args: &ScalarFunctionArgs) -> Result<()> {
    let is_constant = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
    let rows = if is_constant { 1 } else { args.number_rows };
    let Some(arguments) = Arguments::new(&args.args, rows)? else { return Ok(()) };
    let mut all = 0_i128;
    for row in (0..rows).filter(|&row| !arguments.is_missing(row)) {
        let bytes = size(&arguments, row).max(0);
        if bytes > MAX_VALUE_BYTES {
            return too_long(format!("a value of `{name}` has {bytes} bytes, expected at most {MAX_VALUE_BYTES}"));
        }
        all += bytes;
    }
    if all > MAX_BATCH_BYTES {
        return too_long(format!(
            "the values of `{name}` of {rows} rows have {all} bytes, expected at most {MAX_BATCH_BYTES}"
        ));
    }
    Ok(())
}

fn too_long(message: String) -> Result<()> {
    let error = Error::usage(format!("SQL: {message}"));
    Err(external(error.hint("a table function makes rows and no value: `FROM range(0, n)`")))
}

/// Arguments of a call, with the columns that sizes are computed from.
struct Arguments {
    values: Vec<ArrayRef>,
    /// Whole numbers of each argument that has any; the lengths of texts.
    integers: Vec<Option<ArrayRef>>,
}

impl Arguments {
    /// `None` if an argument is missing in all rows.
    fn new(arguments: &[ColumnarValue], rows: usize) -> Result<Option<Self>> {
        let (mut values, mut integers) = (Vec::new(), Vec::new());
        for argument in arguments {
            // A constant is long itself, so it is not repeated.
            let value = argument.to_array(if matches!(argument, ColumnarValue::Scalar(_)) { 1 } else { rows })?;
            integers.push(match value.data_type() {
                DataType::Null => return Ok(None),
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                    Some(cast(&length(&value)?, &DataType::Int64)?)
                }
                DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => {
                    Some(cast(&value, &DataType::Timestamp(TimeUnit::Microsecond, None))?)
                }
                DataType::Interval(_) => Some(cast(&value, &DataType::Interval(IntervalUnit::MonthDayNano))?),
                of if of.is_integer() => Some(cast(&value, &DataType::Int64)?),
                _ => None,
            });
            values.push(value);
        }
        Ok(Some(Self { values, integers }))
    }

    /// Row of an argument, which is the first one of a constant.
    fn row(&self, argument: usize, row: usize) -> usize {
        if self.values[argument].len() == 1 { 0 } else { row }
    }

    fn is_missing(&self, row: usize) -> bool {
        (0..self.values.len()).any(|argument| self.values[argument].is_null(self.row(argument, row)))
    }

    /// Whole number, bytes of a text, or microseconds of a date; 0 of another value.
    fn integer(&self, argument: usize, row: usize) -> i128 {
        let row = self.row(argument, row);
        let Some(Some(values)) = self.integers.get(argument) else { return 0 };
        match values.data_type() {
            DataType::Int64 => values.as_primitive::<Int64Type>().value(row).into(),
            DataType::Timestamp(..) => values.as_primitive::<TimestampMicrosecondType>().value(row).into(),
            DataType::Interval(_) => {
                let IntervalMonthDayNano { months, days, nanoseconds } =
                    values.as_primitive::<IntervalMonthDayNanoType>().value(row);
                (i128::from(months) * 30 + i128::from(days)) * 86_400_000_000 + i128::from(nanoseconds) / 1_000
            }
            _ => 0,
        }
    }

    /// Bytes of a value of any type.
    fn bytes(&self, argument: usize, row: usize) -> i128 {
        let values = &self.values[argument];
        match values.data_type().primitive_width() {
            Some(width) => width.saturating_as(),
            None => {
                let value = values.slice(self.row(argument, row), 1).to_data();
                value.get_slice_memory_size().unwrap_or(0).saturating_as()
            }
        }
    }

    /// Bytes of an item of a list of numbers, or of the value that a list is filled with.
    fn item_bytes(&self, row: usize) -> i128 {
        let item = match self.values[0].data_type() {
            DataType::List(item) | DataType::LargeList(item) => item.data_type().primitive_width().unwrap_or(8),
            _ => 8,
        };
        let fill = if self.values.len() > 2 { self.bytes(2, row) } else { 0 };
        fill.max(item.saturating_as())
    }

    /// Bytes of a list of numbers or dates, with or without the last.
    fn series(&self, row: usize, has_last: bool) -> i128 {
        let (start, stop) = match self.values.len() {
            1 => (0, self.integer(0, row)),
            _ => (self.integer(0, row), self.integer(1, row)),
        };
        let step = if self.values.len() > 2 { self.integer(2, row) } else { 1 };
        // A step of less than a microsecond counts as one. One of the other sign makes no value.
        let step = if step == 0 { 1 } else { step };
        let last = if has_last { stop } else { stop - step.signum() };
        ((last - start) / step + 1) * 8
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::text;
    use crate::{OutputFormat, Session};

    #[test]
    fn long_values_are_refused_before_they_are_made() {
        let session = Session::of_empty_tables([]).unwrap();
        // 30,000,000 numbers of 8 bytes are 240,000,000 bytes.
        for (sql, expected) in [
            (
                "SELECT count(*) FROM (SELECT unnest(range(0,30000000)) FROM range(0,1000))",
                "a value of `range` has 240000000 bytes, expected at most 16777216",
            ),
            ("SELECT range(30000000, 0, -1)", "a value of `range` has 240000000 bytes"),
            ("SELECT generate_series(1, 30000000)", "a value of `generate_series` has 240000000 bytes"),
            // The seconds of 2000 to 2002 are those of 3 × 365 + 1 days: 94,694,400 dates of 8 bytes.
            (
                "SELECT range(TIMESTAMP '2000-01-01', TIMESTAMP '2003-01-01', INTERVAL '1 second')",
                "a value of `range` has 757555200 bytes",
            ),
            ("SELECT repeat('äb', 10000000)", "a value of `repeat` has 30000000 bytes"),
            (
                "SELECT array_repeat(1::bigint, value) FROM range(3000000, 3000001)",
                "a value of `array_repeat` has 24000000 bytes",
            ),
            ("SELECT list_resize([1], 3000000)", "a value of `array_resize` has 24000000 bytes"),
            ("SELECT lpad('a', 20000000)", "a value of `lpad` has 20000000 bytes"),
            // 4,096 rows of 12,800 numbers of 8 bytes are 419,430,400 bytes.
            (
                "SELECT range(0, 12800 + value / 8192) FROM range(0, 4096)",
                "the values of `range` of 4096 rows have 419430400 bytes, expected at most 268435456",
            ),
        ] {
            let error = text(&session, sql, OutputFormat::Csv).unwrap_err().to_string();
            assert!(error.contains(expected), "{sql}: {error}");
        }
        for (sql, expected) in [
            ("SELECT cardinality(range(0, 2000000)) AS n", "n\n2000000\n"),
            ("SELECT cardinality(range(5, 0)) AS n, range(1, NULL) AS r", "n,r\n0,\n"),
            (
                "SELECT repeat('ab', 3) AS r, lpad('a', 3, 'xy') AS l, list_repeat('a', 2) AS a",
                "r,l,a\nababab,xya,\"[a, a]\"\n",
            ),
            // A constant of 16 MB in each row.
            ("SELECT count(*) AS n FROM (SELECT unnest(range(0, 2000000)) FROM range(0, 3))", "n\n6000000\n"),
        ] {
            assert_eq!(text(&session, sql, OutputFormat::Csv).unwrap(), expected, "{sql}");
        }
    }
}
