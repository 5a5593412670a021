//! `caption_similarity`: similarity φ of captions to the captions of an image.

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float32Type, Int64Type};

use super::column::{ListReader, table};
use super::{ListColumn, int_column, repeated};
use pairloom_base::error::{Error, Result};

table! {
    /// One row per image: φ(image, caption), the similarity of captions to the image's own captions.
    "caption_similarity" {
        /// Identifier of the image, whose captions are the references.
        image_id: Int64Array,
        /// Identifiers of the scored captions: all captions in the order of the split (`dense`), the most similar ones,
        /// best first (`top`), or the captions of the requested pairs (`table`).
        caption_ids: ListColumn<Int64Type>,
        /// φ of the image with each of these captions.
        similarities: ListColumn<Float32Type>,
        /// Measure φ: `cider_d`, `cider` or `spice`.
        measure: StringArray,
        /// Tokeniser of the captions: `ptb`, `treebank`, `whitespace` or `python3_bytes`.
        tokenizer: StringArray,
    }
}

/// Builds rows of one measure and tokeniser. Image i has the next `lengths[i]` of `caption_ids` and `similarities`.
///
/// # Errors
/// The lengths do not add up to the number of captions.
pub fn batch(
    image_ids: Vec<i64>,
    lengths: &[usize],
    caption_ids: Vec<i64>,
    similarities: Vec<f32>,
    measure: &str,
    tokenizer: &str,
) -> Result<RecordBatch> {
    let columns = TableColumns {
        image_id: image_ids.into(),
        caption_ids: ListColumn::new(lengths.iter().copied(), caption_ids)?,
        similarities: ListColumn::new(lengths.iter().copied(), similarities)?,
        measure: repeated(measure, lengths.len()),
        tokenizer: repeated(tokenizer, lengths.len()),
    };
    columns.into_batch()
}

/// Row of the table: φ of one image with captions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimilarityRow<'b> {
    /// Identifier of the image.
    pub image_id: i64,
    /// Identifiers of the captions.
    pub caption_ids: &'b [i64],
    /// φ of each caption. The values are not checked and may be NaN.
    pub similarities: &'b [f32],
}

/// Returns the rows of a batch of the table without a copy.
///
/// # Errors
/// A column is missing or has another type, a value is missing, or a row has another number of values than captions.
pub fn rows(batch: &RecordBatch) -> Result<Vec<SimilarityRow<'_>>> {
    let image_ids = int_column(batch, "image_id")?;
    let caption_ids = ListReader::<Int64Type>::new(batch, "caption_ids")?;
    let values = ListReader::<Float32Type>::new(batch, "similarities")?;
    let mut rows = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        let row = SimilarityRow {
            image_id: image_ids.value(row),
            caption_ids: caption_ids.row(row)?,
            similarities: values.row(row)?,
        };
        if row.caption_ids.len() != row.similarities.len() {
            return Err(Error::data(format!(
                "image_id {} has {} `caption_ids` and {} `similarities`, expected a value for each caption",
                row.image_id,
                row.caption_ids.len(),
                row.similarities.len()
            )));
        }
        rows.push(row);
    }
    Ok(rows)
}
