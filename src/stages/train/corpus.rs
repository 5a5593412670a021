//! What a training goes through: its samples as shards, the plan of its epochs, its validation split.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};

use super::Train;
use super::images::Source;
use super::place::Place;
use super::read::{Summary, read};
use crate::error::{Error, Result};
use crate::io::shard::{Ids, Numbers, Shard};
use crate::kernels::epoch::{Epoch, Order, Plan};
use crate::kernels::text::Vocabulary;
use crate::loader::{AugmentedPictures, Data, DataSet, Images};
use crate::model::bank::Member;
use crate::stage::Cx;
use crate::tables;

/// Raised when the same captions would give other samples.
const KEPT: &str = "1";

/// All that a training reads.
#[derive(Debug)]
pub(super) struct Corpus {
    /// Features and samples.
    pub data: Arc<Data>,
    /// The order of its epochs.
    pub plan: Arc<Plan>,
    /// Width of a feature vector.
    pub width: usize,
    /// The words of the training captions.
    pub vocabulary: Vocabulary,
    /// What a person should know: (subject, message).
    pub warnings: Vec<(String, String)>,
    /// The training samples.
    pub samples: Arc<Shard>,
    columns: Columns,
    val: Arc<Shard>,
    /// Shorter side of a picture before its centre is cut out.
    resize: usize,
}

/// Columns of the training samples.
#[derive(Debug)]
struct Columns {
    set: Ids,
    caption: Ids,
    image: Ids,
    shard: Ids,
    row: Ids,
    words: Numbers,
}

/// A training sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// Its data set.
    pub set: i64,
    /// Its caption.
    pub caption: i64,
    /// Its image.
    pub image: i64,
}

impl Sample {
    /// What tells its image from all others: identifiers are those of a data set.
    pub fn image_key(&self) -> (i64, i64) {
        (self.set, self.image)
    }
}

/// The validation split, in memory.
#[derive(Debug)]
pub(super) struct Validation {
    /// Feature vectors of the images, in the order of their first captions, row-major; none of pictures.
    pub features: Vec<f32>,
    /// Where the images lie.
    pub places: Vec<Place>,
    /// The image of every caption.
    pub image_of: Vec<usize>,
    /// The captions of every image.
    pub captions_of: Vec<Vec<usize>>,
    /// Their identifiers.
    pub caption_ids: Vec<i64>,
    /// Those of the images.
    pub image_ids: Vec<i64>,
    words: Numbers,
}

impl Validation {
    /// The numbers of the words of every caption.
    pub fn words(&self) -> Result<Vec<&[i32]>> {
        (0..self.image_of.len()).map(|caption| self.words.row(caption)).collect()
    }
}

impl Corpus {
    /// What was made of the inputs before, or is made of them now.
    ///
    /// # Errors
    /// As [`read`]; settings that give no plan.
    pub fn open(stage: &Train, cx: &mut Cx<'_>) -> Result<Self> {
        let names = stage.names();
        let mut sources = Vec::with_capacity(names.len());
        for (set, names) in names.iter().enumerate() {
            sources.push(Source::open(stage, &names.images, set == 0, cx)?);
        }
        let network = stage.pictures.as_ref().map(|pictures| pictures.network);
        let settings = serde_json::json!([KEPT, stage.tokenizer, stage.min_count, names.len(), network]);
        let kept = (cx.kept("corpus", &settings)?, cx.kept("samples", &settings)?, cx.kept("validation", &settings)?);
        let (summary, samples, val) = match kept {
            (Some(summary), Some(samples), Some(val)) => (summary, samples, val),
            _ => {
                let (summary, samples, val) = read(stage, &sources, cx)?;
                let summary = cx.keep("corpus", &settings, text(&summary)?)?;
                (summary, cx.keep("samples", &settings, samples)?, cx.keep("validation", &settings, val)?)
            }
        };
        let summary: Summary = serde_json::from_str(summary.texts("corpus")?.value(0)?)
            .map_err(|error| Error::data(format!("what was kept of the captions is damaged: {error}")))?;
        let sets = stage.sets().into_iter().zip(sources).zip(&summary.samples);
        let sets =
            sets.map(|(((_, _, weight), source), &samples)| DataSet { images: source.images(), samples, weight });
        let data = Data::new(&samples, sets.collect())?;
        let plan = Plan::new(&data.plan_sets(), stage.order, stage.seed, stage.batch).map_err(Error::data)?;
        Ok(Self {
            data: Arc::new(data),
            plan: Arc::new(plan),
            width: summary.width,
            vocabulary: Vocabulary::from_words(summary.vocabulary).map_err(Error::data)?,
            warnings: summary.warnings,
            columns: Columns {
                set: samples.ids("data_set")?,
                caption: samples.ids("caption_id")?,
                image: samples.ids("image_id")?,
                shard: samples.ids("shard")?,
                row: samples.ids("row")?,
                words: samples.numbers("words")?,
            },
            resize: stage.pictures.as_ref().map_or(0, |pictures| pictures.resize),
            samples,
            val,
        })
    }

