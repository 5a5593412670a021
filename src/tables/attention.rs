//! `attention`: attention between words of captions and regions of images.

use arrow::array::{Int64Array, StringArray};

use super::VectorColumn;
use super::column::table;

table! {
    /// One row per word of a caption: its attention weights with the regions of one image.
    "attention" {
        /// Identifier of the caption.
        caption_id: Int64Array,
        /// Identifier of the image.
        image_id: Int64Array,
        /// Split of both.
        split: StringArray,
        /// Position of the word among the tokens of the caption, from 0, which is `<start>`.
        position: Int64Array,
        /// Word, as the model reads it.
        word: StringArray,
        /// `t2i` if the word attends to the regions: its weights sum to 1. `i2t` if the regions attend to the words: the
        /// weights of a region sum to 1 over the words of the caption.
        direction: StringArray,
        /// Weight of each region, f32, in the order of `regions`; 0 for a place without a region.
        weights: VectorColumn,
    }
}
