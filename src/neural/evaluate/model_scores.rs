//! Scores of a split that a model computes as the evaluation needs them.

use std::collections::HashMap;
use std::ops::Range;

use super::pool::SplitPool;
use crate::image_input::check_image_input;
use crate::tokenized_captions::{TokenizedCaptions, no_rows_of_split};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::hubness::distance::Distance;
use pairloom_kernels::identity::IdentityWriter;
use pairloom_model::family::input_spec::ImageInput;
use pairloom_model::rows_encoder::{BlockShare, ImageEncoder};
use pairloom_model::streamed_scores::{ImageValues, StreamedItems};
use pairloom_model::trained_model::TrainedModel;
use pairloom_retrieval::{BinaryRelevance, PoolScores, ScoreSet, ScoreSource};
use pairloom_search::Search;
use pairloom_stage::StageContext;
use pairloom_storage::shard::ShardVectors;

/// Images and captions of a split, with the model that scores them.
pub(super) struct ModelScores<'m> {
    trained: &'m TrainedModel,
    image_ids: Vec<i64>,
    caption_ids: Vec<i64>,
    /// Token ids of the captions.
    token_ids: Vec<Vec<i32>>,
    images: MappedImages,
    /// Captions of each image whose scores the measures ask for.
    positives: Vec<Vec<usize>>,
    /// Digest of model, images and captions.
    digest: blake3::Hash,
    threads: usize,
}

/// Features or regions of the images of a split, memory-mapped.
struct MappedImages {
    shards: Vec<ShardVectors>,
    /// Shard and row of each image.
    places: Vec<(usize, usize)>,
}

/// Names of the tables of images and captions, for messages.
pub(super) struct ModelInputs {
    pub(super) images: (String, ImageInput),
    pub(super) captions: String,
    /// Digest of the files of the model.
    pub(super) model_digest: blake3::Hash,
}

impl<'m> ModelScores<'m> {
    /// Reads a split.
    ///
    /// # Errors
    /// Images or captions that the model cannot score, no rows of the split, or as [`SplitPool::join`].
    pub(super) fn read(
        trained: &'m TrainedModel,
        inputs: &ModelInputs,
        split: &str,
        cx: &mut StageContext<'_>,
    ) -> Result<(SplitPool, Self)> {
        let (table, input) = &inputs.images;
        check_image_input(trained, *input)?;
        let image_ids = check_images(trained, (table, *input), split, cx)?;
        let captions = TokenizedCaptions::read(trained, (split, &inputs.captions), cx)?;
        let (pool, order) =
            SplitPool::join(image_ids.clone(), &captions.ids, &captions.image_ids, (split, input.name()), cx)?;
        let token_ids: Vec<Vec<i32>> = order.iter().map(|&caption| captions.token_ids[caption].clone()).collect();
        let shards = cx.shards(input.name())?;
        let (mut at, mut vectors, mut hasher) = (HashMap::new(), Vec::new(), blake3::Hasher::new());
        let mut sink = |bytes: &[u8]| {
            hasher.update(bytes);
        };
        let mut fields = IdentityWriter::new(&mut sink);
        fields.write_bytes(inputs.model_digest.as_bytes());
        for shard in 0..shards.len() {
            let open = shards.open(shard)?;
            let ids = open.ids("image_id")?;
            for row in 0..ids.rows() {
                at.insert(ids.value(row)?, (shard, row));
            }
            vectors.push(open.vectors(input.column())?);
            fields.write_text(shards.digest(shard));
        }
        let place = |id: &i64| at.get(id).copied().ok_or_else(|| Error::internal(format!("image {id} has no row")));
        let places = image_ids.iter().map(place).collect::<Result<Vec<_>>>()?;
        for ids in [&pool.images, &pool.captions] {
            fields.write_bytes(&ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>());
        }
        for words in &token_ids {
            fields.write_bytes(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
        }
        let positives = pool.first_caption.windows(2).map(|range| (range[0]..range[1]).collect()).collect();
        let (image_ids, caption_ids) = (pool.images.clone(), pool.captions.clone());
        let (digest, threads) = (hasher.finalize(), cx.threads());
        let images = MappedImages { shards: vectors, places };
        let this = Self { trained, image_ids, caption_ids, token_ids, images, positives, digest, threads };
        Ok((pool, this))
    }

    /// Adds the pairs of a relevance to those whose scores the measures ask for.
    pub(super) fn add_positives(&mut self, relevance: &BinaryRelevance) {
        for (image, captions) in relevance.captions_of.iter().enumerate() {
            self.positives[image].extend(captions);
        }
        for (caption, images) in relevance.images_of.iter().enumerate() {
            for &image in images {
                self.positives[image].push(caption);
            }
        }
        for captions in &mut self.positives {
            captions.sort_unstable();
            captions.dedup();
        }
    }
}

/// Identifiers of the images of a split, in the order of their table, after a check of all of them.
///
/// # Errors
/// As [`ImageEncoder::push`], or no image of the split.
fn check_images(
    trained: &TrainedModel,
    (table, input): (&str, ImageInput),
    split: &str,
    cx: &mut StageContext<'_>,
) -> Result<Vec<i64>> {
    let wants = |other: &str| other == split;
    let mut images = ImageEncoder::new(trained, table, &wants).share(BlockShare::NONE);
    let mut ids = Vec::new();
    while let Some(batch) = cx.read_next(input.name())? {
        ids.extend(images.push(&batch)?.into_iter().flat_map(|rows| rows.image_ids));
    }
    ids.extend(images.finish()?.into_iter().flat_map(|rows| rows.image_ids));
    if ids.is_empty() {
        return Err(no_rows_of_split("image", split, table, &images.splits));
    }
    Ok(ids)
}

impl ScoreSource for &ModelScores<'_> {
    fn pool<'s>(&'s self, images: &Range<usize>, captions: &Range<usize>) -> Result<Box<dyn PoolScores + 's>> {
        let in_pool = |of: &Vec<usize>| -> Vec<usize> {
            let within = of.iter().filter(|caption| captions.contains(caption));
            within.map(|caption| caption - captions.start).collect()
        };
        Ok(Box::new(ModelPool {
            scores: self,
            images: PoolImages { all: &self.images, first: images.start },
            ids: [&self.image_ids[images.clone()], &self.caption_ids[captions.clone()]],
            token_ids: self.token_ids[captions.clone()].iter().map(Vec::as_slice).collect(),
            positives: self.positives[images.clone()].iter().map(in_pool).collect(),
        }))
    }
}

