//! `captions`: the sentences of a data set.

use arrow::datatypes::DataType;

use super::{Column, Table};

/// One row a caption; the captions of an image follow each other, images in the order of `images`.
#[must_use]
pub fn table() -> Table {
    Table {
        name: "captions",
        about: "One row a caption; the captions of an image follow each other, images in the order of `images`.",
        columns: vec![
            Column::new("caption_id", DataType::Int64, "Identifier, unique in the data set."),
            Column::new("image_id", DataType::Int64, "The image that it describes."),
            Column::new("split", DataType::Utf8, "The split of the image."),
            Column::new("text", DataType::Utf8, "The sentence as people wrote it."),
        ],
    }
}