    /// The rows in the table of samples of a batch, over all ranks.
    pub fn rows(&self, epoch: &Epoch<'_>, batch: usize) -> Vec<usize> {
        epoch.samples(self.plan.batch(batch)).map(|sample| self.data.row(sample)).collect()
    }

    /// A training sample by its row.
    pub fn sample(&self, row: usize) -> Result<Sample> {
        let Columns { set, caption, image, .. } = &self.columns;
        Ok(Sample { set: set.value(row)?, caption: caption.value(row)?, image: image.value(row)? })
    }

    /// Training samples by their rows, as a step wants them.
    pub fn members(&self, rows: &[usize]) -> Result<Vec<Member>> {
        rows.iter().map(|&row| Ok(Member { row, image: self.sample(row)?.image_key() })).collect()
    }

    /// The numbers of the words of a training sample.
    pub fn words(&self, row: usize) -> Result<&[i32]> {
        self.columns.words.row(row)
    }

    /// Images that are embedded together: as many as fill a few tens of megabytes.
    pub fn together(&self) -> usize {
        match &self.data.sets()[0].images {
            Images::Vectors { .. } => 2048,
            Images::Pictures(_) => 64,
        }
    }

    /// What there is of the images of training samples, row-major, in the order of `rows`, which is that of the table:
    /// features, or the centres of pictures.
    ///
    /// # Errors
    /// A shard or a picture cannot be read, or the run was cancelled.
    pub fn images(&self, rows: &[usize], cx: &Cx<'_>) -> Result<Vec<f32>> {
        let mut images = Vec::new();
        let mut places = Vec::with_capacity(rows.len());
        for &row in rows {
            let Columns { set, shard, row: at, .. } = &self.columns;
            let lies = Place { shard: place(shard.value(row)?)?, row: place(at.value(row)?)? };
            places.push((place(set.value(row)?)?, lies));
        }
        for of_set in places.chunk_by(|one, other| one.0 == other.0) {
            let places: Vec<Place> = of_set.iter().map(|&(_, place)| place).collect();
            images.extend(self.images_at(of_set[0].0, &places, cx)?);
        }
        Ok(images)
    }

    /// The images of a data set at these places, row-major. Those of one shard follow each other: shards are opened one
    /// after the other, so that only those that the cache holds are held.
    pub fn images_at(&self, set: usize, places: &[Place], cx: &Cx<'_>) -> Result<Vec<f32>> {
        match &self.data.sets()[set].images {
            Images::Vectors { shards, column } => {
                let mut images = Vec::with_capacity(places.len() * self.width);
                for of_shard in places.chunk_by(|one, other| one.shard == other.shard) {
                    cx.proceed()?;
                    let shard = of_shard[0].shard;
                    let vectors = shards.open(shard)?.vectors(column)?;
                    for place in of_shard {
                        images.extend_from_slice(vectors.row(place.row)?);
                    }
                    // A global order goes on reading from all of them.
                    if self.plan.order() != Order::Global {
                        shards.release(shard);
                    }
                }
                Ok(images)
            }
            Images::Pictures(pictures) => centres(pictures, places, self.resize, cx),
        }
    }

