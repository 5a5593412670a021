//! CSLS, cross-domain similarity local scaling.
//!
//! Conneau, Lample, Ranzato, Denoyer, Jégou, "Word translation without parallel data", ICLR 2018; equation 6 of Liu and Ye,
//! "A Strong and Robust Baseline for Text-Image Matching", ACL SRW 2019.

use super::matrix::Matrix;
use super::method::{Correction, Method, Needs};
use super::problems::{Problems, none};
use super::shift::Shift;
use super::statistic::Statistic;

/// `s'(q, i) = 2·s(q, i) − r(q) − r(i)`, where r is the mean of the `k` largest scores: of the query with the items, and of
/// the item with queries, of a bank (inductive) or of the test (transductive).
///
/// In a ranking `s − r(i)/2`, one number an item; across queries `s − r(i)/2 − r(q)/2`. An earlier draft (Liu and Ye,
/// submitted to EMNLP 2019, equation 6) prints for each direction only the term of its queries, which changes no ranking;
/// its two lines are taken to be swapped. The query itself is among those that r(i) is a mean of, in all sources; without it the
/// mean would be another one for the k queries that are nearest to the item, and rankings would differ.
///
/// # Cost
/// One pass over the scores for the largest of every item; one subtraction a score after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Csls {
    /// Neighbours that count, k.
    pub k: usize,
}

impl Default for Csls {
    fn default() -> Self {
        Self { k: 10 }
    }
}

impl Method for Csls {
    fn problems(&self) -> Problems {
        none("k", self.k).into_iter().collect()
    }

    fn needs(&self) -> Needs {
        let mean = vec![Statistic::MeanOfLargest { k: self.k }];
        Needs { of_items: mean.clone(), of_queries: mean, queries_change_rankings: false }
    }

    fn correction(&self, items: &[Vec<f64>], queries: &[Vec<f64>]) -> Box<dyn Correction> {
        let half = |means: &[f64]| means.iter().map(|mean| mean / 2.0).collect();
        Box::new(Shift::new(half(&items[0]), queries.first().map_or_else(Vec::new, |means| half(means))))
    }
}

/// The definition.
///
/// # Shapes
/// - `bank`: scores of the queries of a bank with the same items; `None` takes the neighbours of items from the test queries
#[must_use]
pub fn csls(scores: &Matrix, bank: Option<&Matrix>, k: usize) -> Matrix {
    let all = bank.unwrap_or(scores);
    Matrix::from_fn(scores.queries, scores.items, |query, item| {
        2.0 * scores.at(query, item) - mean_of_largest(scores.row(query), k) - mean_of_largest(all.column(item), k)
    })
}

/// The mean of the `k` largest values, of all where they are fewer.
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub(super) fn mean_of_largest(values: impl Iterator<Item = f64>, k: usize) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(|a, b| b.total_cmp(a));
    values.truncate(k);
    values.iter().sum::<f64>() / values.len() as f64
}
