//! CSLS, cross-domain similarity local scaling.
//!
//! Conneau, Lample, Ranzato, Denoyer, Jégou, "Word translation without parallel data", ICLR 2018; equation 6 of Liu and
//! Ye, "A Strong and Robust Baseline for Text-Image Matching", ACL SRW 2019; equation 6, one-sided, of Liu and Ye,
//! "Improved Text-Image Matching by Mitigating Visual Semantic Hubs", submitted to EMNLP 2019.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distance::Distance;
use super::method::{
    Correction, DenseScores, ParameterProblems, RequiredStatistics, ScoreStatistics, ShiftCorrection, Statistic,
    StatisticalMethod, check_count,
};

/// Cross-domain similarity local scaling (Conneau et al., ICLR 2018): `s'(q, i) = 2·s(q, i) − r(q) − r(i)`, where r is
/// the mean of the `k` largest scores: of the query with the items, and of the item with the queries of the bank or of
/// the test.
///
/// The ranking is by `s − r(i)/2`, one shift for each item; `s − r(i)/2 − r(q)/2` is comparable between queries. In all
/// sources r(i) includes the query itself. Without it, r(i) would be different for the k queries that are nearest to the
/// item, and so would rankings.
///
/// Equation 6 of Liu and Ye (submitted to EMNLP 2019) has one term for each direction, and prints the query's, r(q). That
/// term changes no ranking, but the rankings of the paper's tables changed, so its two lines are taken as swapped:
/// `s'(q, i) = 2·s(q, i) − r(i)` (`item_side_only`). Rankings are the same with one term and with both. A matching is not,
/// because it compares scores of different queries.
///
/// # Cost
/// One pass over the scores for the largest scores of every item, then one subtraction for each score.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Csls {
    /// Number of neighbours whose mean score is subtracted.
    pub k: usize,
    /// True to learn from the queries of the bank, false to learn from the test queries.
    pub query_bank: bool,
    /// True to subtract r(i) alone, as equation 6 of the paper of RGM (Liu and Ye, 2019). Only matchings depend on it.
    pub item_side_only: bool,
}

impl Default for Csls {
    fn default() -> Self {
        Self { k: 10, query_bank: false, item_side_only: false }
    }
}

impl StatisticalMethod for Csls {
    fn is_inductive(&self) -> bool {
        self.query_bank
    }

    fn problems(&self) -> ParameterProblems {
        check_count("k", self.k).into_iter().collect()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    fn required_statistics(&self) -> RequiredStatistics {
        let mean = vec![Statistic::MeanOfLargest { k: self.k }];
        let query_statistics = if self.item_side_only { Vec::new() } else { mean.clone() };
        RequiredStatistics { item_statistics: mean, query_statistics, ..RequiredStatistics::default() }
    }

    fn correction(&self, statistics: &ScoreStatistics) -> Box<dyn Correction> {
        let [items, queries] = statistics.map_first(|mean| mean / 2.0);
        Box::new(ShiftCorrection::new(items, queries))
    }

    fn definition(&self, scores: &DenseScores, others: &DenseScores, _: Distance) -> DenseScores {
        let r = |values: &mut dyn Iterator<Item = f64>| mean_of_largest(values, self.k);
        DenseScores::from_fn(scores.queries, scores.items, |query, item| {
            let query_density = if self.item_side_only { 0.0 } else { r(&mut scores.row(query)) };
            2.0 * scores.at(query, item) - query_density - r(&mut others.column(item))
        })
    }
}

/// Mean of the `k` largest values; of all values if there are fewer.
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub(super) fn mean_of_largest(values: impl Iterator<Item = f64>, k: usize) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(|a, b| b.total_cmp(a));
    values.truncate(k);
    values.iter().sum::<f64>() / values.len() as f64
}
