//! Hubness at inference.

pub mod statistic;
