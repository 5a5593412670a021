//! Distribution normalisation: subtracts a part of the mean vector from all vectors.
//!
//! Zhou, Ren, Li, Zabih, Lim, "Test-Time Distribution Normalization for Contrastively Learned Visual-language Models",
//! NeurIPS 2023.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distance::Distance;
use super::method::{
    Correction, DenseScores, ParameterProblems, RequiredStatistics, ScoreStatistics, ShiftCorrection, Statistic,
    StatisticalMethod, check_weight,
};

/// Subtracts the mean vectors of the bank's queries and items (Zhou et al., 2023):
/// `s'(q, i) = (q − λ·μ_q)·(i − λ·μ_i)`.
///
/// If scores are dot products, this is `s − λ·m(i) − λ·m(q) + λ²·μ_q·μ_i`, where m(i) is the mean score of the item
/// with the queries, and m(q) that of the query with the items. So the ranking is by `s − λ·m(i)`, one shift for each
/// item. For order similarities, which are not dot products, this is the definition.
///
/// # Cost
/// One pass over the scores for their means, then one subtraction for each score.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct DistributionNormalisation {
    /// Weight of the means, λ.
    pub lambda: f64,
}

impl Default for DistributionNormalisation {
    fn default() -> Self {
        Self { lambda: 0.5 }
    }
}

impl StatisticalMethod for DistributionNormalisation {
    fn is_inductive(&self) -> bool {
        true
    }

    fn problems(&self) -> ParameterProblems {
        check_weight("lambda", self.lambda).into_iter().collect()
    }

    fn required_statistics(&self) -> RequiredStatistics {
        let mean = vec![Statistic::Mean];
        RequiredStatistics { item_statistics: mean.clone(), query_statistics: mean, ..RequiredStatistics::default() }
    }

    fn correction(&self, statistics: &ScoreStatistics) -> Box<dyn Correction> {
        let [items, queries] = statistics.map_first(|mean| self.lambda * mean);
        Box::new(ShiftCorrection::new(items, queries))
    }

    /// Scores up to terms that do not change a ranking; [`distribution_normalisation`] is the definition on vectors.
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    fn definition(&self, scores: &DenseScores, others: &DenseScores, _: Distance) -> DenseScores {
        DenseScores::from_fn(scores.queries, scores.items, |query, item| {
            scores.at(query, item) - self.lambda * (others.column(item).sum::<f64>() / others.queries as f64)
        })
    }
}

/// The definition, on vectors.
///
/// # Shapes
/// - `queries`, `items`: rows of `width`; the means are of these rows
#[must_use]
pub fn distribution_normalisation(queries: &[f64], items: &[f64], width: usize, lambda: f64) -> DenseScores {
    let centred = |rows: &[f64]| -> Vec<Vec<f64>> {
        let mean = mean_of_rows(rows, width);
        rows.chunks_exact(width).map(|row| row.iter().zip(&mean).map(|(x, mean)| x - lambda * mean).collect()).collect()
    };
    let (queries, items) = (centred(queries), centred(items));
    DenseScores::from_fn(queries.len(), items.len(), |q, i| queries[q].iter().zip(&items[i]).map(|(a, b)| a * b).sum())
}

#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
fn mean_of_rows(rows: &[f64], width: usize) -> Vec<f64> {
    let count = (rows.len() / width) as f64;
    (0..width).map(|k| rows.chunks_exact(width).map(|row| row[k]).sum::<f64>() / count).collect()
}
