//! Evaluation measures: of retrieval (ranks, recall, graded relevance, hubness), and of the agreement of scores with
//! human judgements.
//!
//! A measure with rows in tables is a [`Metric`], in the list [`METRICS`].

pub mod metric;
pub mod rank;
pub mod recall;
pub mod wilson_interval;
pub mod chance;
pub mod set_measures;
pub mod mrr;
pub mod semantic_recall;
pub mod ncs;
pub mod graded_ranking;
pub mod correlation;
pub mod kendall;
pub mod duplicate_rows;
pub mod hubs;
pub mod bootstrap;
pub mod hs_sum_interval;
#[cfg(test)]
mod graded_golden_tests;
#[cfg(test)]
mod hubs_golden_tests;

use metric::Metric;

/// All metrics. Rows of metrics of a whole pool are in this order.
pub const METRICS: &[&dyn Metric] = &[
    &recall::Recall,
    &recall::MedianRank,
    &recall::MeanRank,
    &mrr::Mrr,
    &set_measures::SetRecall,
    &set_measures::MapAtR,
    &set_measures::RPrecision,
    &semantic_recall::SemanticRecall,
    &ncs::Ncs,
    &hubs::HubStatistics,
    &hubs::KOccurrenceRate,
];
