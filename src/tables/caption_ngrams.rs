//! `caption_ngrams`: captions as the sparse vectors that CIDEr compares.

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, Int8Type, Int32Type, Int64Type};

use super::lists::ListReader;
use super::values::table;
use super::{Lists, ids};
use crate::error::Result;

table! {
    /// One row a caption: its n-grams with their tf-idf weights, from which φ of any pair follows.
    "caption_ngrams" {
        /// The caption.
        caption_id: Int64Array,
        /// The image that it describes.
        image_id: Int64Array,
        /// Words of the caption.
        words: Int64Array,
        /// Numbers of its distinct n-grams, n = 1 to 4, ascending; one numbering a table.
        ngrams: Lists<Int64Type>,
        /// n of each of them.
        orders: Lists<Int8Type>,
        /// How often the caption has each of them.
        counts: Lists<Int32Type>,
        /// Their weights: count · (ln N − ln max(1, df)).
        weights: Lists<Float64Type>,
        /// How captions were cut into words: `ptb`, `treebank`, `whitespace`, `python3_bytes`.
        tokenizer: StringArray,
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
    let ngrams = ListReader::<Int64Type>::of(batch, "ngrams")?;
    let (orders, counts) =
        (ListReader::<Int8Type>::of(batch, "orders")?, ListReader::<Int32Type>::of(batch, "counts")?);
    let weights = ListReader::<Float64Type>::of(batch, "weights")?;
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
