//! Encodes the images and captions that a stage reads, with a trained model, in blocks.

use std::collections::{BTreeSet, HashSet};

use crate::error::{Error, Result};
use crate::model::device::{to_tch, use_threads};
use crate::model::family::encoded::Encoded;
use crate::model::trained::{DESCRIPTION, PARAMETERS, Trained};
use crate::stage::Cx;
use crate::tables;

/// Rows that are encoded together, whatever the batches of the input are: so the last bits of an encoded item do not depend on
/// how fast the producer was.
const BLOCK_ROWS: usize = 2048;

/// The trained model of the files input `input`, on the device of the run.
///
/// # Errors
/// A file that is damaged, or files that do not fit each other.
pub(super) fn read_model(input: &str, cx: &mut Cx<'_>) -> Result<Trained> {
    use_threads(cx.threads());
    let device = to_tch(cx.device())?;
    Trained::read(&cx.file(input, DESCRIPTION)?, &cx.file(input, PARAMETERS)?, device)
}

/// Encoded rows of one input, in its order.
#[derive(Debug)]
pub(super) struct EncodedBlock {
    /// Identifiers of the captions; none of images.
    pub(super) caption_ids: Vec<i64>,
    /// Identifiers of the images, or of the captions' images.
    pub(super) image_ids: Vec<i64>,
    pub(super) splits: Vec<String>,
    pub(super) encoded: Encoded,
}

/// Takes blocks as they are encoded.
pub(super) type Take<'t> = dyn FnMut(EncodedBlock, &mut Cx<'_>) -> Result<()> + 't;

/// Encoder of the rows of some splits.
pub(super) struct Encoder<'e> {
    pub(super) trained: &'e Trained,
    /// Splits that are encoded.
    pub(super) wants: &'e dyn Fn(&str) -> bool,
}

/// Images that were encoded.
#[derive(Debug, Default)]
pub(super) struct ImagesRead {
    pub(super) ids: HashSet<i64>,
    /// All splits of the table.
    pub(super) splits: BTreeSet<String>,
}

impl Encoder<'_> {
    /// Encodes the features of the table `input`.
    ///
    /// # Errors
    /// Features that the model was not trained on, values that are not finite, an image twice, or the first error of `take`.
    pub(super) fn images(&self, input: &str, cx: &mut Cx<'_>, take: &mut Take<'_>) -> Result<ImagesRead> {
        let width = self.trained.image_values();
        let mut read = ImagesRead::default();
        let (mut block, mut features) = (Block::default(), Vec::new());
        while let Some(batch) = cx.next(input)? {
            let (images, splits) = (tables::ids(&batch, "image_id")?, tables::texts(&batch, "split")?);
            let (values, got) = tables::floats(&batch, "feature")?;
            if batch.num_rows() == 0 {
                continue;
            }
            if got != width {
                return Err(Error::data(format!("the features have width {got}, the model was trained on {width}"))
                    .hint("embed with the network that the model was trained on"));
            }
            for (row, feature) in values.chunks_exact(width).enumerate() {
                let (image, split) = (images.value(row), splits.value(row));
                if !read.splits.contains(split) {
                    read.splits.insert(split.to_owned());
                }
                if !(self.wants)(split) {
                    continue;
                }
                self.check(image, feature)?;
                if !read.ids.insert(image) {
                    return Err(Error::data(format!("image {image} has two features, wanted one")));
                }
                block.push(None, image, split);
                features.extend_from_slice(feature);
                if block.image_ids.len() == BLOCK_ROWS {
                    let encoded = self.trained.encode_images(&std::mem::take(&mut features))?;
                    take(block.encoded(encoded), cx)?;
                }
            }
        }
        if !features.is_empty() {
            take(block.encoded(self.trained.encode_images(&features)?), cx)?;
        }
        Ok(read)
    }

    fn check(&self, image: i64, feature: &[f32]) -> Result<()> {
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
        Ok(())
    }

    /// Encodes the captions of `images` in the table `input`. Captions of other images are left out, with a warning that counts
    /// them.
    ///
    /// # Errors
    /// A caption that is too long, or the first error of `take`.
    pub(super) fn captions(
        &self,
        input: &str,
        images: &HashSet<i64>,
        cx: &mut Cx<'_>,
        take: &mut Take<'_>,
    ) -> Result<()> {
        let (mut block, mut words) = (Block::default(), Vec::new());
        let mut left_out = 0;
        while let Some(batch) = cx.next(input)? {
            let (ids, of) = (tables::ids(&batch, "caption_id")?, tables::ids(&batch, "image_id")?);
            let (splits, texts) = (tables::texts(&batch, "split")?, tables::texts(&batch, "text")?);
            for row in 0..batch.num_rows() {
                let (image, split) = (of.value(row), splits.value(row));
                if !(self.wants)(split) {
                    continue;
                }
                if !images.contains(&image) {
                    left_out += 1;
                    continue;
                }
                let caption = ids.value(row);
                block.push(Some(caption), image, split);
                let of_caption = self.trained.words(texts.value(row));
                words.push(of_caption.map_err(|error| error.context(format!("caption {caption}")))?);
                if block.image_ids.len() == BLOCK_ROWS {
                    take(block.encoded(self.encode(&std::mem::take(&mut words))?), cx)?;
                }
            }
        }
        if !words.is_empty() {
            take(block.encoded(self.encode(&words)?), cx)?;
        }
        if left_out > 0 {
            cx.warn("captions", format!("{left_out} captions left out: their images have no feature"));
        }
        Ok(())
    }

    fn encode(&self, words: &[Vec<i64>]) -> Result<Encoded> {
        self.trained.encode_captions(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }
}

fn is_unit(feature: &[f32]) -> bool {
    let square: f64 = feature.iter().map(|&value| f64::from(value).powi(2)).sum();
    (square.sqrt() - 1.0).abs() < 1e-3
}

/// Rows that wait to be encoded together.
#[derive(Debug, Default)]
struct Block {
    caption_ids: Vec<i64>,
    image_ids: Vec<i64>,
    splits: Vec<String>,
}

impl Block {
    fn push(&mut self, caption: Option<i64>, image: i64, split: &str) {
        self.caption_ids.extend(caption);
        self.image_ids.push(image);
        self.splits.push(split.to_owned());
    }

    /// The rows with what they are encoded as; none are left here.
    fn encoded(&mut self, encoded: Encoded) -> EncodedBlock {
        let Self { caption_ids, image_ids, splits } = std::mem::take(self);
        EncodedBlock { caption_ids, image_ids, splits, encoded }
    }
}
