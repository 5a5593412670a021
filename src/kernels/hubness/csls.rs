//! CSLS, cross-domain similarity local scaling.
//!
//! Conneau, Lample, Ranzato, Denoyer, Jégou, "Word translation without parallel data", ICLR 2018; equation 6 of Liu and Ye,
//! "A Strong and Robust Baseline for Text-Image Matching", ACL SRW 2019.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distance::Distance;
use super::matrix::Matrix;
use super::method::{Correction, Needs, StatisticalMethod, Statistics};
use super::problems::{Problems, none};
use super::shift::Shift;
use super::statistic::Statistic;

/// Cross-domain similarity local scaling (Conneau et al., ICLR 2018): `s'(q, i) = 2·s(q, i) − r(q) − r(i)`, where r is the
/// mean of the `k` largest scores: of the query with the items, and of the item with queries, of the bank or of the test.
///
/// In a ranking `s − r(i)/2`, one number an item; across queries `s − r(i)/2 − r(q)/2`. An earlier draft (Liu and Ye,
/// submitted to EMNLP 2019, equation 6) prints for each direction only the term of its queries, which changes no ranking;
/// its two lines are taken to be swapped. The query itself is among those that r(i) is a mean of, in all sources; without it the
/// mean would be another one for the k queries that are nearest to the item, and rankings would differ.
///
/// # Cost
/// One pass over the scores for the largest of every item; one subtraction a score after that.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Csls {
    /// Neighbours whose mean score is taken off.
    pub k: usize,
    /// True if queries are those of the bank.
    pub bank: bool,
}

impl Default for Csls {
    fn default() -> Self {
        Self { k: 10, bank: false }
    }
}

impl StatisticalMethod for Csls {
    fn of_bank(&self) -> bool {
        self.bank
    }

    fn problems(&self) -> Problems {
        none("k", self.k).into_iter().collect()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        let mean = vec![Statistic::MeanOfLargest { k: self.k }];
        Needs { of_items: mean.clone(), of_queries: mean, ..Needs::default() }
    }

    fn correction(&self, of: &Statistics) -> Box<dyn Correction> {
        let [items, queries] = of.map(|mean| mean / 2.0);
        Box::new(Shift::new(items, queries))
    }

    fn definition(&self, scores: &Matrix, others: &Matrix, _: Distance) -> Matrix {
        let r = |values: &mut dyn Iterator<Item = f64>| mean_of_largest(values, self.k);
        Matrix::from_fn(scores.queries, scores.items, |query, item| {
            2.0 * scores.at(query, item) - r(&mut scores.row(query)) - r(&mut others.column(item))
        })
    }
}

/// The mean of the `k` largest values, of all where they are fewer.
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub(super) fn mean_of_largest(values: impl Iterator<Item = f64>, k: usize) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(|a, b| b.total_cmp(a));
    values.truncate(k);
    values.iter().sum::<f64>() / values.len() as f64
}
