//! Matchings of rows with columns: greedy ones without the matrix, and the best assignment of a small one.

pub mod assignment;
mod greedy;

pub(super) use greedy::match_greedily;

pub use greedy::{Greedy, Matched};
