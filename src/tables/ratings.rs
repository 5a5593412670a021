//! `ratings`: human ratings of image-caption pairs.

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::values::table;

table! {
    /// One row per rated pair of a caption and an image.
    "ratings" {
        /// Identifier of the caption.
        caption_id: Int64Array,
        /// Identifier of the image.
        image_id: Int64Array,
        /// Mean human rating of the pair, from 0 to 5 in Crisscrossed Captions.
        rating: Float64Array,
        /// Sampling method that selected the pair: `c2i_original` pairs a caption with its own image.
        sampling: StringArray,
    }
}