/// Images and captions of a pool.
struct ModelPool<'p> {
    scores: &'p ModelScores<'p>,
    images: PoolImages<'p>,
    ids: [&'p [i64]; 2],
    token_ids: Vec<&'p [i32]>,
    /// Captions of each image, from 0 in the pool.
    positives: Vec<Vec<usize>>,
}

/// Images of a pool: those of the split from `first` on.
struct PoolImages<'p> {
    all: &'p MappedImages,
    first: usize,
}

impl ImageValues for PoolImages<'_> {
    fn append(&self, image: usize, values: &mut Vec<f32>) -> Result<()> {
        let (shard, row) = self.all.places[self.first + image];
        values.extend_from_slice(self.all.shards[shard].row(row)?);
        Ok(())
    }
}

impl PoolScores for ModelPool<'_> {
    fn size(&self, set: ScoreSet) -> Option<usize> {
        match set {
            ScoreSet::Images => Some(self.ids[0].len()),
            ScoreSet::Captions => Some(self.ids[1].len()),
            ScoreSet::BankImages | ScoreSet::BankCaptions => None,
        }
    }

    fn search(&self, rows: ScoreSet, columns: ScoreSet) -> Result<Search<'_>> {
        if (rows, columns) != (ScoreSet::Images, ScoreSet::Captions) {
            return Err(not_kept());
        }
        let ModelScores { trained, digest, threads, .. } = *self.scores;
        let (token_ids, positives) = (self.token_ids.as_slice(), self.positives.as_slice());
        let items = StreamedItems { ids: self.ids, images: &self.images, token_ids, positives, digest };
        Ok(Search::from_boxed(Box::new(trained.streamed_scores(items, threads)?), threads))
    }

    fn distance(&self) -> Result<Distance> {
        Err(not_kept())
    }

    fn with_joined_items(
        &self,
        _: ScoreSet,
        _: [ScoreSet; 2],
        _: &mut dyn FnMut(&Search<'_>) -> Result<()>,
    ) -> Result<()> {
        Err(not_kept())
    }
}

/// Error: a method needs scores in another way than image by image. The check of the file refuses such methods.
fn not_kept() -> Error {
    Error::usage("needs other scores than those of all captions for one image after the other")
        .hint("keep the scores with `score_pairs`, and evaluate that table by `scores`")
}
