//! Rows of vectors as they come from files: all that is wrong with them, and what is written of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use super::super::listing;
use crate::error::{Error, Mistakes, Result};
use crate::io::table_file::MAX_WIDTH;
use crate::stage::Cx;
use crate::tables::{Vectors, caption_embeddings, image_embeddings, repeated};

/// Rows that are written together.
const BLOCK_ROWS: usize = 1024;
/// How captions were cut into words is not known.
const TOKENIZER: &str = "unknown";

/// What a row says, or what is wrong with it.
pub(super) type Said<T> = Result<T, String>;

/// A row of images or of captions.
pub(super) struct Row<'r> {
    pub image_id: Said<i64>,
    /// Of captions.
    pub caption_id: Option<Said<i64>>,
    /// Where the file says it.
    pub split: Option<Said<&'r str>>,
    pub vector: Said<&'r [f32]>,
}

/// The images of a file: where each stands, the split of each row, and the width of the vectors.
pub(super) struct Images {
    path: String,
    rows: HashMap<i64, usize>,
    splits: Vec<&'static str>,
    width: usize,
}

/// One pass over the rows of one file.
pub(super) struct Pass<'p> {
    path: &'p Path,
    /// The images that captions may have.
    images: Option<&'p Images>,
    normalize: bool,
    /// Whether rows are written, or only looked at.
    write: bool,
    width: Option<usize>,
    rows: usize,
    /// Where each identifier stands.
    seen: HashMap<i64, usize>,
    /// Of images: the split of each row.
    splits: Vec<&'static str>,
    mistakes: Mistakes,
    block: Block,
}

/// A row without mistakes.
struct Fine<'r> {
    image_id: i64,
    caption_id: Option<i64>,
    split: &'static str,
    vector: &'r [f32],
    /// What its values are multiplied with, if they are.
    scale: Option<f64>,
}

/// Rows that are not written yet.
#[derive(Default)]
struct Block {
    captions: Vec<i64>,
    images: Vec<i64>,
    splits: Vec<&'static str>,
    values: Vec<f32>,
}

impl<'p> Pass<'p> {
    /// A pass over captions of `images`, or over images if there are none.
    pub(super) fn new(path: &'p Path, images: Option<&'p Images>, normalize: bool, write: bool) -> Self {
        Self {
            path,
            images,
            normalize,
            write,
            width: images.map(|images| images.width),
            rows: 0,
            seen: HashMap::new(),
            splits: Vec::new(),
            mistakes: Mistakes::of(path),
            block: Block::default(),
        }
    }

    /// Adds what is wrong with the row to the mistakes, or writes it.
    ///
    /// # Errors
    /// The first vector of the captions has another width than the images; the store cannot be written; the run was
    /// cancelled.
    pub(super) fn push(&mut self, cx: &mut Cx<'_>, row: Row<'_>) -> Result<()> {
        cx.proceed()?;
        if self.rows == 0 {
            self.check_model(&row)?;
        }
        let number = self.rows;
        self.rows += 1;
        let mut wrong = Vec::new();
        let fine = self.check(number, row, &mut wrong);
        for message in wrong {
            self.mistakes.add(format_args!("row {number} (from 0)"), message);
        }
        match fine {
            Some(row) if self.write && self.mistakes.is_empty() => self.keep(cx, &row),
            _ => Ok(()),
        }
    }

    /// Ends the pass: writes what is left. Gives the images, for the pass over their captions.
    ///
    /// # Errors
    /// All mistakes, or there are no rows.
    pub(super) fn finish(mut self, cx: &mut Cx<'_>) -> Result<Images> {
        if self.mistakes.is_empty() {
            self.flush(cx)?;
        }
        self.mistakes.finish()?;
        match self.width {
            Some(width) if self.rows > 0 => {
                Ok(Images { path: self.path.display().to_string(), rows: self.seen, splits: self.splits, width })
            }
            _ => Err(Error::data(format!("`{}` has no rows", self.path.display()))),
        }
    }

