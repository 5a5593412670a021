//! `scene_graphs`: what captions say, as objects, attributes and relations.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Fields};

use super::{Column, Table};
use crate::error::{Error, Result};

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
        about: "One row a caption: its scene graph, in lemmas. What a caption without a final period is taken for, its parser says.",
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

/// The graph of one row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// Objects.
    pub objects: Vec<String>,
    /// Object and attribute.
    pub attributes: Vec<[String; 2]>,
    /// Subject, relation and object.
    pub relations: Vec<[String; 3]>,
}

/// The graphs of a batch of the table.
///
/// # Errors
/// A column that is not that of the table.
pub fn rows(batch: &RecordBatch) -> Result<Vec<Row>> {
    let list = |name: &str| {
        let column = batch.column_by_name(name).and_then(|column| column.as_list_opt::<i32>());
        column.ok_or_else(|| Error::data(format!("no column `{name}` of lists")))
    };
    let (objects, attributes, relations) = (list("objects")?, list("attributes")?, list("relations")?);
    (0..batch.num_rows())
        .map(|row| {
            let texts = objects.value(row);
            let texts = texts.as_string_opt::<i32>().ok_or_else(|| Error::data("`objects` are no texts"))?;
            Ok(Row {
                objects: texts.iter().flatten().map(str::to_owned).collect(),
                attributes: tuples(&attributes.value(row), ["object", "attribute"])?,
                relations: tuples(&relations.value(row), ["subject", "relation", "object"])?,
            })
        })
        .collect()
}

fn tuples<const N: usize>(tuples: &dyn Array, names: [&str; N]) -> Result<Vec<[String; N]>> {
    let wrong = || Error::data(format!("no list of texts `{}`", names.join("`, `")));
    let tuples = tuples.as_struct_opt().ok_or_else(wrong)?;
    let mut columns = Vec::with_capacity(N);
    for name in names {
        let column = tuples.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
        columns.push(column.ok_or_else(wrong)?);
    }
    Ok((0..tuples.len()).map(|row| std::array::from_fn(|i| columns[i].value(row).to_owned())).collect())
}
