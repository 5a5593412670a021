//! Encoders of the rows of the tables `features` or `regions`, and `captions`, in blocks.

use std::collections::{BTreeSet, HashSet};

use arrow::array::RecordBatch;

use super::family::encode::EncodedItems;
use super::trained_model::TrainedModel;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_spec::input_spec::{ImageInput, ImageShape};
use pairloom_tables as tables;
use pairloom_tables::halves::check_image_vector;

/// Number of captions or feature vectors that are encoded together. It does not depend on the batches of the table, so
/// the last bits of an encoded item do not depend on the speed of the producing stage.
const BLOCK_ROWS: usize = 2048;

/// Number of images with regions that are encoded together: 38 MB for 36 regions of 2,048 values.
const REGION_BLOCK_ROWS: usize = 128;

/// Blocks that a process encodes, if several share the work.
///
/// Blocks are counted in groups, so that which process encodes a block does not depend on where an interrupted run
/// resumes: after a whole group.
#[derive(Debug, Clone, Copy)]
pub struct BlockShare {
    /// Rank of this process.
    pub rank: usize,
    /// Number of processes.
    pub world_size: usize,
    /// Number of blocks of a group. The ranks take the blocks of each group in turn.
    pub group: usize,
}

impl BlockShare {
    /// All blocks.
    const ALL: Self = Self { rank: 0, world_size: 1, group: 1 };

    /// No blocks: rows are checked, and not encoded.
    pub const NONE: Self = Self { rank: 1, ..Self::ALL };

    fn has(&self, block: usize) -> bool {
        block % self.group % self.world_size == self.rank
    }
}

/// Encoded rows, in the order of their table.
#[derive(Debug)]
pub struct EncodedRows {
    /// Ids of the captions; empty for images.
    pub caption_ids: Vec<i64>,
    /// Ids of the images, or of the images of the captions.
    pub image_ids: Vec<i64>,
    /// Splits of the rows.
    pub splits: Vec<String>,
    /// The encoded items; none if another process encodes the block.
    pub encoded: EncodedItems,
}

/// Encoder of the rows of the table `features`, or of `regions` for a model that reads them.
pub struct ImageEncoder<'e> {
    model: &'e TrainedModel,
    /// Name of the table, for messages.
    table: &'e str,
    includes_split: &'e dyn Fn(&str) -> bool,
    pending: PendingRows,
    values: Vec<f32>,
    /// Shape of an image in the table.
    shape: ImageShape,
    /// Number of images that are still to be left out.
    skipped: usize,
    share: BlockShare,
    /// Ids of the images of the splits so far.
    pub ids: HashSet<i64>,
    /// All splits of the rows so far.
    pub splits: BTreeSet<String>,
}

impl<'e> ImageEncoder<'e> {
    /// Creates an encoder of the splits of `table` for which `includes_split` returns true.
    #[must_use]
    pub fn new(model: &'e TrainedModel, table: &'e str, includes_split: &'e dyn Fn(&str) -> bool) -> Self {
        Self {
            model,
            table,
            includes_split,
            pending: PendingRows::default(),
            values: Vec::new(),
            shape: model.input_spec().image_shape(),
            skipped: 0,
            share: BlockShare::ALL,
            ids: HashSet::new(),
            splits: BTreeSet::new(),
        }
    }

    /// Leaves out the first `images` of the splits, which an earlier run encoded. They are checked all the same.
    #[must_use]
    pub fn skip(self, images: usize) -> Self {
        Self { skipped: images, ..self }
    }

    /// Encodes a share of the blocks only. The others are returned without items.
    #[must_use]
    pub fn share(self, share: BlockShare) -> Self {
        Self { share, ..self }
    }

