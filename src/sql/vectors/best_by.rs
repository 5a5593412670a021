//! `max_by(x, y [, k])` and `min_by(x, y [, k])`: the `x` of the rows with the largest or smallest `y`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array, new_empty_array};
use arrow::compute::{SortColumn, SortOptions, and, concat, filter, is_not_null, lexsort_to_indices, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use az::SaturatingAs;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Documentation, Signature, Volatility};
use datafusion::physical_expr::expressions::Literal;

use super::documentation::documentation;

/// Largest k.
const MAX_K: usize = 1_000_000;

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
            [x, _] => Ok(x.clone()),
            [x, _, _] => Ok(list_of(x)),
            _ => plan_err!("`{}` has {} arguments, wanted x, y and perhaps k", self.name(), types.len()),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [x, y] => Ok(vec![x.clone(), y.clone()]),
            [x, y, k] if k.is_integer() => Ok(vec![x.clone(), y.clone(), DataType::Int64]),
            [_, _, k] => plan_err!("`{}` has a k of type {k}, wanted a whole number", self.name()),
            _ => plan_err!("`{}` has {} arguments, wanted x, y and perhaps k", self.name(), types.len()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part: &str, of: &FieldRef| {
            Arc::new(Field::new(format!("{}[{part}]", args.name), list_of(of.data_type()), true))
        };
        Ok(vec![field("x", &args.input_fields[0]), field("y", &args.input_fields[1])])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let k = match args.exprs.get(2) {
            None => None,
            Some(k) => match k.downcast_ref::<Literal>().map(Literal::value) {
                Some(ScalarValue::Int64(Some(k))) if (1..=MAX_K.saturating_as::<i64>()).contains(k) => {
                    Some((*k).saturating_as::<usize>())
                }
                _ => return plan_err!("`{}` has the k {k}, wanted a constant from 1 to {MAX_K}", self.name()),
            },
        };
        let [x, y] = [0, 1].map(|at| new_empty_array(args.expr_fields[at].data_type()));
        Ok(Box::new(BestRows { x, y, k, largest: self.largest }))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

fn list_of(item: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item.clone(), true)))
}

/// Best rows of a group so far, the best first.
#[derive(Debug)]
struct BestRows {
    x: ArrayRef,
    y: ArrayRef,
    /// Number of rows; `None` for one that is returned without a list.
    k: Option<usize>,
    largest: bool,
}

impl BestRows {
    fn add(&mut self, x: &ArrayRef, y: &ArrayRef) -> Result<()> {
        let counts = and(&is_not_null(x)?, &is_not_null(y)?)?;
        let (new_x, new_y) = (filter(x, &counts)?, filter(y, &counts)?);
        let x = concat(&[&*self.x, &*new_x])?;
        let y = concat(&[&*self.y, &*new_y])?;
        let position: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..y.len() as u64));
        let order = SortOptions { descending: self.largest, nulls_first: false };
        let columns = [
            SortColumn { values: Arc::clone(&y), options: Some(order) },
            SortColumn { values: position, options: None },
        ];
        let best = lexsort_to_indices(&columns, Some(self.k.unwrap_or(1)))?;
        (self.x, self.y) = (take(&x, &best, None)?, take(&y, &best, None)?);
        Ok(())
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
        match self.k {
            None if self.x.is_empty() => ScalarValue::try_from(self.x.data_type()),
            None => ScalarValue::try_from_array(&self.x, 0),
            Some(_) if self.x.is_empty() => ScalarValue::try_from(list_of(self.x.data_type())),
            Some(_) => Ok(SingleRowListArrayBuilder::new(Arc::clone(&self.x)).build_list_scalar()),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.x.get_array_memory_size() + self.y.get_array_memory_size()
    }
}
