//! `caption_ngrams`: captions as the sparse vectors that CIDEr compares.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Float64Type, Int8Type, Int32Type, Int64Type};

use super::lists::Lists;
use super::{Column, Table, ids};
use crate::error::Result;

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

/// The vector of one caption, as the table has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row<'b> {
    /// The caption.
    pub caption_id: i64,
    /// The image that it describes.
    pub image_id: i64,
    /// Its words.
    pub words: i64,
    /// Numbers of its distinct n-grams.
    pub ngrams: &'b [i64],
    /// n of each of them.
    pub orders: &'b [i8],
    /// How often the caption has each of them.
    pub counts: &'b [i32],
    /// Their weights.
    pub weights: &'b [f64],
}

/// The rows of a batch of the table, without a copy. Whether they are vectors of captions is for
/// `Vectors::push_row` of the kernel to say.
///
/// # Errors
/// A column that is not that of the table, or a missing value.
pub fn rows(batch: &RecordBatch) -> Result<Vec<Row<'_>>> {
    let (caption_ids, image_ids) = (ids(batch, "caption_id")?, ids(batch, "image_id")?);
    let words = ids(batch, "words")?;
    let ngrams = Lists::<Int64Type>::of(batch, "ngrams")?;
    let (orders, counts) = (Lists::<Int8Type>::of(batch, "orders")?, Lists::<Int32Type>::of(batch, "counts")?);
    let weights = Lists::<Float64Type>::of(batch, "weights")?;
    let row = |row| {
        Ok(Row {
            caption_id: caption_ids.value(row),
            image_id: image_ids.value(row),
            words: words.value(row),
            ngrams: ngrams.row(row)?,
            orders: orders.row(row)?,
            counts: counts.row(row)?,
            weights: weights.row(row)?,
        })
    };
    (0..batch.num_rows()).map(row).collect()
}
