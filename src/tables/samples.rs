//! `samples`: what a training reads, in the order in which its plan counts.

use arrow::datatypes::DataType;

use super::{Column, Table};

/// One row a training sample.
#[must_use]
pub fn table() -> Table {
    let words = DataType::new_list(DataType::Int32, false);
    Table {
        name: "samples",
        about: "One row a training sample, a caption with its image, in the order in which the plan of the epochs counts.",
        columns: vec![
            Column::new("data_set", DataType::Int64, "The data set, from 0: the first is `features` and `captions`."),
            Column::new("sample", DataType::Int64, "Number of the sample in its data set, from 0."),
            Column::new("caption_id", DataType::Int64, "The caption."),
            Column::new("image_id", DataType::Int64, "The image."),
            Column::new("shard", DataType::Int64, "The shard (part) of the features that holds the image."),
            Column::new("row", DataType::Int64, "The row of the image in that shard."),
            Column::new("words", words, "Numbers of the words of the caption, `<start>` and `<end>` among them."),
        ],
    }
}
