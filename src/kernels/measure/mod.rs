//! Measures of retrieval: ranks, and what is computed of them.

pub mod rank;
pub mod recall;
pub mod interval;
pub mod chance;
#[cfg(test)]
mod golden;
