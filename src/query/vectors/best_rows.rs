//! The best rows of a group: `max_by` and `min_by`, `topk` and `bottomk`, over a bounded list that grows row by row and merges
//! with others.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Datum, StructArray, UInt64Array, new_empty_array};
use arrow::compute::kernels::cmp::{gt, lt};
use arrow::compute::{SortColumn, SortOptions, and, concat, filter, is_not_null, lexsort_to_indices, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use az::SaturatingAs;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;

use super::documentation;
use super::measure::{VectorMeasure, measure_function, vector_arguments};

/// Largest number of rows.
const MAX_K: usize = 1_000_000;

/// Result of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BestResult {
    /// The `x` of the best row.
    First,
    /// List of the `x`, the best first.
    Items,
    /// List of the pairs of `x` and `y`, the best first.
    ScoredItems,
}

impl BestResult {
    /// Type of the result.
    pub(super) fn data_type(self, x: &DataType, y: &DataType) -> DataType {
        match self {
            Self::First => x.clone(),
            Self::Items => list_of(x),
            Self::ScoredItems => list_of(&DataType::Struct(scored_fields(x, y).to_vec().into())),
        }
    }
}

/// Best rows of a group so far, the best first: the `x` and `y` of at most `k` rows. Of equal `y` the first one comes
/// first.
///
/// # Cost
/// A batch whose `y` are numbers costs a comparison of each row with the last of the list, and a sort of those that are
/// better. Memory: `k` rows.
#[derive(Debug)]
pub(super) struct BestRows {
    x: ArrayRef,
    y: ArrayRef,
    k: usize,
    /// True if larger `y` are better.
    largest: bool,
    result: BestResult,
}

impl BestRows {
    /// Empty list for the arguments x, y and perhaps k of a function.
    ///
    /// # Errors
    /// k is no constant, or out of bounds.
    pub(super) fn new(name: &str, args: &AccumulatorArgs<'_>, largest: bool, result: BestResult) -> Result<Self> {
        let k = match args.exprs.get(2) {
            None => 1,
            Some(k) => match k.downcast_ref::<Literal>().map(Literal::value) {
                Some(ScalarValue::Int64(Some(k))) if (1..=MAX_K.saturating_as::<i64>()).contains(k) => {
                    (*k).saturating_as::<usize>()
                }
                _ => return plan_err!("`{name}` has the k {k}, expected a constant from 1 to {MAX_K}"),
            },
        };
        let [x, y] = [0, 1].map(|at| new_empty_array(args.expr_fields[at].data_type()));
        Ok(Self { x, y, k, largest, result })
    }

    /// Fields of the state: the lists of x and y.
    pub(super) fn state_fields(args: &StateFieldsArgs<'_>) -> Vec<FieldRef> {
        let field = |part: &str, of: &FieldRef| {
            Arc::new(Field::new(format!("{}[{part}]", args.name), list_of(of.data_type()), true))
        };
        vec![field("x", &args.input_fields[0]), field("y", &args.input_fields[1])]
    }

    fn add(&mut self, x: &ArrayRef, y: &ArrayRef) -> Result<()> {
        let mut counts = and(&is_not_null(x)?, &is_not_null(y)?)?;
        // A full list takes few rows of a batch, so most are not sorted.
        if self.y.len() == self.k && y.data_type().is_numeric() {
            counts = and(&counts, &self.better_than_last(y)?)?;
        }
        let (new_x, new_y) = (filter(x, &counts)?, filter(y, &counts)?);
        if new_x.is_empty() {
            return Ok(());
        }
        let x = concat(&[&*self.x, &*new_x])?;
        let y = concat(&[&*self.y, &*new_y])?;
        let position: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..y.len() as u64));
        let order = SortOptions { descending: self.largest, nulls_first: false };
        let columns = [
            SortColumn { values: Arc::clone(&y), options: Some(order) },
            SortColumn { values: position, options: None },
        ];
        let best = lexsort_to_indices(&columns, Some(self.k))?;
        (self.x, self.y) = (take(&x, &best, None)?, take(&y, &best, None)?);
        Ok(())
    }

    /// Marks the values that come before the last one of the list. Both comparisons have the order of a sort: NaN is
    /// larger than any number.
    fn better_than_last(&self, y: &ArrayRef) -> Result<BooleanArray> {
        let last = ScalarValue::try_from_array(&self.y, self.k - 1)?.to_scalar()?;
        let last: &dyn Datum = &last;
        Ok(if self.largest { gt(y, last)? } else { lt(y, last)? })
    }

    /// Pairs of x and y.
    fn scored(&self) -> Result<ArrayRef> {
        let fields = scored_fields(self.x.data_type(), self.y.data_type());
        let columns = vec![Arc::clone(&self.x), Arc::clone(&self.y)];
        Ok(Arc::new(StructArray::try_new(fields.to_vec().into(), columns, None)?))
    }
}

