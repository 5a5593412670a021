//! Reader of `embeddings`: embeddings of any model, in npy, Parquet or Arrow files → `image_embeddings`,
//! `caption_embeddings`.

mod npy_files;
mod table_files;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::listed_images;
use npy_files::NpyFiles;
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_formats::npy::is_npy;
use pairloom_formats::table_file::{MAX_WIDTH, TableFile};
use pairloom_stage::{Problem, SourceRef, StageContext, StageInput, StageOutput};
use pairloom_tables::{VectorColumn, caption_embeddings, image_embeddings, repeated};
use table_files::TableFiles;

/// Inputs with files beside npy files.
const IMAGE_OF: &str = "embeddings.image_of";
const IMAGE_IDS: &str = "embeddings.image_ids";
const CAPTION_IDS: &str = "embeddings.caption_ids";

/// Number of rows of a part, as in `embed`.
const PART_ROWS: usize = 4096;

/// Embeddings of images and captions that another program computed, in two files of the same format.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrecomputedEmbeddings {
    /// Image embeddings: an `.npy` file with one row per image, or a Parquet or Arrow file with columns `image_id`,
    /// `split` and `embedding`.
    pub images: SourceRef,
    /// Caption embeddings: an `.npy` file with one row per caption, or a Parquet or Arrow file with columns
    /// `caption_id`, `image_id` and `embedding`.
    pub captions: SourceRef,
    /// Split of all rows, instead of a column; by default `test` for npy files.
    #[serde(default)]
    pub split: Option<String>,
    /// Number of captions of each image in npy files, where the captions are in the order of the images; by default 5.
    #[serde(default)]
    pub captions_per_image: Option<usize>,
    /// Text file for npy files: line i is the row number, from 0, of the image that caption i describes.
    #[serde(default)]
    pub image_of: Option<SourceRef>,
    /// Identifiers of the images of npy files, in the order of the rows: an npy file of integers, or a text file with one
    /// number a line. By default the row numbers, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_ids: Option<SourceRef>,
    /// Identifiers of the captions of npy files, in the order of the rows, such as `coco_test_ids.npy`. By default the row
    /// numbers, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption_ids: Option<SourceRef>,
    /// Column names of Parquet and Arrow files, if they differ from the defaults.
    #[serde(default)]
    pub columns: Option<EmbeddingColumns>,
    /// True if vectors are scaled to unit length, as the cosine needs. Order embeddings need false, since their length
    /// has a meaning.
    #[serde(default = "default_normalize")]
    pub normalize: bool,
}

/// Column names of Parquet and Arrow files.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddingColumns {
    /// Column of the image identifier, in both files: integers, or texts, for which images get the number of their row,
    /// from 0.
    pub image_id: String,
    /// Column of the caption identifier, in the caption file: integers, or texts, for which captions get the number of
    /// their row, from 0.
    pub caption_id: String,
    /// Column of the split, `train`, `restval`, `val` or `test`, in the image file; not used if the setting `split` is
    /// given. If the caption file has the column too, its values must be equal.
    pub split: String,
    /// Column of the vector in the image file.
    pub image_embedding: String,
    /// Column of the vector in the caption file.
    pub caption_embedding: String,
}

impl Default for EmbeddingColumns {
    fn default() -> Self {
        let embedding = || "embedding".to_owned();
        Self {
            image_id: "image_id".to_owned(),
            caption_id: "caption_id".to_owned(),
            split: "split".to_owned(),
            image_embedding: embedding(),
            caption_embedding: embedding(),
        }
    }
}

impl PrecomputedEmbeddings {
    pub(super) fn inputs(&self) -> Vec<StageInput> {
        let files = [
            ("embeddings.images", Some(&self.images)),
            ("embeddings.captions", Some(&self.captions)),
            (IMAGE_OF, self.image_of.as_ref()),
            (IMAGE_IDS, self.image_ids.as_ref()),
            (CAPTION_IDS, self.caption_ids.as_ref()),
        ];
        files.into_iter().filter_map(|(name, file)| Some(StageInput::source(name, file?))).collect()
    }

    /// The settings for npy files only that are given.
    fn npy_settings(&self) -> impl Iterator<Item = &'static str> {
        let settings = [
            ("captions_per_image", self.captions_per_image.is_some()),
            ("image_of", self.image_of.is_some()),
            ("image_ids", self.image_ids.is_some()),
            ("caption_ids", self.caption_ids.is_some()),
        ];
        settings.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    pub(super) fn outputs() -> Vec<StageOutput> {
        [image_embeddings::table(), caption_embeddings::table()]
            .map(|table| StageOutput::table(table.name, table.schema(), PART_ROWS))
            .into()
    }

    /// Checks the settings without reading files. The format of a file is detected later, from its first bytes.
    pub(super) fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(Err(message)) = self.split.as_deref().map(listed_images::parse_split) {
            problems.push(Problem::new("embeddings.split", message));
        }
        if self.captions_per_image == Some(0) {
            problems.push(Problem::new("embeddings.captions_per_image", "got 0, expected at least 1"));
        }
        if self.captions_per_image.is_some() && self.image_of.is_some() {
            let message = "got `captions_per_image` and `image_of`, expected one of them";
            problems.push(Problem::new("embeddings", message));
        }
        if let (Some(setting), Some(_)) = (self.npy_settings().next(), &self.columns) {
            let message =
                format!("got `columns`, which is for Parquet and Arrow files, with `{setting}`, for npy files");
            problems.push(Problem::new("embeddings.columns", message));
        }
        problems
    }
}

fn default_normalize() -> bool {
    true
}

