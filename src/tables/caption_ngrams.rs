//! `caption_ngrams`: captions as the sparse tf-idf vectors that CIDEr compares.

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, Int8Type, Int32Type, Int64Type};

use super::column::{ListReader, table};
use super::{ListColumn, int_column};
use pairloom_base::error::Result;

table! {
    /// One row per caption: its n-grams with their tf-idf weights. φ of any image-caption pair can be computed from
    /// them.
    "caption_ngrams" {
        /// Identifier of the caption.
        caption_id: Int64Array,
        /// Identifier of the image that the caption describes.
        image_id: Int64Array,
        /// Number of words of the caption.
        n_tokens: Int64Array,
        /// Ids of the distinct n-grams of the caption, n = 1 to 4, ascending. An id means the same n-gram in all rows.
        ngrams: ListColumn<Int64Type>,
        /// Order n of each n-gram.
        orders: ListColumn<Int8Type>,
        /// Number of occurrences of each n-gram in the caption.
        counts: ListColumn<Int32Type>,
        /// tf-idf weight of each n-gram: count · (ln N − ln max(1, df)).
        weights: ListColumn<Float64Type>,
        /// Tokeniser of the captions: `ptb`, `treebank`, `whitespace` or `python3_bytes`.
        tokenizer: StringArray,
    }
}

/// Row of the table: the tf-idf vector of one caption.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NgramRow<'b> {
    /// Identifier of the caption.
    pub caption_id: i64,
    /// Identifier of the image that the caption describes.
    pub image_id: i64,
    /// Number of words of the caption.
    pub n_tokens: i64,
    /// Ids of the distinct n-grams.
    pub ngrams: &'b [i64],
    /// Order n of each n-gram.
    pub orders: &'b [i8],
    /// Number of occurrences of each n-gram.
    pub counts: &'b [i32],
    /// tf-idf weight of each n-gram.
    pub weights: &'b [f64],
}

/// Returns the rows of a batch of the table without a copy. Their values are not checked here: the kernel does so in
/// `CaptionVectors::push_row`.
pub fn rows(batch: &RecordBatch) -> Result<Vec<NgramRow<'_>>> {
    let (caption_ids, image_ids) = (int_column(batch, "caption_id")?, int_column(batch, "image_id")?);
    let n_tokens = int_column(batch, "n_tokens")?;
    let ngrams = ListReader::<Int64Type>::new(batch, "ngrams")?;
    let (orders, counts) =
        (ListReader::<Int8Type>::new(batch, "orders")?, ListReader::<Int32Type>::new(batch, "counts")?);
    let weights = ListReader::<Float64Type>::new(batch, "weights")?;
    let row = |row| {
        Ok(NgramRow {
            caption_id: caption_ids.value(row),
            image_id: image_ids.value(row),
            n_tokens: n_tokens.value(row),
            ngrams: ngrams.row(row)?,
            orders: orders.row(row)?,
            counts: counts.row(row)?,
            weights: weights.row(row)?,
        })
    };
    (0..batch.num_rows()).map(row).collect()
}
