//! `features`: what a network saw in an image.

use arrow::datatypes::DataType;

use super::{Column, Table, vector};

/// One row an image.
#[must_use]
pub fn table() -> Table {
    Table {
        name: "features",
        about: "One row an image: its global feature vector.",
        columns: vec![
            Column::new("image_id", DataType::Int64, "The image."),
            Column::new("split", DataType::Utf8, "The split of the image."),
            Column::new("feature", vector(0), "Feature vector, f32, one width for the whole table."),
        ],
    }
}
