//! `features`: global feature vectors of images.

use arrow::array::{Int64Array, StringArray};

use super::VectorColumn;
use super::column::table;

table! {
    /// One row per image: its global feature vector.
    "features" {
        /// Identifier of the image.
        image_id: Int64Array,
        /// Split of the image.
        split: StringArray,
        /// Feature vector, f32. All vectors of the table have the same width.
        feature: VectorColumn,
    }
}
