//! `memory_bank`: the samples that a training compared its batches with, as the model saw them at the start of an epoch.

use arrow::array::Int64Array;

use super::Vectors;
use super::values::table;

table! {
    /// One row a sample of the memory bank, for each of its versions: an image and one of its captions in the joint
    /// space, by the model as it was when the epoch began.
    "memory_bank" {
        /// The epoch, from 0, that used this version of the bank.
        epoch: Int64Array,
        /// The data set of the sample, from 0.
        data_set: Int64Array,
        /// The caption.
        caption_id: Int64Array,
        /// The image that it describes.
        image_id: Int64Array,
        /// Vector of the image in the joint space, f32.
        image: Vectors,
        /// Vector of the caption in the joint space, f32.
        caption: Vectors,
    }
}
