//! Training data: training pairs as a shard, the order of the epochs, and the validation split.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};

use super::concepts::read_concepts;
use super::images::DataSetImages;
use super::location::RowLocation;
use super::read::{TrainingDataSummary, read_pairs};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::epoch::{DataOrder, Epoch, Shuffle};
use pairloom_kernels::text::Vocabulary;
use pairloom_loader::{AugmentedImages, LoaderData, LoaderDataSet, LoaderImages};
use pairloom_model::family::concept_graph::Concept;
use pairloom_model::family::input_spec::ImageShape;
use pairloom_model::memory_bank::TrainingPair;
use pairloom_spec::stages::train::{FinetuneSettings, Train};
use pairloom_stage::StageContext;
use pairloom_storage::shard::{Shard, ShardIds, ShardIntLists};
use pairloom_tables as tables;

/// Version of the cached training pairs. Raised when the same captions would give other pairs.
const CACHE_VERSION: &str = "1";

/// Data of a training.
#[derive(Debug)]
pub(super) struct TrainingData {
    /// Images and training pairs, as the loader reads them.
    pub loader_data: Arc<LoaderData>,
    /// Order of the training pairs in every epoch.
    pub order: Arc<DataOrder>,
    /// Shape of an image.
    pub shape: ImageShape,
    /// Vocabulary of the training captions.
    pub vocabulary: Vocabulary,
    /// Warnings: (subject, message).
    pub warnings: Vec<(String, String)>,
    /// Concepts of the captions; `None` for a model that does not read them.
    pub concepts: Option<Vec<Concept>>,
    /// Rows of the table `samples`: the training pairs.
    pub samples: Arc<Shard>,
    columns: PairColumns,
    validation_pairs: Arc<Shard>,
    /// Shorter side to which an image is resized before its centre crop is taken.
    resize: usize,
}

/// Columns of the training pairs.
#[derive(Debug)]
struct PairColumns {
    data_set: ShardIds,
    caption: ShardIds,
    image: ShardIds,
    shard: ShardIds,
    row: ShardIds,
    token_ids: ShardIntLists,
}

/// Identifiers of a training pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PairIds {
    /// Index of the data set.
    pub data_set: i64,
    /// `caption_id`.
    pub caption: i64,
    /// `image_id`.
    pub image: i64,
}

impl PairIds {
    /// Key of the image, unique over all data sets: (data set, `image_id`).
    pub fn image_key(&self) -> (i64, i64) {
        (self.data_set, self.image)
    }
}

/// Validation split, in memory.
#[derive(Debug)]
pub(super) struct ValidationSplit {
    /// Features or regions of the images, row-major, in the order of their first captions. Empty with fine-tuning.
    pub features: Vec<f32>,
    /// Locations of the images.
    pub locations: Vec<RowLocation>,
    /// Image of every caption, by index.
    pub image_of: Vec<usize>,
    /// Captions of every image, by index.
    pub captions_of: Vec<Vec<usize>>,
    /// `caption_id` of every caption.
    pub caption_ids: Vec<i64>,
    /// `image_id` of every image.
    pub image_ids: Vec<i64>,
    token_ids: ShardIntLists,
}

impl ValidationSplit {
    /// Returns the token ids of every caption.
    pub fn token_ids(&self) -> Result<Vec<&[i32]>> {
        (0..self.image_of.len()).map(|caption| self.token_ids.row(caption)).collect()
    }
}

