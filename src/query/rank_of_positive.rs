//! `rank_of_positive(score, is_positive)`: rank of the best positive item among the scores of a query.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Documentation, Signature, Volatility};

/// Name of the function.
const NAME: &str = "rank_of_positive";

/// Aggregate function: 1 + the number of items whose score is above that of the best positive item, over the items of a
/// query. With it, recall at 10 is `avg((rank <= 10)::int)`.
///
/// Among equal scores the positive item comes first (the optimistic rank). The result is missing if no item is positive.
/// Items with a missing score or a missing `is_positive` do not count; a score that is not a number counts as −∞.
///
/// # Cost
/// Memory: the scores above that of the best positive item that was read; all scores before the first.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RankOfPositive {
    signature: Signature,
    documentation: Documentation,
}

impl RankOfPositive {
    pub(super) fn new() -> Self {
        let about = "Rank of the best positive item of a query, from 1; of equal scores the positive item comes first.";
        let types = vec![DataType::Float64, DataType::Boolean];
        Self {
            signature: Signature::exact(types, Volatility::Immutable),
            documentation: Documentation::builder(
                datafusion::logical_expr::DocSection::default(),
                about,
                format!("{NAME}(score, is_positive)"),
            )
            .build(),
        }
    }
}

impl AggregateUDFImpl for RankOfPositive {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part: &str, of: DataType| Arc::new(Field::new(format!("{}[{part}]", args.name), of, true));
        let scores = DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)));
        Ok(vec![field("best", DataType::Float64), field("above", scores)])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return plan_err!("`{NAME}(DISTINCT …)` is not known, expected `{NAME}(score, is_positive)`");
        }
        Ok(Box::new(PositiveRank::default()))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

/// Scores of a query so far.
#[derive(Debug, Default)]
struct PositiveRank {
    /// Score of the best positive item.
    best: Option<f64>,
    /// Scores of other items above it.
    above: Vec<f64>,
}

impl PositiveRank {
    fn add(&mut self, score: f64, is_positive: bool) {
        let score = if score.is_nan() { f64::NEG_INFINITY } else { score };
        if is_positive {
            self.raise(score);
        } else if self.best.is_none_or(|best| score > best) {
            self.above.push(score);
        }
    }

    /// Adds the score of a positive item.
    fn raise(&mut self, score: f64) {
        if self.best.is_none_or(|best| score > best) {
            self.best = Some(score);
            self.above.retain(|&other| other > score);
        }
    }
}

impl Accumulator for PositiveRank {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (scores, positives) = (values[0].as_primitive::<Float64Type>(), values[1].as_boolean());
        for (score, is_positive) in scores.iter().zip(positives) {
            if let (Some(score), Some(is_positive)) = (score, is_positive) {
                self.add(score, is_positive);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (best, above) = (states[0].as_primitive::<Float64Type>(), states[1].as_list::<i32>());
        for row in 0..best.len() {
            if best.is_valid(row) {
                self.raise(best.value(row));
            }
            if above.is_valid(row) {
                let scores = above.value(row);
                scores.as_primitive::<Float64Type>().values().iter().for_each(|&score| self.add(score, false));
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let above: ArrayRef = Arc::new(Float64Array::from(self.above.clone()));
        Ok(vec![ScalarValue::Float64(self.best), SingleRowListArrayBuilder::new(above).build_list_scalar()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let rank = || i64::try_from(self.above.len()).unwrap_or(i64::MAX).saturating_add(1);
        Ok(ScalarValue::Int64(self.best.map(|_| rank())))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.above.capacity() * size_of::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{store, text};
    use crate::{OutputFormat, Session};

    #[test]
    fn ranks_are_counted_in_every_order_and_split() {
        let (_folder, store, _) = store();
        let session = Session::open(&store).unwrap();
        let csv = |sql: &str| text(&session, sql, OutputFormat::Csv).unwrap();
        // Query 1: the better of two positives has two better items and one equal. Query 2 has none. Query 3: the first.
        let rows = "(VALUES (1, 0.5, true), (1, 0.9, false), (1, 0.7, true), (1, 0.7, false), (1, 0.8, false), \
                    (1, NULL, false), (1, 'nan'::double, false), (2, 0.1, false), (3, 0.2, true), (3, 0.1, false)) \
                    AS t(q, s, p)";
        let sql = format!("SELECT q, rank_of_positive(s, p) AS rank FROM {rows} GROUP BY q ORDER BY q");
        assert_eq!(csv(&sql), "q,rank\n1,3\n2,\n3,1\n");
        // Positives first, and last.
        for order in ["p", "p DESC"] {
            let sql = format!("SELECT rank_of_positive(s, p ORDER BY {order}) AS rank FROM {rows} WHERE q = 1");
            assert_eq!(csv(&sql), "rank\n3\n");
        }
        assert_eq!(
            csv(&format!("SELECT avg((r <= 1)::int) AS r1 FROM ({sql}) AS t(q, r) WHERE r IS NOT NULL")),
            "r1\n0.5\n"
        );
    }

    #[test]
    fn states_merge() {
        let part = |rows: &[(f64, bool)]| {
            let mut part = PositiveRank::default();
            for &(score, is_positive) in rows {
                part.add(score, is_positive);
            }
            part
        };
        let rows = [(0.5, true), (0.9, false), (0.7, true), (0.7, false), (0.8, false), (0.1, false)];
        for cut in 0..=rows.len() {
            let mut whole = PositiveRank::default();
            for half in [&rows[..cut], &rows[cut..]] {
                let state = part(half).state().unwrap();
                let arrays: Vec<ArrayRef> = state.iter().map(|value| value.to_array().unwrap()).collect();
                whole.merge_batch(&arrays).unwrap();
            }
            assert_eq!(whole.evaluate().unwrap(), ScalarValue::Int64(Some(3)), "{cut}");
        }
    }
}
