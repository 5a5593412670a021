//! `images`: the images of a data set.

use arrow::array::{BinaryArray, Int64Array, StringArray};

use super::Nullable;
use super::values::table;

table! {
    /// One row per image, in the order of the data set.
    "images" {
        /// Identifier of the image, unique in the data set.
        image_id: Int64Array,
        /// Split of the image: `train`, `restval`, `val` or `test`.
        split: StringArray,
        /// Name of the image in its data set.
        file_name: StringArray,
        /// Path of the image file, relative to the image folder of the data set; missing if there is no file.
        path: Nullable<StringArray>,
        /// Encoded image (PNG or JPEG) of a data set that has no image files; missing otherwise.
        bytes: Nullable<BinaryArray>,
    }
}
