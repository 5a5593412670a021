//! Distribution normalisation: vectors without a part of the mean vector.
//!
//! Zhou, Ren, Li, Zabih, Lim, "Test-Time Distribution Normalization for Contrastively Learned Visual-language Models",
//! NeurIPS 2023.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distance::Distance;
use super::matrix::Matrix;
use super::method::{Correction, Needs, StatisticalMethod, Statistics};
use super::problems::{Problems, not_a_weight};
use super::shift::Shift;
use super::statistic::Statistic;

/// The means of the bank's queries and items are taken off both vectors (Zhou et al., 2023):
/// `s'(q, i) = (q − λ·μ_q)·(i − λ·μ_i)`.
///
/// Of scores that are dot products `s − λ·m(i) − λ·m(q) + λ²·μ_q·μ_i`, where m(i) is the mean of the item's scores with the
/// queries, and m(q) that of the query's with the items. So in a ranking `s − λ·m(i)`, one number an item. With order
/// similarities, which are no products, that is the definition.
///
/// # Cost
/// One pass over the scores for their means; one subtraction a score after that.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct DistributionNormalisation {
    /// Part of the means that is taken off, λ.
    pub lambda: f64,
}

impl Default for DistributionNormalisation {
    fn default() -> Self {
        Self { lambda: 0.5 }
    }
}

impl StatisticalMethod for DistributionNormalisation {
    fn of_bank(&self) -> bool {
        true
    }

    fn problems(&self) -> Problems {
        not_a_weight("lambda", self.lambda).into_iter().collect()
    }

    fn needs(&self) -> Needs {
        let mean = vec![Statistic::Mean];
        Needs { of_items: mean.clone(), of_queries: mean, ..Needs::default() }
    }

    fn correction(&self, of: &Statistics) -> Box<dyn Correction> {
        let [items, queries] = of.map(|mean| self.lambda * mean);
        Box::new(Shift::new(items, queries))
    }

    /// In a ranking; [`distribution_normalisation`] is the definition on vectors.
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    fn definition(&self, scores: &Matrix, others: &Matrix, _: Distance) -> Matrix {
        Matrix::from_fn(scores.queries, scores.items, |query, item| {
            scores.at(query, item) - self.lambda * (others.column(item).sum::<f64>() / others.queries as f64)
        })
    }
}

/// The definition, on vectors.
///
/// # Shapes
/// - `queries`, `items`: rows of `width`; the means are of these rows
#[must_use]
pub fn distribution_normalisation(queries: &[f64], items: &[f64], width: usize, lambda: f64) -> Matrix {
    let centred = |rows: &[f64]| -> Vec<Vec<f64>> {
        let mean = mean_of_rows(rows, width);
        rows.chunks_exact(width).map(|row| row.iter().zip(&mean).map(|(x, mean)| x - lambda * mean).collect()).collect()
    };
    let (queries, items) = (centred(queries), centred(items));
    Matrix::from_fn(queries.len(), items.len(), |q, i| queries[q].iter().zip(&items[i]).map(|(a, b)| a * b).sum())
}

#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
fn mean_of_rows(rows: &[f64], width: usize) -> Vec<f64> {
    let count = (rows.len() / width) as f64;
    (0..width).map(|k| rows.chunks_exact(width).map(|row| row[k]).sum::<f64>() / count).collect()
}
