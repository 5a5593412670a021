//! Limit of the values that scalar functions and `||` compute: some make any number of bytes of a few, as `range` and `repeat`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, GenericListArray, OffsetSizeTrait, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, FieldRef, Float32Type, Float64Type};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable as _, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::PhysicalExpr as _;
use datafusion::physical_expr::expressions::{self, Column};

use pairloom_base::error::Error;

/// Largest size of the values that a call makes of a batch of rows, in bytes.
const MAX_VALUES_BYTES: u64 = 1 << 30;
/// Largest size of one of them. A constant is copied several times while a query is planned.
const MAX_VALUE_BYTES: u64 = 256 << 20;
/// Size up to which a text in which parts are replaced is not searched for them.
const UNSEARCHED_BYTES: u64 = 64 << 10;
/// Size of the value of a type whose values have no fixed size, without its content.
const VARIABLE_BYTES: u64 = 16;
/// Nanoseconds of a day, and days of the shortest month.
const DAY: i128 = 86_400_000_000_000;
const MONTH_DAYS: i128 = 28;

/// Size of the value that a function makes of a row, in bytes: an upper bound. The sizes of arguments are those of the row.
type ValueSize = fn(&RowArguments<'_>) -> Option<u64>;

/// Functions whose values can be much larger than their arguments.
const BOUNDED: [(&str, ValueSize); 13] = [
    ("range", range_size),
    ("generate_series", range_size),
    ("array_repeat", |row| Some(row.item_bytes(0)?.saturating_mul(row.count(1)?))),
    ("array_resize", resize_size),
    ("repeat", |row| Some(row.bytes(0)?.saturating_mul(row.count(1)?))),
    ("lpad", padded_size),
    ("rpad", padded_size),
    ("replace", exact_replace_size),
    ("regexp_replace", replace_size),
    ("array_to_string", joined_size),
    ("concat_ws", |row| {
        let separators = row.bytes(0)?.saturating_mul(row.arguments.len().saturating_sub(2) as u64);
        Some(row.total_bytes()?.saturating_add(separators))
    }),
    ("string_to_array", |row| Some(row.bytes(0)?.saturating_mul(VARIABLE_BYTES))),
    // `%c` becomes a date and a time of 24 bytes.
    ("to_char", |row| Some(row.bytes(1)?.saturating_mul(12))),
];

/// Functions whose values have at most the content of all arguments, in which a constant counts in each row.
const SUMS: [&str; 18] = [
    TextConcatenation::NAME,
    "concat",
    "array_concat",
    "make_array",
    "array_append",
    "array_prepend",
    "array_slice",
    "array_remove",
    "array_remove_n",
    "array_remove_all",
    "array_replace",
    "array_replace_n",
    "array_replace_all",
    "array_union",
    "array_except",
    "array_intersect",
    "overlay",
    "translate",
];

/// The functions, with a limit of their values.
pub(super) fn bounded_functions(functions: Vec<Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    functions.into_iter().map(bounded).collect()
}

/// The function, with a limit of its values if they can be large.
fn bounded(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    let total: ValueSize = |row| row.total_bytes();
    let sums = SUMS.iter().map(|name| (*name, total));
    match BOUNDED.into_iter().chain(sums).find(|(name, _)| *name == function.name()) {
        Some((_, size)) => Arc::new(ScalarUDF::new_from_impl(BoundedFunction { function, size })),
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
    fn name(&self) -> &'static str {
        "bounded_operators"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let concatenation = bounded_concatenation();
        let plan = plan.transform_up_with_subqueries(|plan| {
            let schema =
                if plan.inputs().is_empty() { plan.schema().as_ref().clone() } else { merge_schema(&plan.inputs()) };
            // An order within a function is part of its name, in which the function of `||` would be written as one.
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let limited = expr.transform_up(|part| Ok(with_limit(part, &schema, &concatenation)))?;
                Ok(limited.update_data(|expr| name.restore(expr)))
            })
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
        // Most batches are smaller than one value may be, and need no look at each row.
        if SUMS.contains(&self.name()) && batch_bytes(arguments, rows) <= MAX_VALUE_BYTES {
            return Ok(());
        }
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

/// Size of the contents of all arguments in all rows.
fn batch_bytes(arguments: &[ColumnarValue], rows: usize) -> u64 {
    let sizes = (0..).zip(arguments).map(|(index, argument)| match argument {
        ColumnarValue::Array(array) => content_bytes(array),
        ColumnarValue::Scalar(_) => {
            (RowArguments { arguments, row: 0 }).bytes(index).unwrap_or(0).saturating_mul(rows as u64)
        }
    });
    sizes.fold(0, u64::saturating_add)
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

    /// Size of an argument as an item of a list.
    fn item_bytes(&self, index: usize) -> Option<u64> {
        let is_text =
            matches!(self.arguments.get(index)?.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        Some(self.bytes(index)?.max(1).saturating_add(if is_text { VARIABLE_BYTES } else { 0 }))
    }

    /// Text of an argument; `None` if it is missing.
    fn text(&self, index: usize) -> Option<String> {
        self.value(index)?.try_as_str().flatten().map(str::to_owned)
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
        (0..self.arguments.len())
            .map(|index| self.bytes(index))
            .try_fold(0u64, |total, size| Some(total.saturating_add(size?)))
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

/// Size of a text of a number of characters, of which each may have four bytes.
fn padded_size(row: &RowArguments<'_>) -> Option<u64> {
    Some(row.count(1)?.saturating_mul(4))
}

/// Size of a text in which a part is replaced wherever it stands.
fn exact_replace_size(row: &RowArguments<'_>) -> Option<u64> {
    let most = replace_size(row)?;
    if most <= UNSEARCHED_BYTES {
        return Some(most);
    }
    let (text, from) = (row.text(0)?, row.text(1)?);
    let matches = text.matches(&from).count() as u64;
    Some(row.bytes(0)?.saturating_add(row.bytes(2)?.saturating_mul(matches)))
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

/// Function of two texts with the meaning and the name of the operator `||`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TextConcatenation {
    signature: Signature,
}

impl TextConcatenation {
    pub(super) const NAME: &str = "||";

    pub(super) fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TextConcatenation {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else { return exec_err!("`||` has {} sides, wanted 2", types.len()) };
        BinaryTypeCoercer::new(left, &Operator::StringConcat, right).get_result_type()
    }

    // Missing only if a side may be, as for the operator.
    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = arguments.arg_fields.iter().map(|side| side.data_type().clone()).collect();
        let is_nullable = arguments.arg_fields.iter().any(|side| side.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, is_nullable)))
    }

    fn schema_name(&self, sides: &[Expr]) -> Result<String> {
        let names = sides.iter().map(|side| side.schema_name().to_string());
        Ok(names.collect::<Vec<_>>().join(" || "))
    }

    fn display_name(&self, sides: &[Expr]) -> Result<String> {
        Ok(sides.iter().map(ToString::to_string).collect::<Vec<_>>().join(" || "))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|side| matches!(side, ColumnarValue::Scalar(_)));
        let sides = ColumnarValue::values_to_arrays(&arguments.args)?;
        let names = ["left", "right"];
        let [left, right] = [0, 1].map(|place| Arc::new(Column::new(names[place], place)));
        let operator = expressions::BinaryExpr::new(left, Operator::StringConcat, right);
        let value = operator.evaluate(&RecordBatch::try_from_iter(names.into_iter().zip(sides))?)?;
        match value {
            ColumnarValue::Array(texts) if is_constant => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?))
            }
            value => Ok(value),
        }
    }
}

