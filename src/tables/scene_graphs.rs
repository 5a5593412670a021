//! `scene_graphs`: what captions say, as objects, attributes and relations.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields};

use super::Values;
use super::values::{list, table};
use crate::error::{Error, Result};

/// Parts of an attribute.
const ATTRIBUTE: [&str; 2] = ["object", "attribute"];
/// Parts of a relation.
const RELATION: [&str; 3] = ["subject", "relation", "object"];

table! {
    /// One row a caption: its scene graph, in lemmas. What a caption without a final period is taken for, its parser
    /// says.
    "scene_graphs" {
        /// The caption.
        caption_id: Int64Array,
        /// The image that it describes.
        image_id: Int64Array,
        /// The split of the image.
        split: StringArray,
        /// Objects: `dog`.
        objects: Texts,
        /// Attributes of objects: `dog`, `brown`.
        attributes: Tuples<2>,
        /// Relations between objects: `dog`, `sit on`, `wall`.
        relations: Tuples<3>,
        /// What made the graph, with its version: graphs of different parsers do not compare.
        parser: StringArray,
        /// How captions were cut into words: `ptb`, `treebank`, `whitespace`, `python3_bytes`.
        tokenizer: StringArray,
    }
}

/// A list of texts in each row.
#[derive(Debug)]
pub struct Texts(ListArray);

impl Texts {
    /// Lists of these lengths, from the texts of all of them.
    ///
    /// # Errors
    /// The lengths do not add up to the texts.
    pub fn new<'t>(lengths: impl IntoIterator<Item = usize>, texts: impl IntoIterator<Item = &'t str>) -> Result<Self> {
        // Arrow wants to know how many there are.
        let texts = Arc::new(StringArray::from(texts.into_iter().collect::<Vec<_>>()));
        Ok(Self(list(Field::new("item", DataType::Utf8, false), lengths, texts)?))
    }
}

impl Values for Texts {
    fn data_type() -> DataType {
        DataType::new_list(DataType::Utf8, false)
    }

    fn into_array(self) -> ArrayRef {
        Arc::new(self.0)
    }
}

/// A list of tuples in each row: of two texts an attribute, of three a relation.
#[derive(Debug)]
pub struct Tuples<const N: usize>(ListArray);

impl<const N: usize> Tuples<N> {
    /// Lists of these lengths, from the first parts of all tuples, the second ones, and so on.
    ///
    /// # Errors
    /// The lengths do not add up to the tuples.
    pub fn new(lengths: impl IntoIterator<Item = usize>, parts: [StringArray; N]) -> Result<Self> {
        let parts = parts.into_iter().map(|part| Arc::new(part) as ArrayRef).collect();
        let tuples = Arc::new(StructArray::try_new(Self::fields(), parts, None)?);
        Ok(Self(list(Field::new("item", DataType::Struct(Self::fields()), false), lengths, tuples)?))
    }

    fn fields() -> Fields {
        let names: &[&str] = if N == ATTRIBUTE.len() { &ATTRIBUTE } else { &RELATION };
        names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect()
    }
}

impl<const N: usize> Values for Tuples<N> {
    fn data_type() -> DataType {
        DataType::new_list(DataType::Struct(Self::fields()), false)
    }

    fn into_array(self) -> ArrayRef {
        Arc::new(self.0)
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
                attributes: tuples(&attributes.value(row), ATTRIBUTE)?,
                relations: tuples(&relations.value(row), RELATION)?,
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
