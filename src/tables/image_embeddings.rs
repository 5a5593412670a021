//! `image_embeddings`: images in the joint space.

use arrow::datatypes::DataType;

use super::{Column, Table, vector};

/// One row an image.
#[must_use]
pub fn table() -> Table {
    Table {
        name: "image_embeddings",
        about: "One row an image: its vector in the joint space.",
        columns: vec![
            Column::new("image_id", DataType::Int64, "The image."),
            Column::new("split", DataType::Utf8, "The split of the image."),
            Column::new(
                "embedding",
                vector(0),
                "Vector in the joint space, f32, unit L2 norm but for `ingest` with `normalize = false`.",
            ),
        ],
    }
}
