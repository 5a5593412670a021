//! `scored_captions`: captions of the columns of `scores`.

use arrow::array::{Int64Array, StringArray};

use super::column::table;

table! {
    /// One row per caption of a split, in the order of the lists of `scores`.
    "scored_captions" {
        /// Identifier of the caption.
        caption_id: Int64Array,
        /// Identifier of the image that the caption describes.
        image_id: Int64Array,
        /// Split of the image.
        split: StringArray,
    }
}
