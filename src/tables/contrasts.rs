//! `contrasts`: whether two results differ by more than chance.

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::Optional;
use super::values::table;

table! {
    /// One row a protocol, method and measure: how far it is from another result of the same queries, and whether that
    /// could be chance.
    "contrasts" {
        /// Which pools were ranked: `coco-5k`, `coco-1k-five-fold`.
        protocol: StringArray,
        /// How items were ranked.
        method: StringArray,
        /// The free numbers of the method, and whom it learned from if not the test: `beta = 30, bank train`.
        parameters: Optional<StringArray>,
        /// The method that it is compared with.
        baseline: StringArray,
        /// Its parameters.
        baseline_parameters: Optional<StringArray>,
        /// `rsum`, or a recall at a cut-off: `i2t_r1`, `t2i_r10`.
        measure: StringArray,
        /// The measure, in percent.
        value: Float64Array,
        /// That of the baseline.
        baseline_value: Float64Array,
        /// The first less the second.
        difference: Float64Array,
        /// Lower end of the 95 % interval of the difference: the paired bootstrap over images.
        ci95_low: Float64Array,
        /// Upper end.
        ci95_high: Float64Array,
        /// How often results would differ at least as much by chance: the randomisation test, two-sided, which swaps
        /// the two results of an image and its captions, 9,999 times. Not corrected for the number of rows.
        p_value: Float64Array,
        /// Queries that hit and did not with the baseline; for `rsum`, of all recalls.
        won: Int64Array,
        /// Queries that did not hit and did with the baseline.
        lost: Int64Array,
        /// Queries of the measure, of all folds; for `rsum`, of both directions.
        n_queries: Int64Array,
        /// Images that were drawn, or swapped.
        n_images: Int64Array,
    }
}
