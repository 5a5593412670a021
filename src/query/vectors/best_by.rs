//! `max_by(x, y [, k])` and `min_by(x, y [, k])`: the `x` of the rows with the largest or smallest `y`.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Documentation, Signature, Volatility};

use super::best_rows::{BestResult, BestRows};
use super::documentation::documentation;

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
            _ => plan_err!("`{}` has {} arguments, wanted x, y and perhaps k", self.name(), types.len()),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [x, y] => Ok(vec![x.clone(), y.clone()]),
            // A parameter of a statement has no type yet.
            [x, y, k] if k.is_integer() || k.is_null() => Ok(vec![x.clone(), y.clone(), DataType::Int64]),
            [_, _, k] => plan_err!("`{}` has a k of type {k}, wanted a whole number", self.name()),
            _ => plan_err!("`{}` has {} arguments, wanted x, y and perhaps k", self.name(), types.len()),
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
