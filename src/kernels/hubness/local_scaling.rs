//! Local scaling: distances in units of the neighbourhoods of both ends.
//!
//! Zelnik-Manor and Perona, "Self-tuning spectral clustering", NIPS 2004; against hubs: Schnitzer, Flexer, Schedl, Widmer,
//! "Local and Global Scaling Reduce Hubs in Space", JMLR 13, 2012.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distance::{Distance, SMALLEST};
use super::matrix::Matrix;
use super::method::{Correction, Needs, StatisticalMethod, Statistics};
use super::problems::{Problems, none};
use super::scaled::{Measured, Scaled};
use super::statistic::Statistic;

/// Distances over those of the k-th neighbours (Zelnik-Manor, Perona, 2005): `s'(q, i) = exp(−d² / (σ(q)·σ(i)))`, where σ is
/// the distance to the `k`-th neighbour: of the query among the items, and of the item among queries, of the bank or of the
/// test.
///
/// In a ranking `−d² / σ(i)`: one number an item, but not of the form s − h. σ counts as at least 1e-12.
///
/// # Cost
/// One pass over the scores for the k-th largest of every item; a product a score after that.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct LocalScaling {
    /// Which neighbour.
    pub k: usize,
    /// True if queries are those of the bank.
    pub bank: bool,
}

impl Default for LocalScaling {
    fn default() -> Self {
        Self { k: 10, bank: false }
    }
}

impl StatisticalMethod for LocalScaling {
    fn of_bank(&self) -> bool {
        self.bank
    }

    fn problems(&self) -> Problems {
        none("k", self.k).into_iter().collect()
    }

    fn needs(&self) -> Needs {
        let kth = vec![Statistic::KthLargest { k: self.k }];
        Needs { of_items: kth.clone(), of_queries: kth, distances: true, ..Needs::default() }
    }

    fn correction(&self, of: &Statistics) -> Box<dyn Correction> {
        let sigmas = of.map(|score| of.distance.squared(score).sqrt().max(SMALLEST));
        Box::new(Scaled::new(of.distance, Measured::Squared, sigmas))
    }

    fn definition(&self, scores: &Matrix, others: &Matrix, distance: Distance) -> Matrix {
        let sigma = |values: &mut dyn Iterator<Item = f64>| {
            let mut distances: Vec<f64> = values.map(|score| distance.squared(score).sqrt()).collect();
            distances.sort_by(f64::total_cmp);
            distances[(self.k - 1).min(distances.len() - 1)].max(SMALLEST)
        };
        Matrix::from_fn(scores.queries, scores.items, |query, item| {
            let units = sigma(&mut scores.row(query)) * sigma(&mut others.column(item));
            (-distance.squared(scores.at(query, item)) / units).exp()
        })
    }
}
