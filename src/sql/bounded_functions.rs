//! Limit of the values that scalar functions compute: some make any number of bytes of a few, as `range` and `repeat`.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable as _, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::optimizer::AnalyzerRule;

use crate::error::Error;
use crate::sql::text_concatenation::TextConcatenation;
use crate::sql::value_sizes::{content_bytes, text_bytes};

/// Largest size of the values that a call makes of a batch of rows, in bytes.
const MAX_VALUES_BYTES: u64 = 1 << 30;
/// Largest size of one of them. A constant is copied several times while a query is planned.
const MAX_VALUE_BYTES: u64 = 256 << 20;
/// Size of the value of a type whose values have no fixed size, without its content.
const VARIABLE_BYTES: u64 = 16;
/// Nanoseconds of a day, and days of the shortest month.
const DAY: i128 = 86_400_000_000_000;
const MONTH_DAYS: i128 = 28;

/// Size of the value that a function makes of a row, in bytes: an upper bound. The sizes of arguments are those of the row.
type ValueSize = fn(&RowArguments<'_>) -> Option<u64>;

/// Functions whose values can be much larger than their arguments.
const BOUNDED: [(&str, ValueSize); 15] = [
    ("range", range_size),
    ("generate_series", range_size),
    ("array_repeat", |row| Some(row.bytes(0)?.max(1).saturating_mul(row.count(1)?))),
    ("array_resize", resize_size),
    ("repeat", |row| Some(row.bytes(0)?.saturating_mul(row.count(1)?))),
    ("lpad", |row| row.count(1)),
    ("rpad", |row| row.count(1)),
    ("replace", replace_size),
    ("regexp_replace", replace_size),
    ("array_to_string", joined_size),
    (TextConcatenation::NAME, |row| row.total_bytes()),
    ("concat", |row| row.total_bytes()),
    ("concat_ws", |row| {
        let separators = row.bytes(0)?.saturating_mul(row.arguments.len().saturating_sub(2) as u64);
        Some(row.total_bytes()?.saturating_add(separators))
    }),
    ("array_concat", |row| row.total_bytes()),
    ("make_array", |row| row.total_bytes()),
];

/// The functions, with a limit of their values.
pub(super) fn bounded_functions(functions: Vec<Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    functions.into_iter().map(bounded).collect()
}

/// The function, with a limit of its values if they can be large.
fn bounded(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match BOUNDED.iter().find(|(name, _)| *name == function.name()) {
        Some((_, size)) => Arc::new(ScalarUDF::new_from_impl(BoundedFunction { function, size: *size })),
        None => function,
    }
}

/// `a || b` of texts, with a limit of its values.
pub(super) fn bounded_concatenation() -> Arc<ScalarUDF> {
    bounded(Arc::new(ScalarUDF::new_from_impl(TextConcatenation::new())))
}

/// Analyzer rule that limits the values of operators: `||` of texts, and those that are planned as a function, as `||` of
/// lists and `[…]`.
#[derive(Debug)]
pub(super) struct BoundedOperators;

impl AnalyzerRule for BoundedOperators {
    fn name(&self) -> &str {
        "bounded_operators"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let concatenation = bounded_concatenation();
        let plan = plan.transform_up_with_subqueries(|plan| {
            let schema =
                if plan.inputs().is_empty() { plan.schema().as_ref().clone() } else { merge_schema(&plan.inputs()) };
            plan.map_expressions(|expr| expr.transform_up(|part| Ok(with_limit(part, &schema, &concatenation))))
        });
        Ok(plan?.data)
    }
}

/// Expression with a limit of its values, without its arguments. Columns are those of the schema.
fn with_limit(expr: Expr, schema: &DFSchema, concatenation: &Arc<ScalarUDF>) -> Transformed<Expr> {
    let is_text =
        |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View));
    let (func, args) = match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if !func.inner().is::<BoundedFunction>() => {
            (bounded(func), args)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })
            if is_text(&left) && is_text(&right) =>
        {
            (Arc::clone(concatenation), vec![*left, *right])
        }
        _ => return Transformed::no(expr),
    };
    Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
}

