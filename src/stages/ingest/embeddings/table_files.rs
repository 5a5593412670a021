//! Embeddings in Parquet and Arrow files, with columns for identifiers and splits.

use std::collections::HashMap;
use std::path::Path;

use arrow::array::{Array, Int64Array, RecordBatch};

use super::{EmbeddingColumns, EmbeddingRow, Parsed, PrecomputedEmbeddings};
use pairloom_base::error::Result;
use pairloom_base::runtime::CancelToken;
use pairloom_formats::table_file::{ColumnKind, NullableTexts, TableFile, has_integers, integers, texts, vectors};
use pairloom_storage::image_names::shown_name;

/// Image file and caption file, both with the needed columns.
pub(super) struct TableFiles<'s> {
    images: TableFile,
    captions: TableFile,
    columns: EmbeddingColumns,
    /// Row of each image, if identifiers of images are texts.
    image_rows: Option<HashMap<String, i64>>,
    /// Split of all rows, instead of a column.
    split: Option<&'s str>,
    /// True if the caption file has a column of splits.
    captions_have_splits: bool,
    cancel: CancelToken,
}

impl<'s> TableFiles<'s> {
    /// Opens the files.
    ///
    /// # Errors
    /// A file is not a Parquet or Arrow file, or lacks a column.
    pub(super) fn open(
        settings: &'s PrecomputedEmbeddings,
        images: &Path,
        captions: &Path,
        cancel: CancelToken,
    ) -> Result<Self> {
        let columns = settings.columns.clone().unwrap_or_default();
        let (images, captions) = (TableFile::open(images)?, TableFile::open(captions)?);
        let hint = if images.has_column(&columns.caption_id) && !captions.has_column(&columns.caption_id) {
            "the file of `images` has identifiers of captions, so `images` and `captions` look swapped"
        } else {
            "name them with `columns`, and the split of all rows with `split`"
        };
        let mut columns_read = vec![
            (columns.image_id.as_str(), ColumnKind::TextsOrIntegers),
            (columns.image_embedding.as_str(), ColumnKind::Vectors),
        ];
        if settings.split.is_none() {
            columns_read.push((&columns.split, ColumnKind::Texts));
        }
        images.check_columns(&columns_read, hint)?;
        let has_text_ids = images.has_texts(&columns.image_id);
        let captions_have_splits = settings.split.is_none() && captions.has_column(&columns.split);
        let mut columns_read = vec![
            (columns.caption_id.as_str(), ColumnKind::TextsOrIntegers),
            (columns.image_id.as_str(), if has_text_ids { ColumnKind::Texts } else { ColumnKind::Integers }),
            (columns.caption_embedding.as_str(), ColumnKind::Vectors),
        ];
        if captions_have_splits {
            columns_read.push((&columns.split, ColumnKind::Texts));
        }
        captions.check_columns(&columns_read, hint)?;
        let image_rows = has_text_ids.then(|| text_rows(&images, &columns.image_id, &cancel)).transpose()?;
        Ok(Self {
            images,
            captions,
            columns,
            image_rows,
            split: settings.split.as_deref(),
            captions_have_splits,
            cancel,
        })
    }

