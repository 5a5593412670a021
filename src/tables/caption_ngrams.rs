//! `caption_ngrams`: captions as the sparse vectors that CIDEr compares.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};

use super::{Column, Table};

/// One row a caption.
#[must_use]
pub fn table() -> Table {
    let list = |item| DataType::List(Arc::new(Field::new("item", item, false)));
    Table {
        name: "caption_ngrams",
        about: "One row a caption: its n-grams with their tf-idf weights, from which φ of any pair follows.",
        columns: vec![
            Column::new("caption_id", DataType::Int64, "The caption."),
            Column::new("image_id", DataType::Int64, "The image that it describes."),
            Column::new("words", DataType::Int64, "Words of the caption."),
            Column::new(
                "ngrams",
                list(DataType::Int64),
                "Numbers of its distinct n-grams, n = 1 to 4, ascending; one numbering a table.",
            ),
            Column::new("orders", list(DataType::Int8), "n of each of them."),
            Column::new("counts", list(DataType::Int32), "How often the caption has each of them."),
            Column::new("weights", list(DataType::Float64), "Their weights: count · (ln N − ln max(1, df))."),
            Column::new(
                "tokenizer",
                DataType::Utf8,
                "How captions were cut into words: `ptb`, `treebank`, `whitespace`, `python3_bytes`.",
            ),
        ],
    }
}