    /// That captions have vectors as wide as those of the images: else every row would be a mistake.
    fn check_model(&self, first: &Row<'_>) -> Result<()> {
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

    /// The row, or all that is wrong with it.
    fn check<'r>(&mut self, number: usize, row: Row<'r>, wrong: &mut Vec<String>) -> Option<Fine<'r>> {
        let is_caption = row.caption_id.is_some();
        let image_id = kept(wrong, row.image_id);
        let caption_id = row.caption_id.and_then(|id| kept(wrong, id));
        let said = row.split.and_then(|split| kept(wrong, split.and_then(listing::split)));
        let split = match (self.images, image_id) {
            (Some(images), Some(id)) => kept(wrong, images.split(id)),
            (Some(_), None) => None,
            (None, _) => said,
        };
        if let (Some(split), Some(said)) = (split, said)
            && split != said
        {
            wrong.push(format!("split is `{said}`, wanted `{split}`, which is that of its image"));
        }
        if !is_caption {
            // A row whose split is wrong keeps its place; nothing is made of it.
            self.splits.push(split.unwrap_or_default());
        }
        let vector = kept(wrong, row.vector);
        let scale = vector.and_then(|vector| kept(wrong, self.scale(vector)));
        let what = if is_caption { "caption" } else { "image" };
        let id = if is_caption { caption_id } else { image_id };
        if let Some(id) = id {
            match self.seen.entry(id) {
                Entry::Occupied(first) => {
                    wrong.push(format!("{what} id {id} is also that of row {}", first.get()));
                    if !is_caption {
                        self.mistakes.hint("images are wanted once each, not once for each of their captions");
                    }
                }
                Entry::Vacant(place) => {
                    place.insert(number);
                }
            }
        }
        Some(Fine { image_id: image_id?, caption_id, split: split?, vector: vector?, scale: scale? })
    }

    /// What the values of a vector are multiplied with, if they are, or what is wrong with it.
    fn scale(&mut self, vector: &[f32]) -> Said<Option<f64>> {
        if !(1..=MAX_WIDTH).contains(&vector.len()) {
            return Err(format!("the vector has {} values, wanted 1 to {MAX_WIDTH}", vector.len()));
        }
        let wanted = *self.width.get_or_insert(vector.len());
        if vector.len() != wanted {
            return Err(format!("the vector has {} values, wanted {wanted} as before", vector.len()));
        }
        if let Some(column) = vector.iter().position(|value| !value.is_finite()) {
            return Err(format!("the value of column {column} is {}, wanted a finite number", vector[column]));
        }
        let norm = vector.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        if norm == 0.0 {
            return Err("the vector is zero and so has no direction".to_owned());
        }
        Ok(self.normalize.then_some(1.0 / norm))
    }

    fn keep(&mut self, cx: &mut Cx<'_>, row: &Fine<'_>) -> Result<()> {
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

    fn flush(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let Block { captions, images, splits, values } = std::mem::take(&mut self.block);
        let rows = images.len();
        let Some(width) = self.width.filter(|_| rows > 0) else { return Ok(()) };
        let (image_id, split, embedding) = (images.into(), splits.into(), Vectors::new(values, width)?);
        if self.images.is_some() {
            let (caption_id, tokenizer) = (captions.into(), repeated(TOKENIZER, rows));
            let rows = caption_embeddings::Columns { caption_id, image_id, split, tokenizer, embedding };
            cx.write("caption_embeddings", rows.into_batch()?)
        } else {
            cx.write("image_embeddings", image_embeddings::Columns { image_id, split, embedding }.into_batch()?)
        }
    }
}

impl Images {
    /// The split of an image, or that there is none of this identifier.
    fn split(&self, id: i64) -> Said<&'static str> {
        let row = self.rows.get(&id).ok_or_else(|| format!("image id {id} is not in `{}`", self.path))?;
        Ok(self.splits[*row])
    }
}

/// What was said; what is wrong goes to `wrong`.
fn kept<T>(wrong: &mut Vec<String>, said: Said<T>) -> Option<T> {
    said.map_err(|message| wrong.push(message)).ok()
}
