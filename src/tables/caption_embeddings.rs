//! `caption_embeddings`: captions in the joint space.

use arrow::datatypes::DataType;

use super::{Column, Table, vector};

/// One row a caption.
#[must_use]
pub fn table() -> Table {
    Table {
        name: "caption_embeddings",
        about: "One row a caption: its vector in the joint space.",
        columns: vec![
            Column::new("caption_id", DataType::Int64, "The caption."),
            Column::new("image_id", DataType::Int64, "The image that it describes."),
            Column::new("split", DataType::Utf8, "The split of the image."),
            Column::new(
                "tokenizer",
                DataType::Utf8,
                "How captions were cut into words: `ptb`, `treebank`, `whitespace`, `python3_bytes`; `unknown` of \
                 vectors that another program computed.",
            ),
            Column::new(
                "embedding",
                vector(0),
                "Vector in the joint space, f32, unit L2 norm but for `ingest` with `normalize = false`.",
            ),
        ],
    }
}
