//! Checking and writing of embedding rows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use super::super::listing;
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_formats::table_file::MAX_WIDTH;
use pairloom_stage::StageContext;
use pairloom_tables::{VectorColumn, caption_embeddings, image_embeddings, repeated};

/// Number of rows that are written together.
const BLOCK_ROWS: usize = 1024;
/// Name of the tokeniser, which is not known for these files.
const TOKENIZER: &str = "unknown";

/// Value of a row, or an error message.
pub(super) type Parsed<T> = Result<T, String>;

/// Row of an image file or a caption file.
pub(super) struct EmbeddingRow<'r> {
    pub image_id: Parsed<i64>,
    /// Caption identifier; `None` for images.
    pub caption_id: Option<Parsed<i64>>,
    /// Split, if the file or the settings contain it.
    pub split: Option<Parsed<&'r str>>,
    /// Vector of finite values.
    pub vector: Parsed<&'r [f32]>,
}

/// Images of a file: the row of each identifier, the split of each row, and the width of the vectors.
pub(super) struct KnownImages {
    path: String,
    rows: HashMap<i64, usize>,
    splits: Vec<&'static str>,
    width: usize,
}

/// Pass over the rows of a file, which checks them and optionally writes them.
pub(super) struct EmbeddingPass<'p> {
    path: &'p Path,
    /// Images that captions can refer to; `None` in a pass over images.
    images: Option<&'p KnownImages>,
    normalize: bool,
    /// True if rows are written, false if they are only checked.
    write: bool,
    width: Option<usize>,
    rows: usize,
    /// Row of each identifier.
    seen: HashMap<i64, usize>,
    /// Split of each row, in a pass over images.
    splits: Vec<&'static str>,
    mistakes: ValidationErrors,
    block: BufferedRows,
}

/// Row without mistakes.
struct ValidRow<'r> {
    image_id: i64,
    caption_id: Option<i64>,
    split: &'static str,
    vector: &'r [f32],
    /// Factor that the vector is multiplied with, if it is normalised.
    scale: Option<f64>,
}

/// Rows that are buffered for the next write.
#[derive(Default)]
struct BufferedRows {
    captions: Vec<i64>,
    images: Vec<i64>,
    splits: Vec<&'static str>,
    values: Vec<f32>,
}

impl<'p> EmbeddingPass<'p> {
    /// Starts a pass over captions of `images`, or over images if `images` is `None`.
    pub(super) fn new(path: &'p Path, images: Option<&'p KnownImages>, normalize: bool, write: bool) -> Self {
        Self {
            path,
            images,
            normalize,
            write,
            width: images.map(|images| images.width),
            rows: 0,
            seen: HashMap::new(),
            splits: Vec::new(),
            mistakes: ValidationErrors::in_file(path),
            block: BufferedRows::default(),
        }
    }

    /// Checks a row. Buffers it for writing if the pass writes and the file has had no mistake so far.
    ///
    /// # Errors
    /// The first caption has a vector of another width than the images, the store cannot be written, or the run was
    /// cancelled.
    pub(super) fn push(&mut self, cx: &mut StageContext<'_>, row: EmbeddingRow<'_>) -> Result<()> {
        cx.check_cancelled()?;
        if self.rows == 0 {
            self.check_first_width(&row)?;
        }
        let number = self.rows;
        self.rows += 1;
        let mut problems = Vec::new();
        let valid = self.check_row(number, row, &mut problems);
        for message in problems {
            self.mistakes.add(format_args!("row {number} (from 0)"), message);
        }
        match valid {
            Some(row) if self.write && self.mistakes.is_empty() => self.buffer(cx, &row),
            _ => Ok(()),
        }
    }

    /// Ends the pass and writes the remaining rows. Returns the images, for the pass over their captions.
    ///
    /// # Errors
    /// The file has mistakes, all of which the error lists, or no rows.
    pub(super) fn finish(mut self, cx: &mut StageContext<'_>) -> Result<KnownImages> {
        if self.mistakes.is_empty() {
            self.flush(cx)?;
        }
        self.mistakes.into_result()?;
        match self.width {
            Some(width) if self.rows > 0 => {
                Ok(KnownImages { path: self.path.display().to_string(), rows: self.seen, splits: self.splits, width })
            }
            _ => Err(Error::data(format!("`{}` has no rows", self.path.display()))),
        }
    }

    /// Checks the width of the first caption's vector against the images, so that the error is not repeated in every
    /// row.
    fn check_first_width(&self, first: &EmbeddingRow<'_>) -> Result<()> {
        match (&first.vector, self.images) {
            (Ok(vector), Some(images)) if vector.len() != images.width => Err(Error::data(format!(
                "`{}` has vectors of {} values, wanted {} as in `{}`",
                self.path.display(),
                vector.len(),
                images.width,
                images.path
            ))
            .hint("images and captions must be embedded by one model")),
            _ => Ok(()),
        }
    }

