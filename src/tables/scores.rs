//! `scores`: scores of images with captions.

use arrow::array::{Int64Array, StringArray};

use super::VectorColumn;
use super::column::table;

table! {
    /// One row per image of a split: its scores with all captions of the split.
    "scores" {
        /// Identifier of the image.
        image_id: Int64Array,
        /// Split of the image.
        split: StringArray,
        /// Score with each caption, f32, in the order of `scored_captions`. Higher is more similar.
        scores: VectorColumn,
    }
}
