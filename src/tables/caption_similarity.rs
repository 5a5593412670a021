//! `caption_similarity`: how much captions say what the captions of an image say.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Float32Type, Int64Type};

use super::lists::Lists;
use super::{Column, Table, ids, list};
use crate::error::{Error, Result};

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
            Column::new("similarities", list(DataType::Float32), "φ of the image with each of these captions."),
            Column::new("measure", DataType::Utf8, "What φ is: `cider_d`, `cider` or `spice`."),
            Column::new(
                "tokenizer",
                DataType::Utf8,
                "How captions were cut into words: `ptb`, `treebank`, `whitespace`, `python3_bytes`.",
            ),
        ],
    }
}

/// Rows of the table: of each image the identifier and how many captions it is compared with, then these captions and
/// their φ, image by image.
///
/// # Errors
/// The numbers of captions do not add up.
pub fn batch(
    image_ids: Vec<i64>,
    lengths: &[usize],
    caption_ids: Vec<i64>,
    similarities: Vec<f32>,
    measure: &str,
    tokenizer: &str,
) -> Result<RecordBatch> {
    let schema = table().schema();
    let repeat = |text| Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, lengths.len()))) as ArrayRef;
    let lists = |name, values| list(&schema, name, lengths.iter().copied(), values);
    let caption_ids = lists("caption_ids", Arc::new(Int64Array::from(caption_ids)))?;
    let similarities = lists("similarities", Arc::new(Float32Array::from(similarities)))?;
    let image_ids = Arc::new(Int64Array::from(image_ids));
    super::batch(&schema, vec![image_ids, caption_ids, similarities, repeat(measure), repeat(tokenizer)])
}

/// φ of one image with captions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row<'b> {
    /// The image.
    pub image_id: i64,
    /// The captions.
    pub caption_ids: &'b [i64],
    /// φ of each of them, none of which need be a sensible number.
    pub values: &'b [f32],
}

/// The rows of a batch of the table, without a copy.
///
/// # Errors
/// A column that is not that of the table, a missing value, or a row with another number of values than captions.
pub fn rows(batch: &RecordBatch) -> Result<Vec<Row<'_>>> {
    let image_ids = ids(batch, "image_id")?;
    let caption_ids = Lists::<Int64Type>::of(batch, "caption_ids")?;
    let values = Lists::<Float32Type>::of(batch, "similarities")?;
    let mut rows = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        let row = Row { image_id: image_ids.value(row), caption_ids: caption_ids.row(row)?, values: values.row(row)? };
        if row.caption_ids.len() != row.values.len() {
            return Err(Error::data(format!(
                "image_id {} has {} `caption_ids` and {} `similarities`, wanted a value for each caption",
                row.image_id,
                row.caption_ids.len(),
                row.values.len()
            )));
        }
        rows.push(row);
    }
    Ok(rows)
}
