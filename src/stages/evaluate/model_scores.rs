//! Scores of a split that a model computes from features or regions, and captions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::embeddings::no_rows;
use super::pool::SplitPool;
use crate::error::Result;
use crate::model::family::encoded_items::EncodedItems;
use crate::model::family::input_spec::ImageInput;
use crate::model::rows_encoder::{CaptionEncoder, EncodedRows, ImageEncoder};
use crate::model::trained_model::TrainedModel;
use crate::retrieval::StoredScores;
use crate::stage::{Problem, StageContext, StageInput, TableRef};
use crate::stages::image_vectors::{
    check_image_input, either_image_vectors_problem, image_vectors, image_vectors_input,
};
use crate::tables;

/// Model that scores pairs, with the images and captions that it encodes.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelScorer {
    /// Trained model.
    pub model: TableRef,
    /// Feature vectors of the images. One of `features` and `regions` must be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<TableRef>,
    /// Feature vectors of the regions of the images, for a model that reads them, instead of `features`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<TableRef>,
    /// Captions.
    pub captions: TableRef,
}

/// Names of the inputs.
pub(super) const MODEL: &str = "scores.model";
const CAPTIONS: &str = "scores.captions";

impl ModelScorer {
    pub(super) fn inputs(&self) -> Vec<StageInput> {
        let model = StageInput::files(MODEL, &self.model, "model");
        let images = image_vectors(self.features.as_ref(), self.regions.as_ref());
        let images = images.map(|(from, input)| image_vectors_input(images_input(input), from, input));
        let captions = StageInput::table(CAPTIONS, &self.captions, &tables::captions::table());
        std::iter::once(model).chain(images).chain([captions]).collect()
    }

    /// Problem of the settings.
    pub(super) fn problem(&self) -> Option<Problem> {
        either_image_vectors_problem(self.features.as_ref(), self.regions.as_ref(), "scores.")
    }

    /// Kind of the images.
    pub(super) fn image_input(&self) -> ImageInput {
        image_vectors(self.features.as_ref(), self.regions.as_ref()).map_or(ImageInput::Features, |(_, input)| input)
    }
}

/// Name of the input with the vectors of images.
fn images_input(input: ImageInput) -> &'static str {
    match input {
        ImageInput::Features => "scores.features",
        ImageInput::Regions => "scores.regions",
    }
}

/// Scores of all images of a split with all its captions, in the order of its pool.
#[derive(Debug)]
pub(super) struct SplitScores {
    /// Scores, row-major with a row for each image.
    scores: Vec<f32>,
    /// Number of captions.
    captions: usize,
}

impl SplitScores {
    /// Reads the rows of `split`, encodes them and scores all pairs.
    ///
    /// # Errors
    /// No rows of the split; as [`TrainedModel::scores`], [`ImageEncoder::push`], [`CaptionEncoder::push`] and [`SplitPool::join`].
    pub(super) fn read(
        trained: &TrainedModel,
        input: ImageInput,
        split: &str,
        cx: &mut StageContext<'_>,
    ) -> Result<(SplitPool, Self)> {
        check_image_input(trained, input)?;
        let from = images_input(input);
        let wants = |of: &str| of == split;
        let mut encoder = ImageEncoder::new(trained, &wants);
        let mut images = Vec::new();
        while let Some(batch) = cx.read_next(from)? {
            images.extend(encoder.push(&batch)?);
        }
        images.extend(encoder.finish()?);
        if images.is_empty() {
            return Err(no_rows(split, from, &encoder.splits));
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
            let message = format!("{count} left out, since `{from}` lacks their image: caption_id {ids}");
            cx.warn(format!("captions of split `{split}`"), message);
        }
        let caption_ids: Vec<i64> = captions.iter().flat_map(|rows| &rows.caption_ids).copied().collect();
        let image_of: Vec<i64> = captions.iter().flat_map(|rows| &rows.image_ids).copied().collect();
        let (pool, order) = SplitPool::join(image_ids, &caption_ids, &image_of, (split, from), cx)?;
        let join = |rows: Vec<EncodedRows>| {
            EncodedItems::concat(&rows.into_iter().map(|rows| rows.encoded).collect::<Vec<_>>())
        };
        let (images, captions) = (join(images)?, reorder_items(join(captions)?, &order));
        let scores = trained.scores(&images, &captions, [&pool.images, &pool.captions], cx.threads())?;
        Ok((pool, Self { scores, captions: captions.len() }))
    }

    /// The scores as a source, for searches on `threads` threads.
    pub(super) fn source(&self, threads: usize) -> StoredScores<'_> {
        StoredScores { scores: &self.scores, captions: self.captions, threads }
    }
}

/// Selects items by index, in the given order. Copies nothing if that is their order already.
fn reorder_items(all: EncodedItems, order: &[usize]) -> EncodedItems {
    if order.len() == all.len() && order.is_sorted() { all } else { all.select(order) }
}
