//! `images`: the images of a data set.

use arrow::array::{BinaryArray, Int64Array, StringArray};

use super::Nullable;
use super::column::table;

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
        /// BLAKE3 digest of `bytes` in hexadecimal digits; missing if `bytes` is missing.
        digest: Nullable<StringArray>,
    }
}

/// Columns that hold a picture: the path of its file, or its bytes.
pub const PICTURE_COLUMNS: [&str; 2] = ["path", "bytes"];

/// Hint for stages that need pictures and get a table without them.
pub const PICTURES_HINT: &str = "these images have names only; `ingest` reads pictures with `image_folder` (a folder and \
                                 a table of captions), `karpathy`, `flickr`, `coco` or `synthetic`";
