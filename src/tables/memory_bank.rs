//! `memory_bank`: embeddings of the samples in a training's memory bank.

use arrow::array::Int64Array;

use super::VectorColumn;
use super::column::table;

table! {
    /// One row per sample of the memory bank of each epoch that the training keeps: an image and one of its captions in
    /// the joint space, embedded by the model at the start of the epoch.
    "memory_bank" {
        /// Epoch, from 0, that used these embeddings.
        epoch: Int64Array,
        /// Number of the sample's data set, from 0.
        data_set: Int64Array,
        /// Identifier of the caption.
        caption_id: Int64Array,
        /// Identifier of the image that the caption describes.
        image_id: Int64Array,
        /// Vector of the image in the joint space, f32.
        image: VectorColumn,
        /// Vector of the caption in the joint space, f32.
        caption: VectorColumn,
    }
}
