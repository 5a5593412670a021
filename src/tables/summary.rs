//! `summary`: a row of a paper's table.

use arrow::datatypes::DataType;

use super::metrics::parameters;
use super::{Column, Table};

/// One row a protocol and method.
#[must_use]
pub fn table() -> Table {
    let float = |name, about| Column::new(name, DataType::Float64, about);
    let rank = |name, about| Column::optional(name, DataType::Float64, about);
    Table {
        name: "summary",
        about: "One row a protocol and method: the row of a paper's table.",
        columns: vec![
            Column::new("protocol", DataType::Utf8, "Which pools were ranked: `coco-5k`, `coco-1k-five-fold`."),
            Column::new("method", DataType::Utf8, "How items were ranked: `nns` is the nearest neighbour."),
            parameters(),
            Column::new("transductive", DataType::Boolean, "Whether the method saw the test queries together."),
            Column::new("n_images", DataType::Int64, "Images in the pool, of one fold."),
            Column::new("n_captions", DataType::Int64, "Captions in the pool, of one fold."),
            float("i2t_r1", "Image to text, recall at 1, percent."),
            float("i2t_r5", "Image to text, recall at 5, percent."),
            float("i2t_r10", "Image to text, recall at 10, percent."),
            rank("i2t_medr", "Image to text, median rank, from 1."),
            rank("i2t_meanr", "Image to text, mean rank, from 1."),
            float("t2i_r1", "Text to image, recall at 1, percent."),
            float("t2i_r5", "Text to image, recall at 5, percent."),
            float("t2i_r10", "Text to image, recall at 10, percent."),
            rank("t2i_medr", "Text to image, median rank, from 1."),
            rank("t2i_meanr", "Text to image, mean rank, from 1."),
            float("rsum", "Sum of the six recalls."),
            float(
                "hs_sum",
                "Sum of the skewness of hubs at 1, 5 and 10, both ways: 0 where every item is found as often.",
            ),
        ],
    }
}