impl TrainingData {
    /// Opens the cached training data of the inputs, or creates them.
    ///
    /// # Errors
    /// As [`read_pairs`], or settings without a valid data order.
    pub fn open(stage: &Train, cx: &mut StageContext<'_>) -> Result<Self> {
        let names = stage.data_set_inputs();
        let mut sources = Vec::with_capacity(names.len());
        for (set, names) in names.iter().enumerate() {
            sources.push(DataSetImages::open(stage, &names.images, set == 0, cx)?);
        }
        let network = stage.finetune.as_ref().map(|finetune| finetune.network);
        let (fraction, vocabulary) = (stage.caption_fraction, stage.vocabulary_captions);
        let settings = serde_json::json!([
            CACHE_VERSION,
            stage.tokenizer,
            stage.min_count,
            names.len(),
            network,
            fraction,
            vocabulary,
            stage.model.capabilities().image_words
        ]);
        let cached =
            (cx.cached("corpus", &settings)?, cx.cached("samples", &settings)?, cx.cached("validation", &settings)?);
        let (summary, samples, validation_pairs) = match cached {
            (Some(summary), Some(samples), Some(validation_pairs)) => (summary, samples, validation_pairs),
            _ => {
                let (summary, samples, validation_pairs) = read_pairs(stage, &sources, cx)?;
                let summary = cx.cache("corpus", &settings, summary_batch(&summary)?)?;
                (
                    summary,
                    cx.cache("samples", &settings, samples)?,
                    cx.cache("validation", &settings, validation_pairs)?,
                )
            }
        };
        let summary: TrainingDataSummary = serde_json::from_str(summary.texts("corpus")?.value(0)?)
            .map_err(|error| Error::data(format!("the cached summary of the captions is damaged: {error}")))?;
        let sets = stage.data_sets().into_iter().zip(sources).zip(&summary.samples);
        let sets = sets.map(|(((_, _, weight), source), &samples)| LoaderDataSet {
            images: source.into_loader_images(),
            samples,
            weight,
        });
        let data = LoaderData::new(&samples, sets.collect())?;
        let order =
            DataOrder::new(&data.order_sets(), stage.shuffle, stage.seed, stage.batch_size).map_err(Error::data)?;
        Ok(Self {
            loader_data: Arc::new(data),
            order: Arc::new(order),
            shape: summary.shape,
            vocabulary: Vocabulary::from_words(summary.vocabulary).map_err(Error::data)?,
            warnings: summary.warnings,
            columns: PairColumns {
                data_set: samples.ids("data_set")?,
                caption: samples.ids("caption_id")?,
                image: samples.ids("image_id")?,
                shard: samples.ids("shard")?,
                row: samples.ids("row")?,
                token_ids: samples.int32_lists("token_ids")?,
            },
            concepts: stage.concepts.as_ref().map(|_| read_concepts(cx)).transpose()?,
            resize: stage.finetune.as_ref().map_or(0, FinetuneSettings::resize),
            samples,
            validation_pairs,
        })
    }

    /// Returns the rows in `samples` of the pairs of a batch, over all ranks.
    pub fn batch_rows(&self, epoch: &Epoch<'_>, batch: usize) -> Vec<usize> {
        epoch.samples(self.order.batch_positions(batch)).map(|sample| self.loader_data.table_row(sample)).collect()
    }

    /// Returns the identifiers of the training pair in row `row` of `samples`.
    pub fn pair_ids(&self, row: usize) -> Result<PairIds> {
        let PairColumns { data_set, caption, image, .. } = &self.columns;
        Ok(PairIds { data_set: data_set.value(row)?, caption: caption.value(row)?, image: image.value(row)? })
    }

    /// Returns the training pairs in these rows of `samples`.
    pub fn training_pairs(&self, rows: &[usize]) -> Result<Vec<TrainingPair>> {
        rows.iter().map(|&row| Ok(TrainingPair { row, image: self.pair_ids(row)?.image_key() })).collect()
    }

    /// Returns the token ids of the caption in row `row` of `samples`.
    pub fn token_ids(&self, row: usize) -> Result<&[i32]> {
        self.columns.token_ids.row(row)
    }

    /// Images per call of the image encoder, which needs a few tens of megabytes for them.
    pub fn encoding_batch_size(&self) -> usize {
        match &self.loader_data.sets()[0].images {
            LoaderImages::Vectors { .. } => (2048 / self.shape.regions.unwrap_or(1)).max(1),
            LoaderImages::Pixels(_) => 64,
        }
    }

    /// Returns the inputs of the image encoder for the pairs in `rows` of `samples`, row-major: features, regions, or
    /// centre crops. `rows` must be ascending.
    ///
    /// # Errors
    /// A shard or an image cannot be read, or the run was cancelled.
    pub fn pair_images(&self, rows: &[usize], cx: &StageContext<'_>) -> Result<Vec<f32>> {
        let mut images = Vec::new();
        let mut locations = Vec::with_capacity(rows.len());
        for &row in rows {
            let PairColumns { data_set, shard, row: shard_row, .. } = &self.columns;
            let location = RowLocation { shard: to_index(shard.value(row)?)?, row: to_index(shard_row.value(row)?)? };
            locations.push((to_index(data_set.value(row)?)?, location));
        }
        for of_set in locations.chunk_by(|one, other| one.0 == other.0) {
            let locations: Vec<RowLocation> = of_set.iter().map(|&(_, location)| location).collect();
            images.extend(self.images_at_locations(of_set[0].0, &locations, cx)?);
        }
        Ok(images)
    }

    /// Returns the inputs of the image encoder for the images of a data set at these locations, row-major. The
    /// locations must be grouped by shard. Only one shard is open at a time, so a table larger than the cache can be
    /// read.
    pub fn images_at_locations(
        &self,
        data_set: usize,
        locations: &[RowLocation],
        cx: &StageContext<'_>,
    ) -> Result<Vec<f32>> {
        match &self.loader_data.sets()[data_set].images {
            LoaderImages::Vectors { shards, column } => {
                let mut images = Vec::with_capacity(locations.len() * self.shape.values());
                for of_shard in locations.chunk_by(|one, other| one.shard == other.shard) {
                    cx.check_cancelled()?;
                    let shard = of_shard[0].shard;
                    let vectors = shards.open(shard)?.vectors(column)?;
                    for location in of_shard {
                        images.extend_from_slice(vectors.row(location.row)?);
                    }
                    // A global shuffle keeps reading from all shards.
                    if self.order.shuffle() != Shuffle::Global {
                        shards.release(shard);
                    }
                }
                Ok(images)
            }
            LoaderImages::Pixels(images) => centre_crops(images, locations, self.resize, cx),
        }
    }

