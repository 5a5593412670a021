//! Scores of a split that a model computes, of features and captions that it encodes.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::embeddings::no_rows;
use super::pool::Pool;
use crate::error::Result;
use crate::model::family::encoded::Encoded;
use crate::model::trained::Trained;
use crate::retrieval::{MatrixPool, PoolScores, ScoreSource};
use crate::stage::{Cx, Input, TableRef};
use crate::stages::encode::{EncodedBlock, Encoder};
use crate::tables;

/// A model, and what it encodes and scores. Any model has scores; one whose scores follow from one vector of an image and one of
/// a caption is faster by `embed`.
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
    /// No rows of the split; as [`Encoder`] and [`Pool::join`].
    pub(super) fn read(trained: &'t Trained, split: &str, cx: &mut Cx<'_>) -> Result<(Pool, Self)> {
        let encoder = Encoder { trained, wants: &|of| of == split };
        let (mut images, mut ids) = (Vec::new(), Vec::new());
        let read = encoder.images(FEATURES, cx, &mut |block: EncodedBlock, _| {
            images.push(block.encoded);
            ids.extend(block.image_ids);
            Ok(())
        })?;
        if ids.is_empty() {
            return Err(no_rows(split, FEATURES, &read.splits));
        }
        let (mut captions, mut caption_ids, mut image_of) = (Vec::new(), Vec::new(), Vec::new());
        encoder.captions(CAPTIONS, &read.ids, cx, &mut |block: EncodedBlock, _| {
            captions.push(block.encoded);
            caption_ids.extend(block.caption_ids);
            image_of.extend(block.image_ids);
            Ok(())
        })?;
        let (pool, order) = Pool::join(ids, &caption_ids, &image_of, split, cx)?;
        let captions = Encoded::join(&captions)?.select(&order);
        Ok((pool, Self { trained, images: Encoded::join(&images)?, captions }))
    }
}

/// Scores of the model, pool by pool.
pub(super) struct ModelSource<'m> {
    pub(super) sides: &'m EncodedSides<'m>,
    pub(super) threads: usize,
}

impl ScoreSource for ModelSource<'_> {
    fn pool<'s>(&'s self, images: &Range<usize>, captions: &Range<usize>) -> Result<Box<dyn PoolScores + 's>> {
        let sides = [self.sides.images.part(images.clone()), self.sides.captions.part(captions.clone())];
        Ok(Box::new(MatrixPool(self.sides.trained.scores(sides, self.threads)?)))
    }
}
