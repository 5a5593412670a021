//! `captions`: the captions of a data set.

use arrow::array::{Int64Array, StringArray};

use super::column::table;

table! {
    /// One row per caption. The captions of an image are adjacent; the images are in the order of `images`.
    "captions" {
        /// Identifier of the caption, unique in the data set.
        caption_id: Int64Array,
        /// Identifier of the image that the caption describes.
        image_id: Int64Array,
        /// Split of the image.
        split: StringArray,
        /// Text of the caption, unchanged except that surrounding white space is removed.
        text: StringArray,
    }
}