    /// Checks a row. Adds its mistakes to `problems`.
    fn check_row<'r>(
        &mut self,
        number: usize,
        row: EmbeddingRow<'r>,
        problems: &mut Vec<String>,
    ) -> Option<ValidRow<'r>> {
        let is_caption = row.caption_id.is_some();
        let image_id = ok_or_record(problems, row.image_id);
        let caption_id = row.caption_id.and_then(|id| ok_or_record(problems, id));
        let stated_split = row.split.and_then(|split| ok_or_record(problems, split.and_then(listing::parse_split)));
        let split = match (self.images, image_id) {
            (Some(images), Some(id)) => ok_or_record(problems, images.split(id)),
            (Some(_), None) => None,
            (None, _) => stated_split,
        };
        if let (Some(split), Some(stated)) = (split, stated_split)
            && split != stated
        {
            problems.push(format!("split is `{stated}`, wanted `{split}`, the split of its image"));
        }
        if !is_caption {
            // A row with an invalid split gets an empty one, so that row numbers stay right; the file is refused
            // anyway.
            self.splits.push(split.unwrap_or_default());
        }
        let vector = ok_or_record(problems, row.vector);
        let scale = vector.and_then(|vector| ok_or_record(problems, self.normalization_factor(vector)));
        let kind = if is_caption { "caption" } else { "image" };
        let id = if is_caption { caption_id } else { image_id };
        if let Some(id) = id {
            match self.seen.entry(id) {
                Entry::Occupied(first) => {
                    problems.push(format!("{kind} id {id} is also that of row {}", first.get()));
                    if !is_caption {
                        self.mistakes.hint("wanted one row per image, not one per caption");
                    }
                }
                Entry::Vacant(entry) => {
                    entry.insert(number);
                }
            }
        }
        Some(ValidRow { image_id: image_id?, caption_id, split: split?, vector: vector?, scale: scale? })
    }

    /// Checks a vector, and returns the factor that normalises it, if vectors are normalised.
    fn normalization_factor(&mut self, vector: &[f32]) -> Parsed<Option<f64>> {
        if !(1..=MAX_WIDTH).contains(&vector.len()) {
            return Err(format!("the vector has {} values, wanted 1 to {MAX_WIDTH}", vector.len()));
        }
        let wanted = *self.width.get_or_insert(vector.len());
        if vector.len() != wanted {
            return Err(format!("the vector has {} values, wanted {wanted} as before", vector.len()));
        }
        let norm = vector.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        if norm == 0.0 {
            return Err("the vector is zero and so has no direction".to_owned());
        }
        Ok(self.normalize.then_some(1.0 / norm))
    }

    fn buffer(&mut self, cx: &mut StageContext<'_>, row: &ValidRow<'_>) -> Result<()> {
        self.block.captions.extend(row.caption_id);
        self.block.images.push(row.image_id);
        self.block.splits.push(row.split);
        #[expect(clippy::cast_possible_truncation, reason = "vectors are f32 in the tables")]
        match row.scale {
            Some(scale) => self.block.values.extend(row.vector.iter().map(|&value| (f64::from(value) * scale) as f32)),
            None => self.block.values.extend_from_slice(row.vector),
        }
        if self.block.images.len() == BLOCK_ROWS { self.flush(cx) } else { Ok(()) }
    }

    fn flush(&mut self, cx: &mut StageContext<'_>) -> Result<()> {
        let BufferedRows { captions, images, splits, values } = std::mem::take(&mut self.block);
        let rows = images.len();
        let Some(width) = self.width.filter(|_| rows > 0) else { return Ok(()) };
        let (image_id, split, embedding) = (images.into(), splits.into(), VectorColumn::new(values, width)?);
        if self.images.is_some() {
            let (caption_id, tokenizer) = (captions.into(), repeated(TOKENIZER, rows));
            let rows = caption_embeddings::TableColumns { caption_id, image_id, split, tokenizer, embedding };
            cx.write("caption_embeddings", rows.into_batch()?)
        } else {
            cx.write("image_embeddings", image_embeddings::TableColumns { image_id, split, embedding }.into_batch()?)
        }
    }
}

impl KnownImages {
    /// Returns the split of an image, or an error message if the identifier is unknown.
    fn split(&self, id: i64) -> Parsed<&'static str> {
        let row = self.rows.get(&id).ok_or_else(|| format!("image id {id} is not in `{}`", self.path))?;
        Ok(self.splits[*row])
    }
}

/// Returns the value, or adds the error message to `problems`.
fn ok_or_record<T>(problems: &mut Vec<String>, result: Parsed<T>) -> Option<T> {
    result.map_err(|message| problems.push(message)).ok()
}