/// Reads the files twice: first to find all mistakes, then to write. So nothing is published of files with mistakes.
///
/// - Rows keep the order of their file. The identifiers of npy files are row numbers, from 0, or those of a list.
/// - A caption has the split of its image.
/// - Vectors are converted to f32, and scaled to unit length if `normalize` is set; the length is computed in f64.
///
/// Memory: 4,096 rows, and all identifiers.
pub(super) fn run(settings: &PrecomputedEmbeddings, cx: &mut StageContext<'_>) -> Result<()> {
    let (images, captions) = (cx.source("embeddings.images")?, cx.source("embeddings.captions")?);
    let files = EmbeddingFiles::open(settings, &images, &captions, cx)?;
    for write in [false, true] {
        let mut pass = EmbeddingPass::new(&images, None, settings.normalize, write);
        files.images(|row| pass.push(cx, row))?;
        let known = pass.finish(cx)?;
        let mut pass = EmbeddingPass::new(&captions, Some(&known), settings.normalize, write);
        files.captions(|row| pass.push(cx, row))?;
        pass.finish(cx)?;
    }
    Ok(())
}

/// Embedding files of either format.
enum EmbeddingFiles<'s> {
    Arrays(NpyFiles<'s>),
    Tables(TableFiles<'s>),
}

impl<'s> EmbeddingFiles<'s> {
    fn open(
        settings: &'s PrecomputedEmbeddings,
        images: &Path,
        captions: &Path,
        cx: &StageContext<'_>,
    ) -> Result<Self> {
        match (is_npy(images)?, is_npy(captions)?) {
            (true, true) if settings.columns.is_some() => Err(Error::usage(format!(
                "`embeddings.columns` names columns, and `{}` is an npy file, which has none",
                images.display()
            ))),
            (true, true) => Ok(Self::Arrays(NpyFiles::open(settings, images, captions, cx)?)),
            (false, false) => {
                let is_named_npy = |path: &&Path| path.extension().is_some_and(|extension| extension == "npy");
                if let Some(path) = [images, captions].into_iter().find(is_named_npy) {
                    let message = format!("`{}` is not an npy file: it does not begin as one", path.display());
                    return Err(Error::data(message).hint("`numpy.save` writes npy files"));
                }
                let tables = TableFiles::open(settings, images, captions, cx.cancel().clone())?;
                if let Some(setting) = settings.npy_settings().next() {
                    let message = format!(
                        "`embeddings.{setting}` is for npy files, and `{}` is not one: it has columns for identifiers",
                        captions.display()
                    );
                    return Err(Error::usage(message).hint(format!("leave out `{setting}`")));
                }
                Ok(Self::Tables(tables))
            }
            (true, false) => Err(mixed(images, captions)),
            (false, true) => Err(mixed(captions, images)),
        }
    }

    fn images(&self, visit: impl FnMut(EmbeddingRow<'_>) -> Result<()>) -> Result<()> {
        match self {
            Self::Arrays(files) => files.images(visit),
            Self::Tables(files) => files.images(visit),
        }
    }

    fn captions(&self, visit: impl FnMut(EmbeddingRow<'_>) -> Result<()>) -> Result<()> {
        match self {
            Self::Arrays(files) => files.captions(visit),
            Self::Tables(files) => files.captions(visit),
        }
    }
}

fn mixed(array: &Path, other: &Path) -> Error {
    // A file of no known format, such as an empty one, is the mistake itself.
    let Err(error) = TableFile::open(other) else {
        let (array, other) = (array.display(), other.display());
        return Error::data(format!(
            "`{array}` is an npy file and `{other}` is not, expected two files of the same format"
        ));
    };
    error
}

/// Number of rows that are written together.
const BLOCK_ROWS: usize = 1024;
/// Name of the tokeniser, which is not known for these files.
const TOKENIZER: &str = "unknown";

/// Value of a row, or an error message.
type Parsed<T> = Result<T, String>;

/// Row of an image file or a caption file.
struct EmbeddingRow<'r> {
    pub image_id: Parsed<i64>,
    /// Caption identifier; `None` for images.
    pub caption_id: Option<Parsed<i64>>,
    /// Split, if the file or the settings contain it.
    pub split: Option<Parsed<&'r str>>,
    /// Vector of finite values.
    pub vector: Parsed<&'r [f32]>,
}

/// Images of a file: the row of each identifier, the split of each row, and the width of the vectors.
struct KnownImages {
    path: String,
    rows: HashMap<i64, usize>,
    splits: Vec<&'static str>,
    width: usize,
}

/// Pass over the rows of a file, which checks them and optionally writes them.
struct EmbeddingPass<'p> {
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
    fn new(path: &'p Path, images: Option<&'p KnownImages>, normalize: bool, write: bool) -> Self {
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
    fn push(&mut self, cx: &mut StageContext<'_>, row: EmbeddingRow<'_>) -> Result<()> {
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
    fn finish(mut self, cx: &mut StageContext<'_>) -> Result<KnownImages> {
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
                "`{}` has vectors of {} values, expected {} as in `{}`",
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
        let stated_split =
            row.split.and_then(|split| ok_or_record(problems, split.and_then(listed_images::parse_split)));
        let split = match (self.images, image_id) {
            (Some(images), Some(id)) => ok_or_record(problems, images.split(id)),
            (Some(_), None) => None,
            (None, _) => stated_split,
        };
        if let (Some(split), Some(stated)) = (split, stated_split)
            && split != stated
        {
            problems.push(format!("split is `{stated}`, expected `{split}`, the split of its image"));
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
                        self.mistakes.hint("expected one row per image, not one per caption");
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
            return Err(format!("the vector has {} values, expected 1 to {MAX_WIDTH}", vector.len()));
        }
        let expected = *self.width.get_or_insert(vector.len());
        if vector.len() != expected {
            return Err(format!("the vector has {} values, expected {expected} as before", vector.len()));
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