/// Size of the view of a text, and of the start and the end of a list.
const VIEW_BYTES: u64 = 16;
/// Length of a value as text, if it is neither a text nor a number of binary digits.
const OTHER_TEXT_BYTES: u64 = 128;
/// Length of a number with a point as text, without the zeros next to the point.
const NUMBER_TEXT_BYTES: u64 = 25;

/// Size of the content of an array in bytes: that of a slice is its own, also of lists and of views of texts.
fn content_bytes(array: &dyn Array) -> u64 {
    let rows = array.len() as u64;
    if let Some(items) = list_items(array) {
        return content_bytes(&items).saturating_add(rows.saturating_mul(VIEW_BYTES));
    }
    match array.data_type() {
        DataType::Utf8View => views(rows, array.as_string_view().iter().flatten().map(str::len)),
        DataType::BinaryView => views(rows, array.as_binary_view().iter().flatten().map(<[u8]>::len)),
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|column| content_bytes(column)).fold(rows, u64::saturating_add)
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = dictionary.values();
            let keys = dictionary.normalized_keys();
            let sizes = keys.iter().enumerate().filter(|&(row, _)| dictionary.keys().is_valid(row));
            let sizes = sizes.map(|(_, &key)| content_bytes(&values.slice(key, 1)));
            sizes.fold(rows.saturating_mul(8), u64::saturating_add)
        }
        _ => array.to_data().get_slice_memory_size().map_or(0, |bytes| bytes as u64),
    }
}

/// Upper bound of the length of an array as text, in bytes, with so many bytes between two values.
fn text_bytes(array: &dyn Array, between: u64) -> u64 {
    let rows = array.len() as u64;
    let separators = rows.saturating_mul(between);
    let values = if let Some(items) = list_items(array) {
        text_bytes(&items, between)
    } else {
        match array.data_type() {
            DataType::Float32 => numbers::<Float32Type>(array),
            DataType::Float64 => numbers::<Float64Type>(array),
            kind if kind.is_integer() => rows.saturating_mul(NUMBER_TEXT_BYTES),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => content_bytes(array),
            _ => content_bytes(array).saturating_add(rows.saturating_mul(OTHER_TEXT_BYTES)),
        }
    };
    values.saturating_add(separators)
}

/// Size of views, and of the texts that they show.
fn views(rows: u64, lengths: impl Iterator<Item = usize>) -> u64 {
    lengths.fold(rows.saturating_mul(VIEW_BYTES), |total, length| total.saturating_add(length as u64))
}

/// Items of lists; `None` for other values.
fn list_items(array: &dyn Array) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::List(_) => Some(items_of(array.as_list::<i32>())),
        DataType::LargeList(_) => Some(items_of(array.as_list::<i64>())),
        DataType::FixedSizeList(..) => Some(Arc::clone(array.as_fixed_size_list().values())),
        _ => None,
    }
}

/// Items of lists, also of a slice.
fn items_of<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> ArrayRef {
    let (start, end) = (lists.value_offsets()[0].as_usize(), lists.value_offsets()[lists.len()].as_usize());
    lists.values().slice(start, end - start)
}

/// Length of numbers as text. All zeros of a large or small one are written: 1e300 has 301 digits.
fn numbers<T: ArrowPrimitiveType<Native: Into<f64>>>(array: &dyn Array) -> u64 {
    let zeros = |number: f64| {
        let exponent = i64::try_from((number.to_bits() >> 52) & 0x7ff).unwrap_or(0) - 1023;
        // Of a digit there are more than three powers of two.
        if number == 0.0 || !number.is_finite() { 0 } else { exponent.unsigned_abs() / 3 }
    };
    let array = array.as_primitive::<T>();
    array.iter().fold(0u64, |total, number| {
        total.saturating_add(NUMBER_TEXT_BYTES + number.map_or(0, |number| zeros(number.into())))
    })
}
