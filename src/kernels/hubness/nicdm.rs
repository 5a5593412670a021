//! NICDM, the non-iterative contextual dissimilarity measure.
//!
//! Jégou, Harzallah, Schmid, "A contextual dissimilarity measure for accurate and efficient image search", CVPR 2007; as a
//! remedy against hubs: Schnitzer, Flexer, Schedl, Widmer, "Local and Global Scaling Reduce Hubs in Space", JMLR 13, 2012.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distance::{Distance, SMALLEST};
use super::matrix::Matrix;
use super::method::{Correction, Needs, StatisticalMethod, Statistics};
use super::problems::{Problems, none};
use super::scaled::{Measured, Scaled};
use super::statistic::Statistic;

/// Distances over the mean distance of neighbours (Jégou et al., 2007): `d'(q, i) = d / √(μ(q)·μ(i))`, where μ is the mean
/// distance to the `k` nearest: of the query to items, and of the item to queries, of the bank or of the test.
///
/// d is the squared distance of cosines, and that of order similarities as it is. In a ranking `−d / √μ(i)`: one number an
/// item, but not of the form s − h. μ counts as at least 1e-12.
///
/// # Cost
/// One pass over the scores for the largest of every item; a product a score after that.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Nicdm {
    /// Neighbours.
    pub k: usize,
    /// True if queries are those of the bank.
    pub bank: bool,
}

impl Default for Nicdm {
    fn default() -> Self {
        Self { k: 10, bank: false }
    }
}

impl StatisticalMethod for Nicdm {
    fn of_bank(&self) -> bool {
        self.bank
    }

    fn problems(&self) -> Problems {
        none("k", self.k).into_iter().collect()
    }

    fn needs(&self) -> Needs {
        let mean = vec![Statistic::MeanOfLargest { k: self.k }];
        Needs { of_items: mean.clone(), of_queries: mean, distances: true, ..Needs::default() }
    }

    fn correction(&self, of: &Statistics) -> Box<dyn Correction> {
        let roots = of.map(|mean| of.distance.linear(mean).max(SMALLEST).sqrt());
        Box::new(Scaled::new(of.distance, Measured::Linear, roots))
    }

    /// `−d'`.
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    fn definition(&self, scores: &Matrix, others: &Matrix, distance: Distance) -> Matrix {
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let mut distances: Vec<f64> = values.map(|score| distance.linear(score)).collect();
            distances.sort_by(f64::total_cmp);
            distances.truncate(self.k);
            (distances.iter().sum::<f64>() / distances.len() as f64).max(SMALLEST)
        };
        Matrix::from_fn(scores.queries, scores.items, |query, item| {
            let product = mean(&mut scores.row(query)) * mean(&mut others.column(item));
            -(distance.linear(scores.at(query, item)) / product.sqrt())
        })
    }
}
