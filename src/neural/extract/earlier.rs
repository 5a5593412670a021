//! Rows of earlier results that a run copies: the row of an image depends on its bytes, and on the settings that say how
//! it is computed.

use std::collections::HashMap;

use arrow::array::RecordBatch;

use pairloom_base::error::Result;
use pairloom_base::runtime::CancelToken;
use pairloom_images::image::EncodedImages;
use pairloom_spec::stages::extract::{BOXES, NOT_OF_ROWS, image_keys};
use pairloom_stage::{FileKeys, MapOutput, PartKey, RowKey, RowKeys, SharedEarlierRows, StageContext, Warning};
use pairloom_tables as tables;

/// Rows of a table in earlier results, and the keys of image files.
pub(super) struct EarlierImages<'f> {
    output: &'static str,
    rows: SharedEarlierRows,
    files: &'f FileKeys,
}

/// Keys of a block of images.
pub(super) struct BlockKeys {
    /// Key of each image; `None` if its bytes cannot be read.
    pub rows: Vec<Option<RowKey>>,
    /// Key of the part that all their rows become; `None` if one of them has none.
    part: Option<PartKey>,
}

/// Rows of a block of images.
pub(super) struct BlockRows {
    /// Keys of the images.
    pub keys: BlockKeys,
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

/// Rows of a block that become rows of the output.
pub(super) struct KeptRows {
    /// Their numbers in the block.
    pub kept: Vec<usize>,
    /// Their values.
    pub values: Vec<f32>,
    /// Their keys.
    pub row_keys: RowKeys,
    /// Key of the part that they become, if no image was left out.
    pub part_key: Option<PartKey>,
}

impl<'f> EarlierImages<'f> {
    /// Finds the rows of `output` in earlier results. `files` are the keys of the image files.
    pub fn open(output: &'static str, files: &'f FileKeys, cx: &mut StageContext<'_>) -> Result<Self> {
        Ok(Self { output, rows: cx.earlier_rows(output, NOT_OF_ROWS)?, files })
    }

    /// Keys of a block of images, whose rows take over the columns `image_id` and `split` of `batch`.
    pub fn keys(&self, batch: &RecordBatch, images: &EncodedImages<'_>, cancel: &CancelToken) -> Result<BlockKeys> {
        let mut keys = image_keys(batch, self.files)?;
        for (row, key) in keys.iter_mut().enumerate().filter(|(_, key)| key.is_none()) {
            cancel.check()?;
            // The error of an image that cannot be read is that of its decoding.
            *key = images.encoded(row).ok().map(|bytes| RowKey::of(&bytes));
        }
        let ids = tables::int_column(batch, "image_id")?.values();
        let splits = tables::text_column(batch, "split")?;
        let rows = keys.iter().zip(ids).enumerate();
        let part = PartKey::of(rows.map(|(row, (key, id))| (*key, *id, [splits.value(row)])));
        Ok(BlockKeys { rows: keys, part })
    }

    /// Part of an earlier result with exactly the rows of a block.
    pub fn part(&self, keys: &BlockKeys) -> Result<Option<MapOutput>> {
        MapOutput::find_earlier(&self.rows, keys.part.as_ref(), || keys.rows.iter().flatten().copied().collect())
    }

    /// Rows of `width` values for a block of images, with those of earlier results.
    pub fn rows(&self, keys: BlockKeys, width: usize) -> Result<BlockRows> {
        let count = keys.rows.len();
        let mut rows = BlockRows {
            values: vec![0.0; count * width],
            width,
            new: Vec::new(),
            repeated: Vec::new(),
            is_known: vec![false; count],
            warnings: Vec::new(),
            keys,
        };
        if let Some(earlier) = &self.rows {
            let (places, expected): (Vec<usize>, Vec<RowKey>) =
                rows.keys.rows.iter().enumerate().filter_map(|(row, key)| Some((row, (*key)?))).unzip();
            let found = earlier.find(&expected)?;
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
        for row in (0..count).filter(|&row| !rows.is_known[row]) {
            let first = rows.keys.rows[row].map_or(row, |key| *first_of.entry(key).or_insert(row));
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

    /// Rows whose values are known.
    pub fn finish(mut self) -> KeptRows {
        let kept: Vec<usize> = (0..self.is_known.len()).filter(|&row| self.is_known[row]).collect();
        for (place, &row) in kept.iter().enumerate().filter(|(place, row)| place != *row) {
            self.values.copy_within(row * self.width..(row + 1) * self.width, place * self.width);
        }
        self.values.truncate(kept.len() * self.width);
        // All rows have keys or none has.
        let keys = kept.iter().map(|&row| self.keys.rows[row]).collect::<Option<Vec<_>>>().unwrap_or_default();
        let part_key = self.keys.part.filter(|_| kept.len() == self.is_known.len());
        KeptRows { kept, values: self.values, row_keys: RowKeys(keys), part_key }
    }
}

/// Values of the rows of an output of `extract`.
fn values<'b>(output: &str, batch: &'b RecordBatch) -> Result<&'b [f32]> {
    Ok(match output {
        BOXES => tables::region_boxes::values(batch)?.0,
        "regions" => tables::regions::values(batch)?.0,
        "image_embeddings" => tables::vector_column(batch, "embedding")?.0,
        _ => tables::vector_column(batch, "feature")?.0,
    })
}