/// Function that fails before it makes a value of more than [`MAX_VALUE_BYTES`], or more than [`MAX_VALUES_BYTES`] of a
/// batch.
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
    fn check(&self, arguments: &[ColumnarValue], rows: usize) -> Result<()> {
        let is_constant = arguments.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { rows };
        let sizes = (0..rows).filter_map(|row| (self.size)(&RowArguments { arguments, row }));
        let (largest, total) =
            sizes.fold((0, 0u64), |(largest, total), size| (size.max(largest), total.saturating_add(size)));
        let (bytes, of, limit) = if largest > MAX_VALUE_BYTES {
            (largest, "one row".to_owned(), MAX_VALUE_BYTES)
        } else if total > MAX_VALUES_BYTES {
            (total, format!("{rows} rows"), MAX_VALUES_BYTES)
        } else {
            return Ok(());
        };
        let name = self.name();
        let error =
            Error::usage(format!("SQL: `{name}` would make up to {bytes} bytes of {of}, wanted at most {limit}"));
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

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        self.function.schema_name(arguments)
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

    // `concat` joins adjacent constants here.
    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let constants = arguments.iter().map(|argument| match argument {
            Expr::Literal(value, _) => ColumnarValue::Scalar(value.clone()),
            _ => ColumnarValue::Scalar(ScalarValue::Null),
        });
        self.check(&constants.collect::<Vec<_>>(), 1)?;
        self.function.simplify(arguments, info)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(types)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.check(&arguments.args, arguments.number_rows)?;
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
        if let ColumnarValue::Scalar(value) = self.arguments.get(index)?
            && let Some(text) = value.try_as_str()
        {
            return Some(text.map_or(0, str::len) as u64);
        }
        Some(content_bytes(&self.array(index)?))
    }

    /// Argument as an array of one value.
    fn array(&self, index: usize) -> Option<ArrayRef> {
        match self.arguments.get(index)? {
            ColumnarValue::Scalar(value) => value.to_array().ok(),
            ColumnarValue::Array(array) => Some(array.slice(self.row, 1)),
        }
    }

    /// Size of the contents of all arguments.
    fn total_bytes(&self) -> Option<u64> {
        (0..self.arguments.len()).map(|index| self.bytes(index)).try_fold(0u64, |total, size| total.checked_add(size?))
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

/// Length of the text of a list.
fn joined_size(row: &RowArguments<'_>) -> Option<u64> {
    let between = row.bytes(1)?.saturating_add(row.bytes(2).unwrap_or(0));
    Some(text_bytes(&row.array(0)?, between))
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
            ("repeat('a', 300000000)", "repeat"),
            ("repeat(arrow_cast(repeat('a', value), 'Utf8View'), 1000000) FROM range(1000, 1001)", "repeat"),
            ("array_to_string(range(0, 20000), repeat('a', 1000000))", "array_to_string"),
            ("array_to_string(array_repeat(NULL, 20000), ',', repeat('a', 1000000))", "array_to_string"),
            ("array_to_string(array_repeat(1e300, 2000000), '')", "array_to_string"),
            ("array_to_string(array_repeat(1e-300, 2000000), '')", "array_to_string"),
            (
                "list_to_string([range(0, 10000), range(value)], repeat('a', 100000)) FROM range(5, 6)",
                "array_to_string",
            ),
            // The values of columns are not computed while the query is planned.
            ("concat(x, value, x) FROM (SELECT repeat('a', 140000000 + value) x, value FROM range(1))", "concat"),
            ("x || x FROM (SELECT repeat('a', 140000000 + value) x FROM range(1))", "||"),
            ("value || x || x FROM (SELECT repeat('a', 140000000 + value) x, value FROM range(1))", "||"),
            ("concat_ws(repeat('a', 100000000), 1, 2, 3, 4)", "concat_ws"),
            ("concat_ws(repeat('a', 1000000 + value), value, 2, 3, 4) FROM range(1, 1000)", "concat_ws"),
            ("array_concat(x, x) FROM (SELECT range(0, 17000000 + value) x FROM range(1))", "array_concat"),
            ("x || x FROM (SELECT range(0, 17000000 + value) x FROM range(1))", "array_concat"),
            ("[x, x] FROM (SELECT range(0, 17000000 + value) x FROM range(1))", "make_array"),
            // Constants that are joined before anything is computed.
            ("concat(repeat('a', 140000000), repeat('a', 140000000))", "concat"),
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
            ("array_length(range(0, 30000000))", "30000000"),
            ("array_to_string([1.5, NULL, -2], ', ', '-')", "\"1.5, -, -2\""),
            ("array_to_string([[1, 2], [3]], '+')", "1+2+3"),
            ("concat('a', NULL, 2)", "a2"),
            ("'a' || 'b' || 2", "ab2"),
            ("'a' || value || arrow_cast('b', 'LargeUtf8') FROM range(1)", "a0b"),
            ("('a' || NULL) IS NULL", "true"),
            (
                "x || y FROM (SELECT value::varchar x, 'y' y FROM range(3)) GROUP BY x || y ORDER BY x || y LIMIT 1",
                "0y",
            ),
            ("count(*) FROM range(30) WHERE value::varchar || 'x' LIKE '2%x'", "11"),
            ("concat_ws('-', 'a', NULL, 2)", "a-2"),
            ("array_concat([1], [2, 3])", "\"[1, 2, 3]\""),
            ("[1] || [2]", "\"[1, 2]\""),
            ("[value, 2] FROM range(1)", "\"[0, 2]\""),
            // A batch of rows of vectors.
            ("max(length(array_to_string(array_repeat(value / 7.0, 2000), ' '))) FROM range(0, 8000)", "39999"),
            ("sum(value) FROM range(0, 100000)", "4999950000"),
        ] {
            let csv = text(&session, &format!("SELECT {call}"), OutputFormat::Csv).unwrap();
            let value = csv.split_once('\n').unwrap().1.trim_end_matches('\n');
            assert_eq!(value, wanted, "{call}");
        }
    }
}