impl Accumulator for BestRows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], &values[1])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (x, y) = (states[0].as_list::<i32>(), states[1].as_list::<i32>());
        (0..x.len()).filter(|&row| x.is_valid(row)).try_for_each(|row| self.add(&x.value(row), &y.value(row)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = |values: &ArrayRef| SingleRowListArrayBuilder::new(Arc::clone(values)).build_list_scalar();
        Ok(vec![list(&self.x), list(&self.y)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.x.is_empty() {
            return ScalarValue::try_from(self.result.data_type(self.x.data_type(), self.y.data_type()));
        }
        let list = |values| SingleRowListArrayBuilder::new(values).build_list_scalar();
        match self.result {
            BestResult::First => ScalarValue::try_from_array(&self.x, 0),
            BestResult::Items => Ok(list(Arc::clone(&self.x))),
            BestResult::ScoredItems => Ok(list(self.scored()?)),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.x.get_array_memory_size() + self.y.get_array_memory_size()
    }
}

fn list_of(item: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item.clone(), true)))
}

/// Fields of a scored item.
fn scored_fields(x: &DataType, y: &DataType) -> [Field; 2] {
    [Field::new("item", x.clone(), true), Field::new("score", y.clone(), true)]
}

/// Aggregate function `max_by` or `min_by`, as in `DuckDB`. With `k` it returns a list of the best k, the best first.
///
/// Rows with a missing `x` or `y` do not count. Of rows with equal `y` the first one wins; which one that is depends on
/// the order in which rows are read. NaN is larger than any number, as in `ORDER BY`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct BestBy {
    /// True for `max_by`.
    largest: bool,
    signature: Signature,
    aliases: Vec<String>,
    documentation: Documentation,
}

impl BestBy {
    pub(super) fn new(largest: bool) -> Self {
        let (name, aliases, which) = if largest {
            ("max_by", ["arg_max", "argmax"], "largest")
        } else {
            ("min_by", ["arg_min", "argmin"], "smallest")
        };
        let about = format!("x of the row with the {which} y; with k, a list of the best k, the best first.");
        Self {
            largest,
            signature: Signature::user_defined(Volatility::Immutable),
            aliases: aliases.map(str::to_owned).to_vec(),
            documentation: documentation(&about, &format!("{name}(x, y [, k])")),
        }
    }
}

/// Result of a call with this number of arguments.
fn result_of(arguments: usize) -> BestResult {
    if arguments == 2 { BestResult::First } else { BestResult::Items }
}

