//! Measures of retrieval: ranks, and what is computed of them; and how scores agree with people.
//!
//! A measure with rows in tables is a [`Metric`], in the list [`METRICS`].

pub mod metric;
pub mod rank;
pub mod recall;
pub mod interval;
pub mod chance;
pub mod sets;
pub mod mrr;
pub mod semantic_recall;
pub mod ncs;
pub mod graded;
pub mod correlation;
pub mod kendall;
pub mod hubs;
pub mod bootstrap;
pub mod hub_interval;
#[cfg(test)]
mod golden_graded;
#[cfg(test)]
mod golden_hubs;

use metric::Metric;

/// All metrics. Of what a pool gives, rows are in this order.
pub const METRICS: &[&dyn Metric] = &[
    &recall::Recall,
    &recall::MedianRank,
    &recall::MeanRank,
    &mrr::Mrr,
    &sets::SetRecall,
    &sets::MapAtR,
    &sets::RPrecision,
    &semantic_recall::SemanticRecall,
    &ncs::Ncs,
    &hubs::HubStatistics,
    &hubs::FoundBy,
];
