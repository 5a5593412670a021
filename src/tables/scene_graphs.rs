//! `scene_graphs`: scene graphs of captions, as objects, attributes and relations.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields};

use super::ColumnValues;
use super::column::{new_list_array, table};
use pairloom_base::error::{Error, Result};

/// Fields of an attribute.
const ATTRIBUTE: [&str; 2] = ["object", "attribute"];
/// Fields of a relation.
const RELATION: [&str; 3] = ["subject", "relation", "object"];

table! {
    /// One row per caption: its scene graph, in lemmas. The name of the parser includes its treatment of captions
    /// without a final period.
    "scene_graphs" {
        /// Identifier of the caption.
        caption_id: Int64Array,
        /// Identifier of the image that the caption describes.
        image_id: Int64Array,
        /// Split of the image.
        split: StringArray,
        /// Objects: `dog`.
        objects: TextListColumn,
        /// Attributes of objects, as (object, attribute): `dog`, `brown`.
        attributes: TupleListColumn<2>,
        /// Relations between objects, as (subject, relation, object): `dog`, `sit on`, `wall`.
        relations: TupleListColumn<3>,
        /// Name and version of the parser. Graphs of different parsers are not comparable.
        parser: StringArray,
        /// Tokeniser of the captions: `ptb`, `treebank`, `whitespace` or `python3_bytes`.
        tokenizer: StringArray,
    }
}

/// Column of lists of texts.
#[derive(Debug)]
pub struct TextListColumn(ListArray);

impl TextListColumn {
    /// Builds lists with these lengths from the concatenation of their texts.
    ///
    /// # Errors
    /// The lengths do not add up to the texts.
    pub fn new<'t>(lengths: impl IntoIterator<Item = usize>, texts: impl IntoIterator<Item = &'t str>) -> Result<Self> {
        // `StringArray::from` needs a known number of texts.
        let texts = Arc::new(StringArray::from(texts.into_iter().collect::<Vec<_>>()));
        Ok(Self(new_list_array(Field::new("item", DataType::Utf8, false), lengths, texts)?))
    }
}

impl ColumnValues for TextListColumn {
    fn data_type() -> DataType {
        DataType::new_list(DataType::Utf8, false)
    }

    fn into_array(self) -> ArrayRef {
        Arc::new(self.0)
    }
}

/// Column of lists of tuples of `N` texts: attributes (2) or relations (3).
#[derive(Debug)]
pub struct TupleListColumn<const N: usize>(ListArray);

impl<const N: usize> TupleListColumn<N> {
    /// Builds lists with these lengths. `parts[i]` holds field i of all tuples.
    ///
    /// # Errors
    /// The lengths do not add up to the tuples.
    pub fn new(lengths: impl IntoIterator<Item = usize>, parts: [StringArray; N]) -> Result<Self> {
        let parts = parts.into_iter().map(|part| Arc::new(part) as ArrayRef).collect();
        let tuples = Arc::new(StructArray::try_new(Self::fields(), parts, None)?);
        Ok(Self(new_list_array(Field::new("item", DataType::Struct(Self::fields()), false), lengths, tuples)?))
    }

    fn fields() -> Fields {
        let names: &[&str] = if N == ATTRIBUTE.len() { &ATTRIBUTE } else { &RELATION };
        names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect()
    }
}

impl<const N: usize> ColumnValues for TupleListColumn<N> {
    fn data_type() -> DataType {
        DataType::new_list(DataType::Struct(Self::fields()), false)
    }

    fn into_array(self) -> ArrayRef {
        Arc::new(self.0)
    }
}

/// Row of the table: the scene graph of a caption.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SceneGraphRow {
    /// Objects.
    pub objects: Vec<String>,
    /// Attributes, as `[object, attribute]`.
    pub attributes: Vec<[String; 2]>,
    /// Relations, as `[subject, relation, object]`.
    pub relations: Vec<[String; 3]>,
}

/// Returns the scene graphs of a batch of the table.
///
/// # Errors
/// A column is missing or has another type.
pub fn rows(batch: &RecordBatch) -> Result<Vec<SceneGraphRow>> {
    let list = |name: &str| {
        let column = batch.column_by_name(name).and_then(|column| column.as_list_opt::<i32>());
        column.ok_or_else(|| Error::data(format!("no column `{name}` of lists")))
    };
    let (objects, attributes, relations) = (list("objects")?, list("attributes")?, list("relations")?);
    (0..batch.num_rows())
        .map(|row| {
            let texts = objects.value(row);
            let texts =
                texts.as_string_opt::<i32>().ok_or_else(|| Error::data("column `objects` does not hold texts"))?;
            Ok(SceneGraphRow {
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
