//! `features`: what a network saw in an image.

use arrow::array::{Int64Array, StringArray};

use super::Vectors;
use super::values::table;

table! {
    /// One row an image: its global feature vector.
    "features" {
        /// The image.
        image_id: Int64Array,
        /// The split of the image.
        split: StringArray,
        /// Feature vector, f32, one width for the whole table.
        feature: Vectors,
    }
}
