//! `caption_similarity`: how much captions say what the captions of an image say.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};

use super::{Column, Table};

/// One row an image.
#[must_use]
pub fn table() -> Table {
    let list = |item| DataType::List(Arc::new(Field::new("item", item, false)));
    Table {
        name: "caption_similarity",
        about: "One row an image: φ(image, caption), the similarity of captions to the image's own captions.",
        columns: vec![
            Column::new("image_id", DataType::Int64, "The image, whose captions are the references."),
            Column::new(
                "caption_ids",
                list(DataType::Int64),
                "The captions compared: all in the order of the split (dense), the best, best first (top), or those asked for (pairs).",
            ),
            Column::new("values", list(DataType::Float32), "φ of the image with each of these captions."),
            Column::new("measure", DataType::Utf8, "What φ is: `cider_d`, `cider` or `spice`."),
            Column::new(
                "tokenizer",
                DataType::Utf8,
                "How captions were cut into words: `ptb`, `treebank`, `whitespace`, `python3_bytes`.",
            ),
        ],
    }
}
