//! Scores of a split that a model computes from features and captions.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::embeddings::no_rows;
use super::pool::SplitPool;
use crate::error::Result;
use crate::model::family::encoded_items::EncodedItems;
use crate::model::rows_encoder::{CaptionEncoder, EncodedRows, ImageEncoder};
use crate::model::trained_model::TrainedModel;
use crate::retrieval::{MatrixPool, PoolScores, ScoreSource};
use crate::runtime::CancelToken;
use crate::stage::{StageContext, StageInput, TableRef};
use crate::tables;

/// Model that scores pairs, with the features and captions that it encodes.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelScorer {
    /// Trained model.
    pub model: TableRef,
    /// Feature vectors of the images.
    pub features: TableRef,
    /// Captions.
    pub captions: TableRef,
}

/// Names of the inputs.
pub(super) const MODEL: &str = "scores.model";
const FEATURES: &str = "scores.features";
const CAPTIONS: &str = "scores.captions";

impl ModelScorer {
    pub(super) fn inputs(&self) -> [StageInput; 3] {
        [
            StageInput::files(MODEL, &self.model, "model"),
            StageInput::table(FEATURES, &self.features, &tables::features::table()),
            StageInput::table(CAPTIONS, &self.captions, &tables::captions::table()),
        ]
    }
}

/// Images and captions of a pool, encoded by a model, in the order of the pool.
#[derive(Debug)]
pub(super) struct EncodedSplit<'t> {
    trained: &'t TrainedModel,
    images: EncodedItems,
    captions: EncodedItems,
}

impl<'t> EncodedSplit<'t> {
    /// Reads the rows of `split` and encodes them.
    ///
    /// # Errors
    /// No rows of the split; as [`ImageEncoder::push`], [`CaptionEncoder::push`] and [`SplitPool::join`].
    pub(super) fn read(trained: &'t TrainedModel, split: &str, cx: &mut StageContext<'_>) -> Result<(SplitPool, Self)> {
        let wants = |of: &str| of == split;
        let mut encoder = ImageEncoder::new(trained, &wants);
        let mut images = Vec::new();
        while let Some(batch) = cx.read_next(FEATURES)? {
            images.extend(encoder.push(&batch)?);
        }
        images.extend(encoder.finish()?);
        if images.is_empty() {
            return Err(no_rows(split, FEATURES, &encoder.splits));
        }
        let image_ids = images.iter().flat_map(|rows| &rows.image_ids).copied().collect();

        let mut encoder = CaptionEncoder::new(trained, &wants, &encoder.ids);
        let mut captions = Vec::new();
        while let Some(batch) = cx.read_next(CAPTIONS)? {
            captions.extend(encoder.push(&batch)?);
        }
        captions.extend(encoder.finish()?);
        if !encoder.skipped_caption_ids.is_empty() {
            let (count, ids) = (encoder.skipped_caption_ids.len(), encoder.skipped_caption_ids.join(", "));
            let message = format!("{count} left out, since `{FEATURES}` lacks their image: caption_id {ids}");
            cx.warn(format!("captions of split `{split}`"), message);
        }
        let caption_ids: Vec<i64> = captions.iter().flat_map(|rows| &rows.caption_ids).copied().collect();
        let image_of: Vec<i64> = captions.iter().flat_map(|rows| &rows.image_ids).copied().collect();
        let (pool, order) = SplitPool::join(image_ids, &caption_ids, &image_of, (split, FEATURES), cx)?;
        let join = |rows: Vec<EncodedRows>| {
            EncodedItems::concat(&rows.into_iter().map(|rows| rows.encoded).collect::<Vec<_>>())
        };
        Ok((pool, Self { trained, images: join(images)?, captions: reorder_items(join(captions)?, &order) }))
    }
}

/// Selects items by index, in the given order. Copies nothing if that is their order already.
fn reorder_items(all: EncodedItems, order: &[usize]) -> EncodedItems {
    if order.len() == all.len() && order.is_sorted() { all } else { all.select(order) }
}

/// Scores of the model, pool by pool.
pub(super) struct ModelSource<'m> {
    pub(super) sides: &'m EncodedSplit<'m>,
    pub(super) pool: &'m SplitPool,
    pub(super) threads: usize,
    pub(super) cancel: CancelToken,
}

impl ScoreSource for ModelSource<'_> {
    fn pool<'s>(&'s self, images: &Range<usize>, captions: &Range<usize>) -> Result<Box<dyn PoolScores + 's>> {
        let EncodedSplit { trained, images: all_images, captions: all_captions } = self.sides;
        let sides = [all_images.slice(images.clone()), all_captions.slice(captions.clone())];
        let ids = [&self.pool.images[images.clone()], &self.pool.captions[captions.clone()]];
        Ok(Box::new(MatrixPool(trained.scores(sides, ids, self.threads, &self.cancel)?)))
    }
}
