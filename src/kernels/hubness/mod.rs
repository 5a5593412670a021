//! Methods against hubs: items that are near to many queries, of which they match few.
//!
//! | method | in a ranking | needs of the items | test queries seen together |
//! |---|---|---|---|
//! | [`inverted_softmax`], [`csls`], [`nnn`], [`distribution_normalisation`] | s − h | statistics of scores with a bank | no |
//! | | | or with the test queries | yes |
//! | [`qb_norm`], [`db_norm`] | s − h, chosen for each query | statistics of banks, what banks retrieve | no |
//! | [`dis_sim_local`] | s − h | the items nearest to each item | no |
//! | [`sinkhorn`] | s − h | as many passes over the scores as iterations | with a bank no |
//! | [`dual_bank_sinkhorn`] | s − h | passes over scores of banks | no |
//! | [`local_scaling`], [`nicdm`] | −d / w | statistics of scores with a bank, or the test queries | with a bank no |
//! | [`mutual_proximity`] | Φ·Φ | means and deviations, of the queries too | with a bank no |
//! | [`empirical_proximity`] | shares of banks | all scores with banks | no |
//! | [`dual_softmax`] | s·softmax | a statistic of scores with the test queries | yes |
//! | [`greedy`], [`assignment`], [`k_best_assignment`] | a matching | candidates of every query, by any comparable scores | yes |
//!
//! Each file has the definition, on a small [`matrix`](matrix::Matrix) in f64, and what corrects scores as they come, a row at
//! a time. A method that needs no more than statistics of scores is a file here and nothing else
//! ([`StatisticalMethod`](method::StatisticalMethod)): its settings are those of pipeline files. Scores are similarities; ties
//! go to the lower index.

pub mod statistic;
pub mod matrix;
pub mod problems;
pub mod method;
pub mod shift;
pub mod inverted_softmax;
pub mod csls;
pub mod nnn;
pub mod distribution_normalisation;
pub mod dynamic;
pub mod qb_norm;
pub mod db_norm;
pub mod dis_sim_local;
pub mod sinkhorn;
pub mod dual_bank_sinkhorn;
pub mod distance;
pub mod scaled;
pub mod local_scaling;
pub mod nicdm;
pub mod mutual_proximity;
pub mod empirical_proximity;
pub mod dual_softmax;
pub mod greedy;
pub mod matching;
pub mod assignment;
pub mod k_best_assignment;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod matching_tests;
#[cfg(test)]
mod identity_tests;
#[cfg(test)]
pub(crate) mod golden;
