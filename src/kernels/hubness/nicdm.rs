//! NICDM, the non-iterative contextual dissimilarity measure.
//!
//! Jégou, Harzallah, Schmid, "A contextual dissimilarity measure for accurate and efficient image search", CVPR 2007; as a
//! remedy against hubs: Schnitzer, Flexer, Schedl, Widmer, "Local and Global Scaling Reduce Hubs in Space", JMLR 13, 2012.

use super::distance::{Distance, Measured, SMALLEST, Scaled};
use super::matrix::Matrix;
use super::method::{Correction, Method, Needs};
use super::problems::{Problems, none};
use super::statistic::Statistic;

/// `d'(q, i) = d / √(μ(q)·μ(i))`, where μ is the mean distance to the `k` nearest: of the query to items, and of the item to
/// queries, of a bank (inductive) or of the test (transductive).
///
/// d is the squared distance of cosines, and that of order similarities as it is ([`Distance::linear`]). In a ranking
/// `−d / √μ(i)`: one number an item, but not of the form s − h. μ counts as at least 1e-12.
///
/// # Cost
/// One pass over the scores for the largest of every item; a product a score after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nicdm {
    /// Neighbours that count, k.
    pub k: usize,
    /// Distances of the scores.
    pub distance: Distance,
}

impl Method for Nicdm {
    fn problems(&self) -> Problems {
        none("k", self.k).into_iter().collect()
    }

    fn needs(&self) -> Needs {
        let mean = vec![Statistic::MeanOfLargest { k: self.k }];
        Needs { of_items: mean.clone(), of_queries: mean, queries_change_rankings: false }
    }

    fn correction(&self, items: &[Vec<f64>], queries: &[Vec<f64>]) -> Box<dyn Correction> {
        let roots = |means: &[f64]| {
            means.iter().map(|&mean| self.distance.linear(mean).max(SMALLEST).sqrt()).collect::<Vec<_>>()
        };
        let of_queries = queries.first().map_or_else(Vec::new, |means| roots(means));
        Box::new(Scaled::new(self.distance, Measured::Linear, roots(&items[0]), of_queries))
    }
}

/// The definition: distances, so that lower is closer.
///
/// # Shapes
/// - `bank`: scores of the queries of a bank with the same items; `None` takes the neighbours of items from the test queries
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub fn nicdm(scores: &Matrix, bank: Option<&Matrix>, settings: &Nicdm) -> Matrix {
    let all = bank.unwrap_or(scores);
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let mut distances: Vec<f64> = values.map(|score| settings.distance.linear(score)).collect();
        distances.sort_by(f64::total_cmp);
        distances.truncate(settings.k);
        (distances.iter().sum::<f64>() / distances.len() as f64).max(SMALLEST)
    };
    Matrix::from_fn(scores.queries, scores.items, |query, item| {
        let product = mean(&mut scores.row(query)) * mean(&mut all.column(item));
        settings.distance.linear(scores.at(query, item)) / product.sqrt()
    })
}
