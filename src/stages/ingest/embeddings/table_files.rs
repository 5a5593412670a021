//! Embeddings in Parquet and Arrow files, with columns for identifiers and splits.

use std::path::Path;

use arrow::array::{Array, Int64Array};

use super::embedding_pass::{EmbeddingRow, Parsed};
use super::{EmbeddingColumns, PrecomputedEmbeddings};
use crate::error::Result;
use crate::io::table_file::{ColumnKind, TableFile, integers, texts, vectors};

/// Image file and caption file, both with the needed columns.
pub(super) struct TableFiles<'s> {
    images: TableFile,
    captions: TableFile,
    columns: EmbeddingColumns,
    /// Split of all rows, instead of a column.
    split: Option<&'s str>,
    /// True if the caption file has a column of splits.
    captions_have_splits: bool,
}

impl<'s> TableFiles<'s> {
    /// Opens the files.
    ///
    /// # Errors
    /// A file is not a Parquet or Arrow file, or lacks a column.
    pub(super) fn open(settings: &'s PrecomputedEmbeddings, images: &Path, captions: &Path) -> Result<Self> {
        let columns = settings.columns.clone().unwrap_or_default();
        let (images, captions) = (TableFile::open(images)?, TableFile::open(captions)?);
        let mut wanted = vec![
            (columns.image_id.as_str(), ColumnKind::Integers),
            (columns.image_embedding.as_str(), ColumnKind::Vectors),
        ];
        if settings.split.is_none() {
            wanted.push((&columns.split, ColumnKind::Texts));
        }
        let hint = "name them with `columns`, and the split of all rows with `split`";
        images.check_columns(&wanted, hint)?;
        let captions_have_splits = settings.split.is_none() && captions.has_column(&columns.split);
        let mut wanted = vec![
            (columns.caption_id.as_str(), ColumnKind::Integers),
            (columns.image_id.as_str(), ColumnKind::Integers),
            (columns.caption_embedding.as_str(), ColumnKind::Vectors),
        ];
        if captions_have_splits {
            wanted.push((&columns.split, ColumnKind::Texts));
        }
        captions.check_columns(&wanted, hint)?;
        Ok(Self { images, captions, columns, split: settings.split.as_deref(), captions_have_splits })
    }

    /// Calls `visit` for every image.
    pub(super) fn images(&self, mut visit: impl FnMut(EmbeddingRow<'_>) -> Result<()>) -> Result<()> {
        let columns = &self.columns;
        let mut names = vec![columns.image_id.as_str(), &columns.image_embedding];
        if self.split.is_none() {
            names.push(&columns.split);
        }
        for batch in self.images.batches(&names)? {
            let batch = batch?;
            let (ids, vectors) = (integers(&batch, &columns.image_id)?, vectors(&batch, &columns.image_embedding)?);
            let splits = self.split.is_none().then(|| texts(&batch, &columns.split)).transpose()?;
            for row in 0..batch.num_rows() {
                let split = match (&splits, self.split) {
                    (Some(splits), _) => splits.get(row).ok_or_else(|| "the split is missing".to_owned()),
                    (None, split) => Ok(split.unwrap_or_default()),
                };
                let image_id = id(&ids, row, &columns.image_id);
                visit(EmbeddingRow { image_id, caption_id: None, split: Some(split), vector: vectors.get(row) })?;
            }
        }
        Ok(())
    }

    /// Calls `visit` for every caption.
    pub(super) fn captions(&self, mut visit: impl FnMut(EmbeddingRow<'_>) -> Result<()>) -> Result<()> {
        let columns = &self.columns;
        let mut names = vec![columns.caption_id.as_str(), &columns.image_id, &columns.caption_embedding];
        if self.captions_have_splits {
            names.push(&columns.split);
        }
        for batch in self.captions.batches(&names)? {
            let batch = batch?;
            let (ids, images) = (integers(&batch, &columns.caption_id)?, integers(&batch, &columns.image_id)?);
            let vectors = vectors(&batch, &columns.caption_embedding)?;
            let splits = self.captions_have_splits.then(|| texts(&batch, &columns.split)).transpose()?;
            for row in 0..batch.num_rows() {
                let split =
                    splits.as_ref().map(|splits| splits.get(row).ok_or_else(|| "the split is missing".to_owned()));
                let caption_id = Some(id(&ids, row, &columns.caption_id));
                let image_id = id(&images, row, &columns.image_id);
                visit(EmbeddingRow { image_id, caption_id, split, vector: vectors.get(row) })?;
            }
        }
        Ok(())
    }
}

fn id(ids: &Int64Array, row: usize, name: &str) -> Parsed<i64> {
    let missing = || format!("`{name}` is missing or too large for 64 bits");
    ids.is_valid(row).then(|| ids.value(row)).ok_or_else(missing)
}
