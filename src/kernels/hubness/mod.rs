//! Hubness reduction: methods that correct scores against hubs. A hub is an item that is near to many queries, most of
//! which it does not match.
//!
//! | method | ranking by | further input | transductive |
//! |---|---|---|---|
//! | [`inverted_softmax`], [`csls`] | s − h | statistics of scores with a bank or the test | yes; with a bank no |
//! | [`nnn`], [`distribution_normalisation`] | s − h | statistics of scores with a query bank | no |
//! | [`qb_norm`], [`db_norm`] | s − h, chosen for each query | statistics of banks, items that banks retrieve | no |
//! | [`dis_sim_local`] | s − h | the items nearest to each item | no |
//! | [`sinkhorn`] | s − h | one pass over the scores for each iteration | yes; with a bank no |
//! | [`dual_bank_sinkhorn`](sinkhorn::dual_bank_sinkhorn) | s − h | passes over the scores of banks | no |
//! | [`local_scaling`], [`nicdm`] | −d / w | as of [`csls`] | yes; with a bank no |
//! | [`mutual_proximity`] | Φ·Φ | means and standard deviations, of the queries too | yes; with a bank no |
//! | mutual proximity with [`SortedScores`](mutual_proximity::SortedScores) | product of two shares | all scores with banks, or of the test | yes; with banks no |
//! | [`dual_softmax`] | s·softmax | a statistic of scores with the test queries | yes |
//! | [`relaxed_greedy`], [`assignment`], [`k_best_assignment`] | matching | candidates by comparable scores | yes |
//!
//! Here s is the score of a query and an item, h a number of the item, d a distance, w a weight of the item, and Φ the
//! normal CDF. A method is *transductive* if the result of a test query depends on the other test queries, and
//! *inductive* if it learns from a query bank only.
//!
//! Each file has the definition of its method on a small dense matrix in f64
//! ([`DenseScores`](method::DenseScores)), and the correction that is applied to rows of scores as they are
//! computed. A method that needs only statistics of scores ([`StatisticalMethod`](method::StatisticalMethod)) consists
//! of its file here; the struct in it holds its settings in pipeline files. Scores are similarities: higher is closer.
//! Ties go to the lower index.

pub mod method;
pub mod inverted_softmax;
pub mod csls;
pub mod nnn;
pub mod distribution_normalisation;
pub mod qb_norm;
pub mod db_norm;
pub mod dis_sim_local;
pub mod sinkhorn;
pub mod distance;
pub mod local_scaling;
pub mod nicdm;
pub mod mutual_proximity;
pub mod dual_softmax;
pub mod relaxed_greedy;
pub mod assignment;
pub mod k_best_assignment;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod matching_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
pub(crate) mod testing;
