//! Parquet and Arrow files: columns say what rows are.

use std::path::Path;

use arrow::array::{Array, Int64Array};

use super::rows::{Row, Said};
use super::{EmbeddingColumns, Embeddings};
use crate::error::Result;
use crate::io::table_file::{Kind, TableFile, texts, vectors, whole_numbers};

/// The two files, which have the columns that are wanted.
pub(super) struct TableFiles<'s> {
    images: TableFile,
    captions: TableFile,
    columns: EmbeddingColumns,
    /// The split of all rows, in place of a column.
    split: Option<&'s str>,
    /// Whether the captions have a column of splits.
    captions_have_splits: bool,
}

impl<'s> TableFiles<'s> {
    /// Opens the files.
    ///
    /// # Errors
    /// One is no Parquet or Arrow file, or lacks a column.
    pub(super) fn open(set: &'s Embeddings, images: &Path, captions: &Path) -> Result<Self> {
        let columns = set.columns.clone().unwrap_or_default();
        let (images, captions) = (TableFile::open(images)?, TableFile::open(captions)?);
        let mut wanted =
            vec![(columns.image_id.as_str(), Kind::WholeNumbers), (columns.image_embedding.as_str(), Kind::Vectors)];
        if set.split.is_none() {
            wanted.push((&columns.split, Kind::Texts));
        }
        let hint = "name them with `columns`, and the split of all rows with `split`";
        images.expect(&wanted, hint)?;
        let captions_have_splits = set.split.is_none() && captions.has(&columns.split);
        let mut wanted = vec![
            (columns.caption_id.as_str(), Kind::WholeNumbers),
            (columns.image_id.as_str(), Kind::WholeNumbers),
            (columns.caption_embedding.as_str(), Kind::Vectors),
        ];
        if captions_have_splits {
            wanted.push((&columns.split, Kind::Texts));
        }
        captions.expect(&wanted, hint)?;
        Ok(Self { images, captions, columns, split: set.split.as_deref(), captions_have_splits })
    }

    /// Calls `act` for every image.
    pub(super) fn images(&self, mut act: impl FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        let columns = &self.columns;
        let mut names = vec![columns.image_id.as_str(), &columns.image_embedding];
        if self.split.is_none() {
            names.push(&columns.split);
        }
        for batch in self.images.batches(&names)? {
            let batch = batch?;
            let (ids, vectors) =
                (whole_numbers(&batch, &columns.image_id)?, vectors(&batch, &columns.image_embedding)?);
            let splits = self.split.is_none().then(|| texts(&batch, &columns.split)).transpose()?;
            for row in 0..batch.num_rows() {
                let split = match (&splits, self.split) {
                    (Some(splits), _) => splits.get(row).ok_or_else(|| "the split is missing".to_owned()),
                    (None, split) => Ok(split.unwrap_or_default()),
                };
                let image_id = id(&ids, row, &columns.image_id);
                act(Row { image_id, caption_id: None, split: Some(split), vector: vectors.get(row) })?;
            }
        }
        Ok(())
    }

    /// Calls `act` for every caption.
    pub(super) fn captions(&self, mut act: impl FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        let columns = &self.columns;
        let mut names = vec![columns.caption_id.as_str(), &columns.image_id, &columns.caption_embedding];
        if self.captions_have_splits {
            names.push(&columns.split);
        }
        for batch in self.captions.batches(&names)? {
            let batch = batch?;
            let (ids, images) =
                (whole_numbers(&batch, &columns.caption_id)?, whole_numbers(&batch, &columns.image_id)?);
            let vectors = vectors(&batch, &columns.caption_embedding)?;
            let splits = self.captions_have_splits.then(|| texts(&batch, &columns.split)).transpose()?;
            for row in 0..batch.num_rows() {
                let split =
                    splits.as_ref().map(|splits| splits.get(row).ok_or_else(|| "the split is missing".to_owned()));
                let caption_id = Some(id(&ids, row, &columns.caption_id));
                let image_id = id(&images, row, &columns.image_id);
                act(Row { image_id, caption_id, split, vector: vectors.get(row) })?;
            }
        }
        Ok(())
    }
}

fn id(ids: &Int64Array, row: usize, name: &str) -> Said<i64> {
    let missing = || format!("`{name}` is missing or too large for 64 bits");
    ids.is_valid(row).then(|| ids.value(row)).ok_or_else(missing)
}
