//! `region_boxes`: boxes of the regions of images.

use arrow::array::{Int64Array, RecordBatch, StringArray};

use super::column::table;
use super::regions::{self, RegionColumn};
use pairloom_base::error::Result;

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

/// Returns the column `boxes` without a copy, as (values, number of regions of an image, 4). The values are ordered by
/// image, then by region.
pub fn values(batch: &RecordBatch) -> Result<(&[f32], usize, usize)> {
    regions::vectors(batch, "boxes")
}
