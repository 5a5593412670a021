//! `test_significance`: significance tests of the differences between two evaluations, or between methods of one.
//! `rankings` → `significance_tests`.

mod settings;
mod run;
mod hits;
mod paired;
mod compare;
#[cfg(test)]
mod tests;

pub use compare::{RankingComparison, compare_rankings};
pub use settings::TestSignificance;