    /// Adds the next rows of the table and returns the blocks that are complete.
    ///
    /// # Errors
    /// Features or regions that do not fit the model, values that are not finite or too large, an image without a region
    /// or with too many, or a duplicate image.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Vec<EncodedRows>> {
        let (images, splits) = (tables::int_column(batch, "image_id")?, tables::text_column(batch, "split")?);
        let (values, shape) = image_values(batch, self.model.input_spec().image_input())?;
        let mut blocks = Vec::new();
        if batch.num_rows() == 0 {
            return Ok(blocks);
        }
        let expected = self.model.input_spec().image;
        if shape.width != expected {
            let (table, got) = (self.table, shape.width);
            return Err(Error::data(format!(
                "`{table}` has vectors of {got} values, the model was trained on {expected}"
            ))
            .hint("extract them with the network of the training"));
        }
        self.shape = shape;
        let block_rows = if shape.regions.is_some() { REGION_BLOCK_ROWS } else { BLOCK_ROWS };
        for (row, feature) in values.chunks_exact(shape.values()).enumerate() {
            let (image, split) = (images.value(row), splits.value(row));
            if !self.splits.contains(split) {
                self.splits.insert(split.to_owned());
            }
            if !(self.includes_split)(split) {
                continue;
            }
            self.check_image(image, feature)?;
            if self.skipped > 0 {
                self.skipped -= 1;
                continue;
            }
            self.pending.push(None, image, split);
            self.values.extend_from_slice(feature);
            if self.pending.image_ids.len() == block_rows {
                blocks.extend(self.finish()?);
            }
        }
        Ok(blocks)
    }

    fn check_image(&mut self, image: i64, feature: &[f32]) -> Result<()> {
        check_image_vector(image, feature)?;
        if self.shape.regions.is_some() {
            let regions = feature.chunks_exact(self.shape.width.max(1));
            let count = regions.filter(|region| region.iter().any(|value| *value != 0.0)).count();
            if count == 0 {
                return Err(Error::data(format!(
                    "image {image} of `{}` has no region: all its values are 0",
                    self.table
                )));
            }
            if let Some(most) = self.model.max_regions().filter(|&most| count > most) {
                let message = format!("image {image} has {count} regions, expected at most the {most} of the training");
                return Err(Error::data(message).hint("the model has parameters for each place of a region"));
            }
        }
        if self.model.network.is_some() && !is_unit(feature) {
            let message = format!("the feature of image {image} is not a unit vector, as the model requires");
            return Err(Error::data(message).hint(
                "a model with a fine-tuned CNN needs features of `extract` with its weights, \
                 `weights = { model = \"…\" }`, and `normalize = true`",
            ));
        }
        if !self.ids.insert(image) {
            return Err(Error::data(format!("image {image} has two features, expected one")));
        }
        Ok(())
    }

    /// Encodes the rows that wait for their block to fill.
    pub fn finish(&mut self) -> Result<Option<EncodedRows>> {
        let (values, width) = (std::mem::take(&mut self.values), self.shape.values());
        let is_own = self.share.has(self.pending.blocks);
        let encode = || if is_own { self.model.encode_images(&values, width) } else { self.model.no_images() };
        self.pending.encode_with(encode)
    }
}

/// Encoder of the rows of the table `captions`.
pub struct CaptionEncoder<'e> {
    model: &'e TrainedModel,
    includes_split: &'e dyn Fn(&str) -> bool,
    images: &'e HashSet<i64>,
    pending: PendingRows,
    token_ids: Vec<Vec<i32>>,
    /// Number of captions that are still to be left out.
    skipped: usize,
    share: BlockShare,
    ids: HashSet<i64>,
    /// Ids of captions that were skipped because their images have no features.
    pub skipped_caption_ids: TruncatedList,
}

impl<'e> CaptionEncoder<'e> {
    /// Creates an encoder of the captions of `images` in the splits for which `includes_split` returns true.
    #[must_use]
    pub fn new(model: &'e TrainedModel, includes_split: &'e dyn Fn(&str) -> bool, images: &'e HashSet<i64>) -> Self {
        Self {
            model,
            includes_split,
            images,
            pending: PendingRows::default(),
            token_ids: Vec::new(),
            skipped: 0,
            share: BlockShare::ALL,
            ids: HashSet::new(),
            skipped_caption_ids: TruncatedList::default(),
        }
    }

    /// Leaves out the first `captions`, which an earlier run encoded. They are checked all the same.
    #[must_use]
    pub fn skip(self, captions: usize) -> Self {
        Self { skipped: captions, ..self }
    }

