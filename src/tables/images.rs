//! `images`: the pictures of a data set.

use arrow::array::{BinaryArray, Int64Array, StringArray};

use super::Optional;
use super::values::table;

table! {
    /// One row an image, in the order of the data set.
    "images" {
        /// Identifier, unique in the data set.
        image_id: Int64Array,
        /// `train`, `restval`, `val` or `test`.
        split: StringArray,
        /// Name that people know the image by.
        file_name: StringArray,
        /// Where the file lies, relative to the image folder of the data set.
        path: Optional<StringArray>,
        /// The encoded picture itself, when it is in no file.
        bytes: Optional<BinaryArray>,
    }
}
