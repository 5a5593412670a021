//! Local scaling: distances in units of the neighbourhoods of both ends.
//!
//! Zelnik-Manor and Perona, "Self-tuning spectral clustering", NIPS 2004; against hubs: Schnitzer, Flexer, Schedl, Widmer,
//! "Local and Global Scaling Reduce Hubs in Space", JMLR 13, 2012.

use super::distance::{Distance, Measured, SMALLEST, Scaled};
use super::matrix::Matrix;
use super::method::{Correction, Method, Needs};
use super::problems::{Problems, none};
use super::statistic::Statistic;

/// `s'(q, i) = exp(−d² / (σ(q)·σ(i)))`, where σ is the distance to the `k`-th neighbour: of the query among the items, and
/// of the item among queries, of a bank (inductive) or of the test (transductive).
///
/// In a ranking `−d² / σ(i)`: one number an item, but not of the form s − h. σ counts as at least 1e-12.
///
/// # Cost
/// One pass over the scores for the k-th largest of every item; a product a score after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalScaling {
    /// The neighbour that is the measure, k, from 1.
    pub k: usize,
    /// Distances of the scores.
    pub distance: Distance,
}

impl Method for LocalScaling {
    fn problems(&self) -> Problems {
        none("k", self.k).into_iter().collect()
    }

    fn needs(&self) -> Needs {
        let kth = vec![Statistic::KthLargest { k: self.k }];
        Needs { of_items: kth.clone(), of_queries: kth, queries_change_rankings: false }
    }

    fn correction(&self, items: &[Vec<f64>], queries: &[Vec<f64>]) -> Box<dyn Correction> {
        let sigmas = |scores: &[f64]| {
            scores.iter().map(|&score| self.distance.squared(score).sqrt().max(SMALLEST)).collect::<Vec<_>>()
        };
        let of_queries = queries.first().map_or_else(Vec::new, |scores| sigmas(scores));
        Box::new(Scaled::new(self.distance, Measured::Squared, sigmas(&items[0]), of_queries))
    }
}

/// The definition.
///
/// # Shapes
/// - `bank`: scores of the queries of a bank with the same items; `None` takes the neighbours of items from the test queries
#[must_use]
pub fn local_scaling(scores: &Matrix, bank: Option<&Matrix>, settings: &LocalScaling) -> Matrix {
    let all = bank.unwrap_or(scores);
    let sigma = |values: &mut dyn Iterator<Item = f64>| {
        let mut distances: Vec<f64> = values.map(|score| settings.distance.squared(score).sqrt()).collect();
        distances.sort_by(f64::total_cmp);
        distances[(settings.k - 1).min(distances.len() - 1)].max(SMALLEST)
    };
    Matrix::from_fn(scores.queries, scores.items, |query, item| {
        let units = sigma(&mut scores.row(query)) * sigma(&mut all.column(item));
        (-settings.distance.squared(scores.at(query, item)) / units).exp()
    })
}