    /// Calls `visit` for every image.
    pub(super) fn images(&self, mut visit: impl FnMut(EmbeddingRow<'_>) -> Result<()>) -> Result<()> {
        let columns = &self.columns;
        let mut names = vec![columns.image_id.as_str(), &columns.image_embedding];
        if self.split.is_none() {
            names.push(&columns.split);
        }
        let mut number = 0;
        for batch in self.images.batches(&names, || self.cancel.check())? {
            let batch = batch?;
            let ids = IdColumn::of(&batch, &columns.image_id)?;
            let vectors = vectors(&batch, &columns.image_embedding)?;
            let splits = self.split.is_none().then(|| texts(&batch, &columns.split)).transpose()?;
            for row in 0..batch.num_rows() {
                let split = match (&splits, self.split) {
                    (Some(splits), _) => splits.get(row).ok_or_else(|| "the split is missing".to_owned()),
                    (None, split) => Ok(split.unwrap_or_default()),
                };
                let image_id = ids.get(row, &columns.image_id).and_then(|id| match (id, &self.image_rows) {
                    (Id::Text(text), Some(rows)) => {
                        numbered(rows, text, number, "one row per image, not one per caption")
                    }
                    (id, _) => id.number(),
                });
                number += 1;
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
        // Rows of the captions, if their identifiers are texts.
        let mut caption_rows: HashMap<String, i64> = HashMap::new();
        let mut number = 0;
        for batch in self.captions.batches(&names, || self.cancel.check())? {
            let batch = batch?;
            let ids = IdColumn::of(&batch, &columns.caption_id)?;
            let images = IdColumn::of(&batch, &columns.image_id)?;
            let vectors = vectors(&batch, &columns.caption_embedding)?;
            let splits = self.captions_have_splits.then(|| texts(&batch, &columns.split)).transpose()?;
            for row in 0..batch.num_rows() {
                let split =
                    splits.as_ref().map(|splits| splits.get(row).ok_or_else(|| "the split is missing".to_owned()));
                let caption_id = ids.get(row, &columns.caption_id).and_then(|id| match id {
                    Id::Text(text) => {
                        caption_rows.entry(text.to_owned()).or_insert(number);
                        numbered(&caption_rows, text, number, "one row per caption")
                    }
                    Id::Integer(id) => Ok(id),
                });
                number += 1;
                let image_id = images.get(row, &columns.image_id).and_then(|id| match (id, &self.image_rows) {
                    (Id::Text(text), Some(rows)) => rows.get(text).copied().ok_or_else(|| {
                        format!("image id `{}` is not in `{}`", shown_name(text), self.images.path().display())
                    }),
                    (id, _) => id.number(),
                });
                visit(EmbeddingRow { image_id, caption_id: Some(caption_id), split, vector: vectors.get(row) })?;
            }
        }
        Ok(())
    }
}

/// Row of the first appearance of each text of a column, from 0.
fn text_rows(file: &TableFile, column: &str, cancel: &CancelToken) -> Result<HashMap<String, i64>> {
    let mut rows = HashMap::new();
    let mut number = 0;
    for batch in file.batches(&[column], || cancel.check())? {
        let batch = batch?;
        let texts = texts(&batch, column)?;
        for row in 0..batch.num_rows() {
            if let Some(text) = texts.get(row) {
                rows.entry(text.to_owned()).or_insert(number);
            }
            number += 1;
        }
    }
    Ok(rows)
}

/// Returns the number of row `number`, whose identifier is `text`, or an error message for a duplicate.
fn numbered(rows: &HashMap<String, i64>, text: &str, number: i64, wanted: &str) -> Parsed<i64> {
    match rows.get(text) {
        Some(&first) if first != number => {
            Err(format!("identifier `{}` is also that of row {first}, expected {wanted}", shown_name(text)))
        }
        _ => Ok(number),
    }
}

/// Column of identifiers.
enum IdColumn {
    Integers(Int64Array),
    Texts(NullableTexts),
}

/// Identifier of a row.
#[derive(Clone, Copy)]
enum Id<'r> {
    Integer(i64),
    Text(&'r str),
}

impl IdColumn {
    fn of(batch: &RecordBatch, name: &str) -> Result<Self> {
        Ok(if has_integers(batch, name)? {
            Self::Integers(integers(batch, name)?)
        } else {
            Self::Texts(texts(batch, name)?)
        })
    }

    fn get(&self, row: usize, name: &str) -> Parsed<Id<'_>> {
        match self {
            Self::Integers(ids) if ids.is_valid(row) => Ok(Id::Integer(ids.value(row))),
            Self::Integers(_) => Err(format!("`{name}` is missing or above {}", i64::MAX)),
            Self::Texts(ids) => ids.get(row).map(Id::Text).ok_or_else(|| format!("`{name}` is missing")),
        }
    }
}

impl Id<'_> {
    /// Returns the number, or an error message for a text.
    fn number(self) -> Parsed<i64> {
        match self {
            Self::Integer(id) => Ok(id),
            Self::Text(text) => Err(format!("identifier `{}` is a text, expected a whole number", shown_name(text))),
        }
    }
}