impl AggregateUDFImpl for BestBy {
    fn name(&self) -> &str {
        if self.largest { "max_by" } else { "min_by" }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [x, y] | [x, y, _] => Ok(result_of(types.len()).data_type(x, y)),
            _ => plan_err!("`{}` has {} arguments, expected x, y and perhaps k", self.name(), types.len()),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [x, y] => Ok(vec![x.clone(), y.clone()]),
            // A parameter of a statement has no type yet.
            [x, y, k] if k.is_integer() || k.is_null() => Ok(vec![x.clone(), y.clone(), DataType::Int64]),
            [_, _, k] => plan_err!("`{}` has a k of type {k}, expected a whole number", self.name()),
            _ => plan_err!("`{}` has {} arguments, expected x, y and perhaps k", self.name(), types.len()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(BestRows::state_fields(&args))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let result = result_of(args.exprs.len());
        Ok(Box::new(BestRows::new(self.name(), &args, self.largest, result)?))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

/// Name of the function of the largest scores, and of vectors.
pub(crate) const TOPK: &str = "topk";

/// Name of the function of the smallest scores.
pub(super) const BOTTOMK: &str = "bottomk";

/// Aggregate function of the k best rows of a group, the best first:
///
/// - `topk(x, score, k)` and `bottomk(x, score, k)`: the rows with the largest and the smallest scores.
/// - `topk(x, vector, query, k [, 'measure'])`: the rows whose vectors are nearest to a vector, by the function of this
///   name, `cosine_similarity` if it is left out.
///
/// Rows with a missing `x` or score do not count. Of rows with equal scores the first one that is read comes first.
/// Groups of parts of a table merge, so a table is read by all threads, and by all executors of a cluster.
///
/// # Cost
/// As the function of the measure, which computes a batch at once, and a comparison of each row. Memory: k rows a group.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TopKAggregate {
    /// True for `topk`.
    largest: bool,
    signature: Signature,
    documentation: Documentation,
}

impl TopKAggregate {
    pub(super) fn new(largest: bool) -> Self {
        let (about, syntax) = if largest {
            (
                "List of {item, score} of the k rows with the largest scores, or with the vectors nearest to a query, \
                 the best first.",
                "topk(x, score, k), topk(x, vector, query, k [, 'measure'])",
            )
        } else {
            (
                "List of {item, score} of the k rows with the smallest scores, the smallest first.",
                "bottomk(x, score, k)",
            )
        };
        Self {
            largest,
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: documentation(about, syntax),
        }
    }

    fn wrong_count<T>(&self, got: usize) -> Result<T> {
        plan_err!("`{}` has {got} arguments, expected `{}`", self.name(), self.documentation.syntax_example)
    }

    fn check_k(&self, of: &DataType) -> Result<DataType> {
        // A parameter of a statement has no type yet.
        if of.is_integer() || of.is_null() {
            return Ok(DataType::Int64);
        }
        plan_err!("`{}` has a k of type {of}, expected a whole number", self.name())
    }
}

impl AggregateUDFImpl for TopKAggregate {
    fn name(&self) -> &str {
        if self.largest { TOPK } else { BOTTOMK }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [x, score, _] => Ok(BestResult::ScoredItems.data_type(x, score)),
            [x, _, _, _] | [x, _, _, _, _] if self.largest => {
                Ok(BestResult::ScoredItems.data_type(x, &DataType::Float64))
            }
            _ => self.wrong_count(types.len()),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [x, score, k] => Ok(vec![x.clone(), score.clone(), self.check_k(k)?]),
            [x, vector, query, k, measure @ ..] if self.largest && measure.len() < 2 => {
                let [vector, query] = vector_arguments(TOPK, [vector, query])?;
                Ok([x.clone(), vector, query, self.check_k(k)?].into_iter().chain(measure.iter().cloned()).collect())
            }
            _ => self.wrong_count(types.len()),
        }
    }

    /// The form with vectors becomes the form with scores.
    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.largest.then(|| Box::new(|call, _: &_| with_scores(call)) as AggregateFunctionSimplification)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(BestRows::state_fields(&args))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.exprs.len() != 3 {
            return plan_err!("`{TOPK}` of vectors is no window function, expected `{TOPK}(x, score, k) OVER (…)`");
        }
        Ok(Box::new(BestRows::new(self.name(), &args, self.largest, BestResult::ScoredItems)?))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

/// Call of vectors as a call of scores.
fn with_scores(mut call: AggregateFunction) -> Result<Expr> {
    if let [x, vector, query, k, measure @ ..] = call.params.args.as_slice() {
        let measure = measure.first().map_or(Ok(VectorMeasure::CosineSimilarity), named_measure)?;
        let score = measure_function(measure).call(vec![vector.clone(), query.clone()]);
        call.params.args = vec![x.clone(), score, k.clone()];
        call.func = Arc::new(AggregateUDF::new_from_impl(TopKAggregate::new(measure.is_similarity())));
    }
    Ok(Expr::AggregateFunction(call))
}

/// Measure that a constant text names.
fn named_measure(expr: &Expr) -> Result<VectorMeasure> {
    let name = match expr {
        Expr::Literal(value, _) => ScalarValue::try_as_str(value).flatten(),
        _ => None,
    };
    let names = || VectorMeasure::ALL.map(VectorMeasure::name).join(", ");
    match name.map(|name| (name, VectorMeasure::from_name(name))) {
        Some((_, Some(measure))) => Ok(measure),
        Some((name, None)) => plan_err!("`{TOPK}` has the measure `{name}`, expected one of: {}", names()),
        None => plan_err!("`{TOPK}` has the measure {expr}, expected a constant text, one of: {}", names()),
    }
}
