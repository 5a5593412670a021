//! Rows of earlier results that a run copies: the row of an image depends on its bytes, and on the settings that say how
//! it is computed.

use std::collections::HashMap;

use arrow::array::RecordBatch;

use super::settings::{BOXES, NOT_OF_ROWS};
use crate::error::Result;
use crate::io::image::EncodedImages;
use crate::runtime::CancelToken;
use crate::stage::{FileKeys, RowKey, RowKeys, SharedEarlierRows, StageContext, Warning};
use crate::tables;

/// Rows of a table in earlier results, and the keys of image files.
pub(super) struct EarlierImages<'f> {
    output: &'static str,
    rows: SharedEarlierRows,
    files: &'f FileKeys,
}

/// Rows of a block of images.
pub(super) struct BlockRows {
    /// Key of each image; `None` if its bytes cannot be read.
    pub keys: Vec<Option<RowKey>>,
    /// Values of all rows, those of copied rows filled in.
    pub values: Vec<f32>,
    /// Number of values of a row.
    width: usize,
    /// Numbers of the images that no earlier result and no earlier row of the block has.
    pub new: Vec<usize>,
    /// Number of each image that has the bytes of a new one, and of that one.
    repeated: Vec<(usize, usize)>,
    /// True for each row whose values are known.
    pub is_known: Vec<bool>,
    /// Warnings about damaged rows of earlier results.
    pub warnings: Vec<Warning>,
}

impl<'f> EarlierImages<'f> {
    /// Finds the rows of `output` in earlier results. `files` are the keys of the image files.
    pub fn open(output: &'static str, files: &'f FileKeys, cx: &mut StageContext<'_>) -> Result<Self> {
        Ok(Self { output, rows: cx.earlier_rows(output, NOT_OF_ROWS)?, files })
    }

    /// Rows of `width` values for a block of images, with those of earlier results.
    pub fn rows(&self, images: &EncodedImages<'_>, width: usize, cancel: &CancelToken) -> Result<BlockRows> {
        let mut keys = Vec::with_capacity(images.len());
        for row in 0..images.len() {
            cancel.check()?;
            let known = images.path(row).and_then(|path| self.files.get(path));
            // The error of an image that cannot be read is that of its decoding.
            keys.push(known.or_else(|| images.encoded(row).ok().map(|bytes| RowKey::of(&bytes))));
        }
        let mut rows = BlockRows {
            values: vec![0.0; images.len() * width],
            width,
            new: Vec::new(),
            repeated: Vec::new(),
            is_known: vec![false; images.len()],
            warnings: Vec::new(),
            keys,
        };
        if let Some(earlier) = &self.rows {
            let (places, wanted): (Vec<usize>, Vec<RowKey>) =
                rows.keys.iter().enumerate().filter_map(|(row, key)| Some((row, (*key)?))).unzip();
            let found = earlier.find(&wanted)?;
            rows.warnings = found.warnings;
            for (row, found) in places.into_iter().zip(found.rows) {
                let Some((batch, number)) = found else { continue };
                let values = values(self.output, &batch)?;
                if let Some(values) = values.get(number * width..(number + 1) * width) {
                    rows.set(row, values);
                }
            }
        }
        let mut first_of = HashMap::new();
        for row in (0..images.len()).filter(|&row| !rows.is_known[row]) {
            let first = rows.keys[row].map_or(row, |key| *first_of.entry(key).or_insert(row));
            if first == row { rows.new.push(row) } else { rows.repeated.push((row, first)) }
        }
        Ok(rows)
    }
}

impl BlockRows {
    /// Number of rows whose values are known.
    pub fn count_known(&self) -> u64 {
        self.is_known.iter().filter(|&&is_known| is_known).count() as u64
    }

    /// Sets the values of a row.
    pub fn set(&mut self, row: usize, values: &[f32]) {
        self.values[row * self.width..][..self.width].copy_from_slice(values);
        self.is_known[row] = true;
    }

    /// Gives images with the bytes of a computed one its values. Returns those whose first one has none, each with that one.
    pub fn repeat(&mut self) -> Vec<(usize, usize)> {
        let repeated = std::mem::take(&mut self.repeated);
        let (known, unknown): (Vec<_>, Vec<_>) = repeated.into_iter().partition(|(_, first)| self.is_known[*first]);
        for (row, first) in known {
            self.values.copy_within(first * self.width..(first + 1) * self.width, row * self.width);
            self.is_known[row] = true;
        }
        unknown
    }

    /// Numbers of the rows whose values are known, the values, and the keys of these rows.
    pub fn finish(mut self) -> (Vec<usize>, Vec<f32>, RowKeys) {
        let kept: Vec<usize> = (0..self.is_known.len()).filter(|&row| self.is_known[row]).collect();
        for (place, &row) in kept.iter().enumerate().filter(|(place, row)| place != *row) {
            self.values.copy_within(row * self.width..(row + 1) * self.width, place * self.width);
        }
        self.values.truncate(kept.len() * self.width);
        // All rows have keys or none has.
        let keys = kept.iter().map(|&row| self.keys[row]).collect::<Option<Vec<_>>>().unwrap_or_default();
        (kept, self.values, RowKeys(keys))
    }
}

/// Values of the rows of an output of [`Extract`](super::Extract).
fn values<'b>(output: &str, batch: &'b RecordBatch) -> Result<&'b [f32]> {
    Ok(match output {
        BOXES => tables::region_boxes::values(batch)?.0,
        "regions" => tables::regions::values(batch)?.0,
        "image_embeddings" => tables::vector_column(batch, "embedding")?.0,
        _ => tables::vector_column(batch, "feature")?.0,
    })
}
