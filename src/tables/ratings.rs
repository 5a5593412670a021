//! `ratings`: what people say of pairs of captions and images.

use arrow::datatypes::DataType;

use super::{Column, Table};

/// One row a rated pair.
#[must_use]
pub fn table() -> Table {
    Table {
        name: "ratings",
        about: "One row a pair of caption and image that people rated.",
        columns: vec![
            Column::new("caption_id", DataType::Int64, "The caption."),
            Column::new("image_id", DataType::Int64, "The image."),
            Column::new(
                "rating",
                DataType::Float64,
                "What people gave, the mean of all of them: 0 to 5 in Crisscrossed Captions.",
            ),
            Column::new(
                "sampling",
                DataType::Utf8,
                "Why the pair was rated: `c2i_original` is a caption with its own image.",
            ),
        ],
    }
}
