//! `scene_graphs`: what captions say, as objects, attributes and relations.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};

use super::{Column, Table};

/// One row a caption.
#[must_use]
pub fn table() -> Table {
    let list = |item| DataType::List(Arc::new(Field::new("item", item, false)));
    let tuple = |names: &[&str]| {
        let fields: Fields = names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect();
        list(DataType::Struct(fields))
    };
    Table {
        name: "scene_graphs",
        about: "One row a caption: its scene graph, in lemmas.",
        columns: vec![
            Column::new("caption_id", DataType::Int64, "The caption."),
            Column::new("image_id", DataType::Int64, "The image that it describes."),
            Column::new("split", DataType::Utf8, "The split of the image."),
            Column::new("objects", list(DataType::Utf8), "Objects: `dog`."),
            Column::new("attributes", tuple(&["object", "attribute"]), "Attributes of objects: `dog`, `brown`."),
            Column::new(
                "relations",
                tuple(&["subject", "relation", "object"]),
                "Relations between objects: `dog`, `sit on`, `wall`.",
            ),
            Column::new(
                "parser",
                DataType::Utf8,
                "What made the graph, with its version: graphs of different parsers do not compare.",
            ),
            Column::new(
                "tokenizer",
                DataType::Utf8,
                "How captions were cut into words: `ptb`, `treebank`, `whitespace`, `python3_bytes`.",
            ),
        ],
    }
}
