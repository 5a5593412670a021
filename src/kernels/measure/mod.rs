//! Evaluation measures: of retrieval (ranks, recall, graded relevance, hubness), and of the agreement of scores with
//! human judgements.
//!
//! A measure with rows in tables is a [`Metric`], in the list [`METRICS`].

pub mod metric;
pub mod recall;
pub mod set_measures;
pub mod graded_ranking;
pub mod correlation;
pub mod hubs;
pub mod bootstrap;
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
    &recall::Mrr,
    &set_measures::SetRecall,
    &set_measures::MapAtR,
    &set_measures::RPrecision,
    &graded_ranking::SemanticRecall,
    &graded_ranking::Ncs,
    &hubs::HubStatistics,
    &hubs::KOccurrenceRate,
];
