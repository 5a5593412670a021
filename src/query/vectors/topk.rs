//! `topk` and `bottomk`: the best k rows of a group with their scores, as a list of `{item, score}`.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, Signature, Volatility,
};

use super::best_rows::{BestResult, BestRows};
use super::documentation::documentation;
use super::measure::VectorMeasure;
use super::measure_call::{measure_function, vector_arguments};

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
        plan_err!("`{}` has {got} arguments, wanted `{}`", self.name(), self.documentation.syntax_example)
    }

    fn check_k(&self, of: &DataType) -> Result<DataType> {
        // A parameter of a statement has no type yet.
        if of.is_integer() || of.is_null() {
            return Ok(DataType::Int64);
        }
        plan_err!("`{}` has a k of type {of}, wanted a whole number", self.name())
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
            return plan_err!("`{TOPK}` of vectors is no window function, wanted `{TOPK}(x, score, k) OVER (…)`");
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
        Some((name, None)) => plan_err!("`{TOPK}` has the measure `{name}`, wanted one of: {}", names()),
        None => plan_err!("`{TOPK}` has the measure {expr}, wanted a constant text, one of: {}", names()),
    }
}
