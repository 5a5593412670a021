//! Matchings of rows with columns: greedy ones without the score matrix in memory, and the best assignment of a small
//! matrix.

pub mod assignment;
mod greedy;

pub(super) use greedy::match_greedily;

pub use greedy::{GreedyMatching, GreedyRequest};
