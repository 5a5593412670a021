//! `region_boxes`: boxes of the regions of images.

use arrow::array::{Int64Array, StringArray};

use super::regions::RegionColumn;
use super::values::table;

table! {
    /// One row per image: the boxes of its regions, in the order of `regions`.
    "region_boxes" {
        /// Identifier of the image.
        image_id: Int64Array,
        /// Split of the image.
        split: StringArray,
        /// Left, top, right and bottom edge of each region, as fractions of the width and height of the picture, f32; 0
        /// for a place without a region.
        boxes: RegionColumn,
    }
}
