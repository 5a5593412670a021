//! `spice_scores`: SPICE with its precision, recall and sub-scores.

use arrow::datatypes::DataType;

use super::{Column, Table};

/// One row a pair of image and caption.
#[must_use]
pub fn table() -> Table {
    let part = |name, about| Column::optional(name, DataType::Float64, about);
    Table {
        name: "spice_scores",
        about: "One row a pair of image and caption: SPICE and what it is made of. A score of no tuples is missing.",
        columns: vec![
            Column::new("image_id", DataType::Int64, "The image, whose captions are the references."),
            Column::new("caption_id", DataType::Int64, "The caption."),
            Column::new("f", DataType::Float64, "F-score of all tuples: φ."),
            Column::new("precision", DataType::Float64, "Share of the caption's tuples that the references have."),
            Column::new("recall", DataType::Float64, "Share of the references' tuples that the caption has."),
            part("object", "F-score of the objects alone."),
            part("attribute", "F-score of the attributes alone."),
            part("relation", "F-score of the relations alone."),
            part("color", "F-score of the attributes that are colours."),
            part("count", "F-score of the attributes that are numbers."),
            part("size", "F-score of the attributes that are sizes."),
            Column::new(
                "tokenizer",
                DataType::Utf8,
                "How captions were cut into words: `ptb`, `treebank`, `whitespace`, `python3_bytes`.",
            ),
        ],
    }
}
