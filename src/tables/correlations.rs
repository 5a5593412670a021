//! `correlations`: how well scores agree with people.

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::Optional;
use super::values::table;

table! {
    /// One row a score and a set of rated pairs: how well the score agrees with the ratings.
    "correlations" {
        /// The score, as the pipeline names it.
        score: StringArray,
        /// Which rated pairs: `all`, or those of a name that the pipeline gives, such as `non_gt`.
        pairs: StringArray,
        /// Rated pairs.
        n: Int64Array,
        /// Pearson's r; 0 where the score is constant, as all coefficients.
        pearson: Float64Array,
        /// Spearman's rho: Pearson's r of the ranks, ties at their mean rank.
        spearman: Float64Array,
        /// Kendall's tau-b, which corrects for ties on either side.
        kendall_b: Float64Array,
        /// Kendall's tau-c (Stuart), for tables that are not square.
        kendall_c: Float64Array,
        /// Pearson's r that a paper gives, as the pipeline says it.
        published: Optional<Float64Array>,
    }
}
