//! What a training goes through: its samples as shards, the plan of its epochs, its validation split.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};

use super::Train;
use super::read::{Summary, read};
use crate::error::{Error, Result};
use crate::io::shard::{Numbers, Shard};
use crate::io::shards::Shards;
use crate::kernels::epoch::{Order, Plan};
use crate::kernels::text::Vocabulary;
use crate::loader::{Data, DataSet, Images};
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
    val: Arc<Shard>,
    shards: Shards,
}

/// The validation split, in memory.
#[derive(Debug)]
pub(super) struct Validation {
    /// Feature vectors of the images, in the order of their first captions, row-major.
    pub features: Vec<f32>,
    /// The image of every caption.
    pub image_of: Vec<usize>,
    /// The captions of every image.
    pub captions_of: Vec<Vec<usize>>,
    words: Numbers,
}

impl Validation {
    /// The numbers of the words of every caption.
    pub fn words(&self) -> Result<Vec<Vec<i64>>> {
        let all = 0..self.image_of.len();
        all.map(|caption| Ok(self.words.row(caption)?.iter().map(|&word| i64::from(word)).collect())).collect()
    }
}

impl Corpus {
    /// What was made of the inputs before, or is made of them now.
    ///
    /// # Errors
    /// As [`read`]; settings that give no plan.
    pub fn open(stage: &Train, cx: &mut Cx<'_>) -> Result<Self> {
        let names = stage.names();
        let shards: Vec<Shards> = names.iter().map(|names| cx.shards(&names.features)).collect::<Result<_>>()?;
        let settings = serde_json::json!([KEPT, stage.tokenizer, stage.min_count, names.len()]);
        let kept = (cx.kept("corpus", &settings)?, cx.kept("samples", &settings)?, cx.kept("validation", &settings)?);
        let (summary, samples, val) = match kept {
            (Some(summary), Some(samples), Some(val)) => (summary, samples, val),
            _ => {
                let (summary, samples, val) = read(stage, &shards, cx)?;
                let summary = cx.keep("corpus", &settings, text(&summary)?)?;
                (summary, cx.keep("samples", &settings, samples)?, cx.keep("validation", &settings, val)?)
            }
        };
        let summary: Summary = serde_json::from_str(summary.texts("corpus")?.value(0)?)
            .map_err(|error| Error::data(format!("what was kept of the captions is damaged: {error}")))?;
        let first = shards[0].clone();
        let sets = stage.sets().into_iter().zip(shards).zip(&summary.samples);
        let sets = sets.map(|(((_, _, weight), shards), &samples)| DataSet {
            images: Images::Vectors { shards, column: "feature".to_owned() },
            samples,
            weight,
        });
        let data = Data::new(&samples, sets.collect())?;
        let plan = Plan::new(&data.plan_sets(), stage.order.kernel(), stage.seed, stage.batch).map_err(Error::data)?;
        Ok(Self {
            data: Arc::new(data),
            plan: Arc::new(plan),
            width: summary.width,
            vocabulary: Vocabulary::from_words(summary.vocabulary).map_err(Error::data)?,
            warnings: summary.warnings,
            samples,
            val,
            shards: first,
        })
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
        let mut all = Validation { features: vec![], image_of: vec![], captions_of: vec![], words };
        let mut numbers = HashMap::new();
        let mut places = Vec::new();
        for caption in 0..self.val.rows() {
            let place = |got: i64| usize::try_from(got).map_err(|_| Error::internal("a sample without a place"));
            let next = numbers.len();
            let image = *numbers.entry(images.value(caption)?).or_insert(next);
            if image == next {
                places.push((place(shards.value(caption)?)?, place(rows.value(caption)?)?, image));
                all.captions_of.push(vec![]);
            }
            all.image_of.push(image);
            all.captions_of[image].push(caption);
        }
        // Shard by shard: a validation split may be spread over more shards than the cache holds.
        places.sort_unstable();
        all.features.resize(places.len() * self.width, 0.0);
        for images in places.chunk_by(|one, other| one.0 == other.0) {
            cx.proceed()?;
            let shard = images[0].0;
            let vectors = self.shards.open(shard)?.vectors("feature")?;
            for &(_, row, image) in images {
                all.features[image * self.width..][..self.width].copy_from_slice(vectors.row(row)?);
            }
            // A global order goes on reading from it.
            if self.plan.order() != Order::Global {
                self.shards.release(shard);
            }
        }
        Ok(all)
    }
}

/// A table of one text.
fn text(summary: &Summary) -> Result<RecordBatch> {
    let text = serde_json::to_string(summary).map_err(|error| Error::internal(error.to_string()))?;
    let schema = Arc::new(Schema::new(vec![Field::new("corpus", DataType::Utf8, false)]));
    let column: ArrayRef = Arc::new(StringArray::from(vec![text]));
    tables::batch(&schema, vec![column])
}
