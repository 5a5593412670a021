//! `caption_similarity`: how much captions say what the captions of an image say.

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float32Type, Int64Type};

use super::lists::ListReader;
use super::values::table;
use super::{Lists, ids, repeated};
use crate::error::{Error, Result};

table! {
    /// One row an image: φ(image, caption), the similarity of captions to the image's own captions.
    "caption_similarity" {
        /// The image, whose captions are the references.
        image_id: Int64Array,
        /// The captions compared: all in the order of the split (dense), the best, best first (top), or those asked for
        /// (pairs).
        caption_ids: Lists<Int64Type>,
        /// φ of the image with each of these captions.
        similarities: Lists<Float32Type>,
        /// What φ is: `cider_d`, `cider` or `spice`.
        measure: StringArray,
        /// How captions were cut into words: `ptb`, `treebank`, `whitespace`, `python3_bytes`.
        tokenizer: StringArray,
    }
}

/// Rows of one measure and tokenizer: of each image the identifier and how many captions it is compared with, then these
/// captions and their φ, image by image.
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
    let columns = Columns {
        image_id: image_ids.into(),
        caption_ids: Lists::new(lengths.iter().copied(), caption_ids)?,
        similarities: Lists::new(lengths.iter().copied(), similarities)?,
        measure: repeated(measure, lengths.len()),
        tokenizer: repeated(tokenizer, lengths.len()),
    };
    columns.into_batch()
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
    let caption_ids = ListReader::<Int64Type>::of(batch, "caption_ids")?;
    let values = ListReader::<Float32Type>::of(batch, "similarities")?;
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