    /// Whether there is something to validate on.
    pub fn has_validation(&self) -> bool {
        self.val.rows() > 0
    }

    /// Reads the validation split.
    ///
    /// # Errors
    /// A shard cannot be read, or the run was cancelled.
    pub fn validation(&self, cx: &Cx<'_>) -> Result<Validation> {
        let (images, shards, rows) = (self.val.ids("image_id")?, self.val.ids("shard")?, self.val.ids("row")?);
        let words = self.val.numbers("words")?;
        let captions = self.val.ids("caption_id")?;
        let caption_ids = (0..self.val.rows()).map(|caption| captions.value(caption)).collect::<Result<_>>()?;
        let (features, image_of, captions_of, image_ids) = (vec![], vec![], vec![], vec![]);
        let mut all = Validation { features, places: vec![], image_of, captions_of, caption_ids, image_ids, words };
        let mut numbers = HashMap::new();
        for caption in 0..self.val.rows() {
            let next = numbers.len();
            let image = *numbers.entry(images.value(caption)?).or_insert(next);
            if image == next {
                all.places.push(Place { shard: place(shards.value(caption)?)?, row: place(rows.value(caption)?)? });
                all.captions_of.push(vec![]);
                all.image_ids.push(images.value(caption)?);
            }
            all.image_of.push(image);
            all.captions_of[image].push(caption);
        }
        // Shard by shard: a validation split may be spread over more shards than the cache holds.
        if matches!(self.data.sets()[0].images, Images::Vectors { .. }) {
            let mut order: Vec<usize> = (0..all.places.len()).collect();
            order.sort_unstable_by_key(|&image| all.places[image]);
            let sorted: Vec<Place> = order.iter().map(|&image| all.places[image]).collect();
            let read = self.images_at(0, &sorted, cx)?;
            all.features.resize(read.len(), 0.0);
            for (&image, feature) in order.iter().zip(read.chunks_exact(self.width)) {
                all.features[image * self.width..][..self.width].copy_from_slice(feature);
            }
        }
        Ok(all)
    }
}

/// The centres of pictures, decoded by the threads of the stage.
fn centres(pictures: &AugmentedPictures, places: &[Place], resize: usize, cx: &Cx<'_>) -> Result<Vec<f32>> {
    cx.proceed()?;
    let mut pixels = vec![0.0; places.len() * pictures.values()];
    let share = places.len().div_ceil(cx.threads().max(1)).max(1);
    std::thread::scope(|scope| {
        let chunks = places.chunks(share).zip(pixels.chunks_mut(share * pictures.values()));
        let decode = |places: &[Place], pixels: &mut [f32]| -> Result<()> {
            for (place, pixels) in places.iter().zip(pixels.chunks_exact_mut(pictures.values())) {
                pictures.centre(pictures.row(place.shard, place.row)?, resize, pixels)?;
            }
            Ok(())
        };
        let threads: Vec<_> = chunks.map(|(places, pixels)| scope.spawn(move || decode(places, pixels))).collect();
        let ended =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect::<Result<Vec<()>>>()
    })?;
    Ok(pixels)
}

fn place(got: i64) -> Result<usize> {
    usize::try_from(got).map_err(|_| Error::internal("a sample without a place"))
}

/// A table of one text.
fn text(summary: &Summary) -> Result<RecordBatch> {
    let text = serde_json::to_string(summary).map_err(|error| Error::internal(error.to_string()))?;
    let schema = Arc::new(Schema::new(vec![Field::new("corpus", DataType::Utf8, false)]));
    let column: ArrayRef = Arc::new(StringArray::from(vec![text]));
    tables::batch(&schema, vec![column])
}
