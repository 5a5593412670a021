//! `captions`: the sentences of a data set.

use arrow::array::{Int64Array, StringArray};

use super::values::table;

table! {
    /// One row a caption; the captions of an image follow each other, images in the order of `images`.
    "captions" {
        /// Identifier, unique in the data set.
        caption_id: Int64Array,
        /// The image that it describes.
        image_id: Int64Array,
        /// The split of the image.
        split: StringArray,
        /// The sentence as people wrote it.
        text: StringArray,
    }
}