    /// Encodes a share of the blocks only. The others are returned without items.
    #[must_use]
    pub fn share(self, share: BlockShare) -> Self {
        Self { share, ..self }
    }

    /// Adds the next rows of the table and returns the blocks that are complete.
    ///
    /// # Errors
    /// A caption that is too long, or a duplicate caption.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Vec<EncodedRows>> {
        let (ids, image_ids) = (tables::int_column(batch, "caption_id")?, tables::int_column(batch, "image_id")?);
        let (splits, texts) = (tables::text_column(batch, "split")?, tables::text_column(batch, "text")?);
        let mut blocks = Vec::new();
        for row in 0..batch.num_rows() {
            let (caption, image, split) = (ids.value(row), image_ids.value(row), splits.value(row));
            if !(self.includes_split)(split) {
                continue;
            }
            if !self.images.contains(&image) {
                self.skipped_caption_ids.push(caption);
                continue;
            }
            if !self.ids.insert(caption) {
                return Err(Error::data(format!("caption {caption} appears twice")));
            }
            let token_ids = self.model.token_ids(texts.value(row));
            let token_ids = token_ids.map_err(|error| error.context(format!("caption {caption}")))?;
            if self.skipped > 0 {
                self.skipped -= 1;
                continue;
            }
            self.token_ids.push(token_ids);
            self.pending.push(Some(caption), image, split);
            // Captions of one image may be far apart in the table.
            if self.pending.image_ids.len() == BLOCK_ROWS && !self.model.reads_image_words() {
                blocks.extend(self.finish()?);
            }
        }
        Ok(blocks)
    }

    /// Encodes the rows that wait for their block to fill.
    pub fn finish(&mut self) -> Result<Option<EncodedRows>> {
        let mut token_ids = std::mem::take(&mut self.token_ids);
        self.model.add_image_words(&mut token_ids, &self.pending.image_ids);
        let token_ids: Vec<&[i32]> = token_ids.iter().map(Vec::as_slice).collect();
        let is_own = self.share.has(self.pending.blocks);
        let encode = || if is_own { self.model.encode_captions(&token_ids) } else { self.model.no_captions() };
        self.pending.encode_with(encode)
    }
}

/// Vectors of images in a batch of the table, row-major, and the shape of each.
fn image_values(batch: &RecordBatch, input: ImageInput) -> Result<(&[f32], ImageShape)> {
    match input {
        ImageInput::Features => {
            let (values, width) = tables::vector_column(batch, input.column())?;
            Ok((values, ImageShape::feature(width)))
        }
        ImageInput::Regions => {
            let (values, regions, width) = tables::regions::values(batch)?;
            Ok((values, ImageShape { regions: Some(regions), width }))
        }
    }
}

fn is_unit(feature: &[f32]) -> bool {
    let square: f64 = feature.iter().map(|&value| f64::from(value).powi(2)).sum();
    (square.sqrt() - 1.0).abs() < 1e-3
}

/// Rows that are encoded when their block is complete.
#[derive(Debug, Default)]
struct PendingRows {
    caption_ids: Vec<i64>,
    image_ids: Vec<i64>,
    splits: Vec<String>,
    /// Number of blocks that are complete.
    blocks: usize,
}

impl PendingRows {
    fn push(&mut self, caption: Option<i64>, image: i64, split: &str) {
        self.caption_ids.extend(caption);
        self.image_ids.push(image);
        self.splits.push(split.to_owned());
    }

    /// Encodes the pending rows, if there are any, and clears them.
    fn encode_with(&mut self, encode: impl FnOnce() -> Result<EncodedItems>) -> Result<Option<EncodedRows>> {
        if self.image_ids.is_empty() {
            return Ok(None);
        }
        let blocks = self.blocks + 1;
        let Self { caption_ids, image_ids, splits, .. } = std::mem::replace(self, Self { blocks, ..Self::default() });
        Ok(Some(EncodedRows { caption_ids, image_ids, splits, encoded: encode()? }))
    }
}
