//! Measures of retrieval: ranks, and what is computed of them; and how scores agree with people.

pub mod rank;
pub mod recall;
pub mod interval;
pub mod chance;
pub mod sets;
pub mod semantic_recall;
pub mod ncs;
pub mod graded;
pub mod correlation;
pub mod kendall;
pub mod hubs;
pub mod bootstrap;
pub mod hub_interval;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod golden_graded;
#[cfg(test)]
mod golden_hubs;
