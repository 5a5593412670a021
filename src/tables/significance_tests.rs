//! `significance_tests`: significance tests of the difference between two results.

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::Nullable;
use super::column::table;

table! {
    /// One row per protocol, method and measure: the difference from a baseline on the same queries, with a confidence
    /// interval and a p-value.
    "significance_tests" {
        /// Evaluation protocol, which defines the ranked pools: `coco-5k`, `coco-1k-five-fold`.
        protocol: StringArray,
        /// Ranking method.
        method: StringArray,
        /// Parameters of the method, and its query bank if it is not the test split: `beta = 30, query bank train`.
        parameters: Nullable<StringArray>,
        /// Ranking method of the baseline.
        baseline: StringArray,
        /// Parameters of the baseline's method.
        baseline_parameters: Nullable<StringArray>,
        /// Settings of the evaluation of the method, and of all that it follows from, that differ from those of the
        /// baseline: `train: loss = max, seed = 2`. Missing if there are none.
        settings: Nullable<StringArray>,
        /// Settings of the evaluation of the baseline, and of all that it follows from, that differ from those of the
        /// method.
        baseline_settings: Nullable<StringArray>,
        /// Key of the evaluation of the method, the column `key` of `store.artefacts`.
        evaluation: StringArray,
        /// Key of the evaluation of the baseline.
        baseline_evaluation: StringArray,
        /// Measure: `rsum`, or the recall of one direction at a cut-off: `i2t_r1`, `t2i_r10`.
        measure: StringArray,
        /// Value of the measure, in percent.
        value: Float64Array,
        /// Value of the baseline, in percent.
        baseline_value: Float64Array,
        /// `value` minus `baseline_value`.
        difference: Float64Array,
        /// Lower end of the 95 % confidence interval of the difference, by the paired bootstrap over images.
        ci95_low: Float64Array,
        /// Upper end of the 95 % confidence interval of the difference.
        ci95_high: Float64Array,
        /// Two-sided p-value of the paired randomisation test, which swaps the two results of an image and its captions
        /// in 9,999 random permutations. Not corrected for multiple comparisons.
        p_value: Float64Array,
        /// Number of queries with a hit by the method and none by the baseline; for `rsum`, summed over all recalls.
        wins: Int64Array,
        /// Number of queries with a hit by the baseline and none by the method; for `rsum`, summed over all recalls.
        losses: Int64Array,
        /// Number of queries of the measure, over all folds; for `rsum`, over both directions.
        n_queries: Int64Array,
        /// Number of images that the bootstrap resamples and the randomisation test swaps.
        n_images: Int64Array,
    }
}
