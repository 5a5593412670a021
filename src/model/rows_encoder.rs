//! Encodes the rows of tables of features and of captions, in blocks.

use std::collections::{BTreeSet, HashSet};

use arrow::array::RecordBatch;

use super::family::encoded::Encoded;
use super::trained::Trained;
use crate::error::{Error, Result, TruncatedList};
use crate::tables;

/// Rows that are encoded together, whatever the batches of the table are: so the last bits of an encoded item do not depend on
/// how fast the producer was.
const BLOCK_ROWS: usize = 2048;

/// Encoded rows, in the order of their table.
#[derive(Debug)]
pub struct EncodedRows {
    /// Identifiers of the captions; none of images.
    pub caption_ids: Vec<i64>,
    /// Identifiers of the images, or of the captions' images.
    pub image_ids: Vec<i64>,
    /// Splits of the rows.
    pub splits: Vec<String>,
    /// The encoded items.
    pub encoded: Encoded,
}

/// Encoder of the rows of `features`.
pub struct ImageEncoder<'e> {
    trained: &'e Trained,
    wants: &'e dyn Fn(&str) -> bool,
    waiting: Waiting,
    features: Vec<f32>,
    /// Identifiers of the images that were taken.
    pub ids: HashSet<i64>,
    /// All splits of the table so far.
    pub splits: BTreeSet<String>,
}

impl<'e> ImageEncoder<'e> {
    /// Encodes the splits that it `wants`.
    #[must_use]
    pub fn new(trained: &'e Trained, wants: &'e dyn Fn(&str) -> bool) -> Self {
        let (waiting, features) = (Waiting::default(), Vec::new());
        Self { trained, wants, waiting, features, ids: HashSet::new(), splits: BTreeSet::new() }
    }

    /// Takes the next rows of the table; gives the blocks that are full.
    ///
    /// # Errors
    /// Features that the model was not trained on, values that are not finite, or an image twice.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Vec<EncodedRows>> {
        let width = self.trained.image_values();
        let (images, splits) = (tables::ids(batch, "image_id")?, tables::texts(batch, "split")?);
        let (values, got) = tables::floats(batch, "feature")?;
        let mut blocks = Vec::new();
        if batch.num_rows() == 0 {
            return Ok(blocks);
        }
        if got != width {
            return Err(Error::data(format!("the features have width {got}, the model was trained on {width}"))
                .hint("extract them with the network that the model was trained on"));
        }
        for (row, feature) in values.chunks_exact(width).enumerate() {
            let (image, split) = (images.value(row), splits.value(row));
            if !self.splits.contains(split) {
                self.splits.insert(split.to_owned());
            }
            if !(self.wants)(split) {
                continue;
            }
            self.check(image, feature)?;
            self.waiting.push(None, image, split);
            self.features.extend_from_slice(feature);
            if self.waiting.image_ids.len() == BLOCK_ROWS {
                blocks.extend(self.finish()?);
            }
        }
        Ok(blocks)
    }

    fn check(&mut self, image: i64, feature: &[f32]) -> Result<()> {
        if feature.iter().any(|value| !value.is_finite()) {
            return Err(Error::data(format!("the feature of image {image} holds a value that is not finite")));
        }
        if self.trained.network.is_some() && !is_unit(feature) {
            let message = format!("the feature of image {image} is no unit vector, as the model was trained on");
            return Err(Error::data(message).hint(
                "features for a model that was trained with pictures: `extract` with its weights, \
                 `weights = { model = \"…\" }`, and `normalize = true`",
            ));
        }
        if !self.ids.insert(image) {
            return Err(Error::data(format!("image {image} has two features, wanted one")));
        }
        Ok(())
    }

    /// Encodes the rows that wait for their block to fill.
    ///
    /// # Errors
    /// A failure of libtorch.
    pub fn finish(&mut self) -> Result<Option<EncodedRows>> {
        let features = std::mem::take(&mut self.features);
        self.waiting.encoded(|| self.trained.encode_images(&features))
    }
}

/// Encoder of the rows of `captions`.
pub struct CaptionEncoder<'e> {
    trained: &'e Trained,
    wants: &'e dyn Fn(&str) -> bool,
    images: &'e HashSet<i64>,
    waiting: Waiting,
    words: Vec<Vec<i32>>,
    ids: HashSet<i64>,
    /// Identifiers of captions of other images, which are left out.
    pub left_out: TruncatedList,
}

impl<'e> CaptionEncoder<'e> {
    /// Encodes the captions of `images` in the splits that it `wants`.
    #[must_use]
    pub fn new(trained: &'e Trained, wants: &'e dyn Fn(&str) -> bool, images: &'e HashSet<i64>) -> Self {
        Self {
            trained,
            wants,
            images,
            waiting: Waiting::default(),
            words: Vec::new(),
            ids: HashSet::new(),
            left_out: TruncatedList::default(),
        }
    }

    /// Takes the next rows of the table; gives the blocks that are full.
    ///
    /// # Errors
    /// A caption that is too long, or stands there twice.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Vec<EncodedRows>> {
        let (ids, of) = (tables::ids(batch, "caption_id")?, tables::ids(batch, "image_id")?);
        let (splits, texts) = (tables::texts(batch, "split")?, tables::texts(batch, "text")?);
        let mut blocks = Vec::new();
        for row in 0..batch.num_rows() {
            let (caption, image, split) = (ids.value(row), of.value(row), splits.value(row));
            if !(self.wants)(split) {
                continue;
            }
            if !self.images.contains(&image) {
                self.left_out.push(caption);
                continue;
            }
            if !self.ids.insert(caption) {
                return Err(Error::data(format!("caption {caption} stands there twice")));
            }
            let words = self.trained.words(texts.value(row));
            self.words.push(words.map_err(|error| error.context(format!("caption {caption}")))?);
            self.waiting.push(Some(caption), image, split);
            if self.waiting.image_ids.len() == BLOCK_ROWS {
                blocks.extend(self.finish()?);
            }
        }
        Ok(blocks)
    }

    /// Encodes the rows that wait for their block to fill.
    ///
    /// # Errors
    /// A failure of libtorch.
    pub fn finish(&mut self) -> Result<Option<EncodedRows>> {
        let words = std::mem::take(&mut self.words);
        let words: Vec<&[i32]> = words.iter().map(Vec::as_slice).collect();
        self.waiting.encoded(|| self.trained.encode_captions(&words))
    }
}

fn is_unit(feature: &[f32]) -> bool {
    let square: f64 = feature.iter().map(|&value| f64::from(value).powi(2)).sum();
    (square.sqrt() - 1.0).abs() < 1e-3
}

/// Rows that wait to be encoded together.
#[derive(Debug, Default)]
struct Waiting {
    caption_ids: Vec<i64>,
    image_ids: Vec<i64>,
    splits: Vec<String>,
}

impl Waiting {
    fn push(&mut self, caption: Option<i64>, image: i64, split: &str) {
        self.caption_ids.extend(caption);
        self.image_ids.push(image);
        self.splits.push(split.to_owned());
    }

    /// The rows, if there are any, with what they are encoded as; none are left here.
    fn encoded(&mut self, encode: impl FnOnce() -> Result<Encoded>) -> Result<Option<EncodedRows>> {
        let Self { caption_ids, image_ids, splits } = std::mem::take(self);
        if image_ids.is_empty() {
            return Ok(None);
        }
        Ok(Some(EncodedRows { caption_ids, image_ids, splits, encoded: encode()? }))
    }
}
