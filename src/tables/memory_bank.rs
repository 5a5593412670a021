//! `memory_bank`: the samples that a training compared its batches with, as the model saw them at the start of an epoch.

use arrow::datatypes::DataType;

use super::{Column, Table, vector};

/// One row a sample and epoch.
#[must_use]
pub fn table() -> Table {
    Table {
        name: "memory_bank",
        about: "One row a sample of the memory bank, for each of its versions: an image and one of its captions in the \
                joint space, by the model as it was when the epoch began.",
        columns: vec![
            Column::new("epoch", DataType::Int64, "The epoch, from 0, that used this version of the bank."),
            Column::new("data_set", DataType::Int64, "The data set of the sample, from 0."),
            Column::new("caption_id", DataType::Int64, "The caption."),
            Column::new("image_id", DataType::Int64, "The image that it describes."),
            Column::new("image", vector(0), "Vector of the image in the joint space, f32."),
            Column::new("caption", vector(0), "Vector of the caption in the joint space, f32."),
        ],
    }
}
