//! Rows of vectors as they come from files: all that is wrong with them, and what is written of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};

use super::super::listing;
use crate::error::{Error, Result};
use crate::io::Mistakes;
use crate::io::table_file::MAX_WIDTH;
use crate::stage::Cx;
use crate::tables::{self, Table};

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

/// One pass over the rows of one file.
pub(super) struct Pass<'p> {
    path: &'p Path,
    table: Table,
    normalize: bool,
    /// Whether rows are written, or only looked at.
    write: bool,
    /// The images that captions may have.
    images: Option<&'p Images>,
    width: Option<usize>,
    rows: usize,
    mistakes: Mistakes,
    /// Row and split of every identifier so far.
    seen: HashMap<i64, (usize, &'static str)>,
    block: Block,
}

/// The images of a file, and the width of their vectors.
pub(super) struct Images {
    path: String,
    splits: HashMap<i64, (usize, &'static str)>,
    width: usize,
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
            table: if images.is_some() {
                tables::caption_embeddings::table()
            } else {
                tables::image_embeddings::table()
            },
            normalize,
            write,
            images,
            width: images.map(|images| images.width),
            rows: 0,
            mistakes: Mistakes::of(path),
            seen: HashMap::new(),
            block: Block::default(),
        }
    }

    /// Adds what is wrong with the row to the mistakes, or writes it.
    ///
    /// # Errors
    /// The first vector of the captions has another width than the images; the store cannot be written; the run was cancelled.
    pub(super) fn push(&mut self, cx: &mut Cx<'_>, row: &Row<'_>) -> Result<()> {
        cx.proceed()?;
        let number = self.rows;
        self.rows += 1;
        if let (0, Ok(vector), Some(images)) = (number, &row.vector, self.images)
            && vector.len() != images.width
        {
            let (path, got, wanted) = (self.path.display(), vector.len(), images.width);
            let message = format!("`{path}` has vectors of {got} values, wanted {wanted} as in `{}`", images.path);
            return Err(Error::data(message).hint("images and captions must be embedded by one model"));
        }
        let mut wrong = Vec::new();
        let image_id = kept(&mut wrong, row.image_id.as_ref().copied().map_err(Clone::clone));
        let caption_id = row.caption_id.as_ref().map(|id| kept(&mut wrong, id.as_ref().copied().map_err(Clone::clone)));
        let split = match (self.images, image_id) {
            (Some(images), Some(id)) => match images.splits.get(&id) {
                Some((_, split)) => Some(*split),
                None => kept(&mut wrong, Err(format!("image id {id} is not in `{}`", images.path))),
            },
            _ => None,
        };
        let said =
            row.split.as_ref().map(|split| split.as_ref().map_err(Clone::clone).and_then(|name| listing::split(name)));
        let said = said.and_then(|said| kept(&mut wrong, said));
        if let (Some(split), Some(said)) = (split, said)
            && split != said
        {
            wrong.push(format!("split is `{said}`, wanted `{split}`, which is that of its image"));
        }
        let scale = row.vector.as_ref().map_err(Clone::clone).and_then(|vector| self.scale(vector));
        let scale = kept(&mut wrong, scale);
        let split = split.or(said).unwrap_or_default();
        if let Some(id) = caption_id.unwrap_or(image_id) {
            match self.seen.entry(id) {
                Entry::Occupied(first) => {
                    let what = if caption_id.is_some() { "caption" } else { "image" };
                    wrong.push(format!("{what} id {id} is also that of row {}", first.get().0));
                    if caption_id.is_none() {
                        self.mistakes.hint("images are wanted once each, not once for each of their captions");
                    }
                }
                Entry::Vacant(place) => {
                    place.insert((number, split));
                }
            }
        }
        for message in wrong {
            self.mistakes.add(format_args!("row {number} (from 0)"), message);
        }
        if let (true, true, Some(image_id), Some(scale), Ok(vector)) =
            (self.write, self.mistakes.is_empty(), image_id, scale, &row.vector)
        {
            self.block.captions.extend(caption_id.flatten());
            self.block.images.push(image_id);
            self.block.splits.push(split);
            #[expect(clippy::cast_possible_truncation, reason = "values of unit vectors are f32 in the table")]
            match scale {
                Some(scale) => self.block.values.extend(vector.iter().map(|&value| (f64::from(value) * scale) as f32)),
                None => self.block.values.extend_from_slice(vector),
            }
            if self.block.images.len() == BLOCK_ROWS {
                self.flush(cx)?;
            }
        }
        Ok(())
    }

    /// Ends the pass: writes what is left. Gives the images, for the pass over their captions.
    ///
    /// # Errors
    /// All mistakes, or there are no rows.
    pub(super) fn finish(mut self, cx: &mut Cx<'_>) -> Result<Images> {
        std::mem::replace(&mut self.mistakes, Mistakes::of(self.path)).finish()?;
        let width = match self.width {
            Some(width) if self.rows > 0 => width,
            _ => return Err(Error::data(format!("`{}` has no rows", self.path.display()))),
        };
        self.flush(cx)?;
        Ok(Images { path: self.path.display().to_string(), splits: self.seen, width })
    }

    /// What the values of a vector are multiplied with, if they are, or what is wrong with it.
    fn scale(&mut self, vector: &[f32]) -> Said<Option<f64>> {
        let wanted = *self.width.get_or_insert(vector.len());
        if vector.len() != wanted {
            return Err(format!("the vector has {} values, wanted {wanted} as before", vector.len()));
        }
        if !(1..=MAX_WIDTH).contains(&wanted) {
            return Err(format!("the vector has {wanted} values, wanted 1 to {MAX_WIDTH}"));
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

    fn flush(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let (Block { captions, images, splits, values }, Some(width)) = (std::mem::take(&mut self.block), self.width)
        else {
            return Ok(());
        };
        if images.is_empty() {
            return Ok(());
        }
        let tokenizers = StringArray::from_iter_values(std::iter::repeat_n(TOKENIZER, captions.len()));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(images)), Arc::new(StringArray::from(splits))];
        if !captions.is_empty() {
            columns.insert(0, Arc::new(Int64Array::from(captions)));
            columns.push(Arc::new(tokenizers));
        }
        columns.push(tables::vectors(values, width)?);
        cx.write(self.table.name, tables::batch(&self.table.schema_of_width(width), columns)?)
    }
}

/// What was said; what is wrong goes to `wrong`.
fn kept<T>(wrong: &mut Vec<String>, said: Said<T>) -> Option<T> {
    said.map_err(|message| wrong.push(message)).ok()
}
