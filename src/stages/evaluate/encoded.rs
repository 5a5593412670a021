//! Scores of a split that a model computes, of features and captions that it encodes.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::embeddings::no_rows;
use super::pool::Pool;
use crate::error::Result;
use crate::model::family::encoded::Encoded;
use crate::model::rows_encoder::{CaptionEncoder, EncodedRows, ImageEncoder};
use crate::model::trained::Trained;
use crate::retrieval::{MatrixPool, PoolScores, ScoreSource};
use crate::runtime::Cancel;
use crate::stage::{Cx, Input, TableRef};
use crate::tables;

/// A model, and what it encodes and scores.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScoredBy {
    /// The model.
    pub model: TableRef,
    /// Feature vectors of the images.
    pub features: TableRef,
    /// The captions.
    pub captions: TableRef,
}

/// Names of the inputs.
pub(super) const MODEL: &str = "scores.model";
const FEATURES: &str = "scores.features";
const CAPTIONS: &str = "scores.captions";

impl ScoredBy {
    pub(super) fn inputs(&self) -> [Input; 3] {
        [
            Input::files(MODEL, &self.model),
            Input::table(FEATURES, &self.features, tables::features::table().schema()),
            Input::table(CAPTIONS, &self.captions, tables::captions::table().schema()),
        ]
    }
}

/// Images and captions of a pool as a model encodes them, in its order.
#[derive(Debug)]
pub(super) struct EncodedSides<'t> {
    trained: &'t Trained,
    images: Encoded,
    captions: Encoded,
}

impl<'t> EncodedSides<'t> {
    /// Reads the rows of `split` and encodes them.
    ///
    /// # Errors
    /// No rows of the split; as [`ImageEncoder::push`], [`CaptionEncoder::push`] and [`Pool::join`].
    pub(super) fn read(trained: &'t Trained, split: &str, cx: &mut Cx<'_>) -> Result<(Pool, Self)> {
        let wants = |of: &str| of == split;
        let mut encoder = ImageEncoder::new(trained, &wants);
        let mut images = Vec::new();
        while let Some(batch) = cx.next(FEATURES)? {
            images.extend(encoder.push(&batch)?);
        }
        images.extend(encoder.finish()?);
        if images.is_empty() {
            return Err(no_rows(split, FEATURES, &encoder.splits));
        }
        let image_ids = images.iter().flat_map(|rows| &rows.image_ids).copied().collect();

        let mut encoder = CaptionEncoder::new(trained, &wants, &encoder.ids);
        let mut captions = Vec::new();
        while let Some(batch) = cx.next(CAPTIONS)? {
            captions.extend(encoder.push(&batch)?);
        }
        captions.extend(encoder.finish()?);
        if !encoder.left_out.is_empty() {
            let (count, ids) = (encoder.left_out.len(), encoder.left_out.join(", "));
            let message = format!("{count} left out, since `{FEATURES}` lacks their image: caption_id {ids}");
            cx.warn(format!("captions of split `{split}`"), message);
        }
        let caption_ids: Vec<i64> = captions.iter().flat_map(|rows| &rows.caption_ids).copied().collect();
        let image_of: Vec<i64> = captions.iter().flat_map(|rows| &rows.image_ids).copied().collect();
        let (pool, order) = Pool::join(image_ids, &caption_ids, &image_of, (split, FEATURES), cx)?;
        let join =
            |rows: Vec<EncodedRows>| Encoded::join(&rows.into_iter().map(|rows| rows.encoded).collect::<Vec<_>>());
        Ok((pool, Self { trained, images: join(images)?, captions: arranged(join(captions)?, &order) }))
    }
}

/// The items of these numbers, in the order given; the same where that is theirs already.
fn arranged(all: Encoded, order: &[usize]) -> Encoded {
    if order.len() == all.len() && order.is_sorted() { all } else { all.select(order) }
}

/// Scores of the model, pool by pool.
pub(super) struct ModelSource<'m> {
    pub(super) sides: &'m EncodedSides<'m>,
    pub(super) pool: &'m Pool,
    pub(super) threads: usize,
    pub(super) cancel: Cancel,
}

impl ScoreSource for ModelSource<'_> {
    fn pool<'s>(&'s self, images: &Range<usize>, captions: &Range<usize>) -> Result<Box<dyn PoolScores + 's>> {
        let EncodedSides { trained, images: all_images, captions: all_captions } = self.sides;
        let sides = [all_images.part(images.clone()), all_captions.part(captions.clone())];
        let ids = [&self.pool.images[images.clone()], &self.pool.captions[captions.clone()]];
        Ok(Box::new(MatrixPool(trained.scores(sides, ids, self.threads, &self.cancel)?)))
    }
}
