//! `correlations`: correlation of scores with human ratings.

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::Nullable;
use super::column::table;

table! {
    /// One row per score and set of rated pairs: the correlation of the score with the human ratings.
    "correlations" {
        /// Name of the score in the pipeline file.
        score: StringArray,
        /// Set of rated pairs: `all`, or a subset that the pipeline file names, such as `non_gt`.
        pairs: StringArray,
        /// Number of different rated pairs.
        n_pairs: Int64Array,
        /// Number of ratings: the correlated observations. Larger than `n_pairs` if several people rated a pair.
        n_ratings: Int64Array,
        /// Pearson's r. If the score is constant, all coefficients are 0.
        pearson: Float64Array,
        /// Spearman's rho: Pearson's r of the ranks, with mean ranks for ties.
        spearman: Float64Array,
        /// Kendall's tau-b, corrected for ties on either side.
        kendall_b: Float64Array,
        /// Kendall's tau-c (Stuart), for contingency tables that are not square.
        kendall_c: Float64Array,
        /// Published value of Pearson's r, copied from the pipeline file.
        published: Nullable<Float64Array>,
    }
}