    /// Returns true if there is a validation split.
    pub fn has_validation(&self) -> bool {
        self.validation_pairs.rows() > 0
    }

    /// Reads the validation split.
    ///
    /// # Errors
    /// A shard cannot be read, or the run was cancelled.
    pub fn validation(&self, cx: &StageContext<'_>) -> Result<ValidationSplit> {
        let (images, shards, rows) = (
            self.validation_pairs.ids("image_id")?,
            self.validation_pairs.ids("shard")?,
            self.validation_pairs.ids("row")?,
        );
        let token_ids = self.validation_pairs.int32_lists("token_ids")?;
        let captions = self.validation_pairs.ids("caption_id")?;
        let caption_ids =
            (0..self.validation_pairs.rows()).map(|caption| captions.value(caption)).collect::<Result<_>>()?;
        let (features, image_of, captions_of, image_ids) = (vec![], vec![], vec![], vec![]);
        let mut split =
            ValidationSplit { features, locations: vec![], image_of, captions_of, caption_ids, image_ids, token_ids };
        let mut numbers = HashMap::new();
        for caption in 0..self.validation_pairs.rows() {
            let next = numbers.len();
            let image = *numbers.entry(images.value(caption)?).or_insert(next);
            if image == next {
                split.locations.push(RowLocation {
                    shard: to_index(shards.value(caption)?)?,
                    row: to_index(rows.value(caption)?)?,
                });
                split.captions_of.push(vec![]);
                split.image_ids.push(images.value(caption)?);
            }
            split.image_of.push(image);
            split.captions_of[image].push(caption);
        }
        // Read in the order of the shards: the validation split may be spread over more shards than the cache holds.
        if matches!(self.loader_data.sets()[0].images, LoaderImages::Vectors { .. }) {
            let mut order: Vec<usize> = (0..split.locations.len()).collect();
            order.sort_unstable_by_key(|&image| split.locations[image]);
            let sorted: Vec<RowLocation> = order.iter().map(|&image| split.locations[image]).collect();
            let read = self.images_at_locations(0, &sorted, cx)?;
            split.features.resize(read.len(), 0.0);
            let width = self.shape.values();
            for (&image, feature) in order.iter().zip(read.chunks_exact(width)) {
                split.features[image * width..][..width].copy_from_slice(feature);
            }
        }
        Ok(split)
    }
}

/// Returns the centre crops of images, decoded on the threads of the stage.
fn centre_crops(
    images: &AugmentedImages,
    locations: &[RowLocation],
    resize: usize,
    cx: &StageContext<'_>,
) -> Result<Vec<f32>> {
    cx.check_cancelled()?;
    let mut pixels = vec![0.0; locations.len() * images.sample_len()];
    let share = locations.len().div_ceil(cx.threads().max(1)).max(1);
    let cancel = cx.cancel();
    std::thread::scope(|scope| {
        let chunks = locations.chunks(share).zip(pixels.chunks_mut(share * images.sample_len()));
        let decode = |locations: &[RowLocation], pixels: &mut [f32]| -> Result<()> {
            for (location, pixels) in locations.iter().zip(pixels.chunks_exact_mut(images.sample_len())) {
                cancel.check()?;
                images.write_centre_crop(images.global_row(location.shard, location.row)?, resize, pixels)?;
            }
            Ok(())
        };
        let threads: Vec<_> =
            chunks.map(|(locations, pixels)| scope.spawn(move || decode(locations, pixels))).collect();
        let ended =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect::<Result<Vec<()>>>()
    })?;
    Ok(pixels)
}

/// Converts an index in `samples` to usize.
fn to_index(got: i64) -> Result<usize> {
    usize::try_from(got).map_err(|_| Error::internal("a negative index in `samples`"))
}

/// Batch with the summary as JSON, in one row.
fn summary_batch(summary: &TrainingDataSummary) -> Result<RecordBatch> {
    let text = serde_json::to_string(summary).map_err(|error| Error::internal(error.to_string()))?;
    let schema = Arc::new(Schema::new(vec![Field::new("corpus", DataType::Utf8, false)]));
    let column: ArrayRef = Arc::new(StringArray::from(vec![text]));
    tables::batch(&schema, vec![column])
}
