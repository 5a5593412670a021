//! Best rows of a group: a bounded list that grows row by row and merges with others.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Datum, StructArray, UInt64Array, new_empty_array};
use arrow::compute::kernels::cmp::{gt, lt};
use arrow::compute::{SortColumn, SortOptions, and, concat, filter, is_not_null, lexsort_to_indices, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use az::SaturatingAs;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::physical_expr::expressions::Literal;

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
                _ => return plan_err!("`{name}` has the k {k}, wanted a constant from 1 to {MAX_K}"),
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
