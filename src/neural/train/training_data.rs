//! Training data: the order of the epochs, the validation split, and training pairs, which are read from captions and
//! locations of images and cached as a shard. Also the concepts.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use az::SaturatingAs;
use serde::{Deserialize, Serialize};

use super::images::{DataSetImages, ImageLocations, RowLocation};
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_kernels::epoch::{DataOrder, Shuffle};
use pairloom_kernels::text::vocabulary::{MAX_CAPTION_WORDS, UNKNOWN_ID, check_word_count, with_marks};
use pairloom_kernels::text::{Tokenizer, Vocabulary};
use pairloom_loader::{AugmentedImages, LoaderData, LoaderDataSet, LoaderImages};
use pairloom_model::family::concept_graph::{Concept, with_image_words};
use pairloom_spec::input_spec::ImageShape;
use pairloom_spec::stages::train::{CONCEPTS, Train, VocabularyCaptions};
use pairloom_stage::StageContext;
use pairloom_storage::shard::{Shard, ShardIds, ShardIntLists};
use pairloom_tables::{self as tables, ListColumn};

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
    caption_ids: ShardIds,
    validation_pairs: Arc<Shard>,
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
            caption_ids: samples.ids("caption_id")?,
            concepts: stage.concepts.as_ref().map(|_| read_concepts(cx)).transpose()?,
            samples,
            validation_pairs,
        })
    }

    /// Returns the `caption_id` of the training pair in row `row` of `samples`.
    pub fn caption_id(&self, row: usize) -> Result<i64> {
        self.caption_ids.value(row)
    }

    /// Loader threads for a memory bank. Copying rows from shards is much faster than encoding them. Decoding images is
    /// not; each thread holds up to three batches of them.
    pub fn bank_loader_threads(&self, threads: usize) -> usize {
        match &self.loader_data.sets()[0].images {
            LoaderImages::Vectors { .. } => 1,
            LoaderImages::Pixels(_) => threads.min(8),
        }
    }

    /// Images per call of the image encoder, which needs a few tens of megabytes for them.
    pub fn encoding_batch_size(&self) -> usize {
        match &self.loader_data.sets()[0].images {
            LoaderImages::Vectors { .. } => (2048 / self.shape.regions.unwrap_or(1)).max(1),
            LoaderImages::Pixels(_) => 64,
        }
    }

    /// Returns the inputs of the image encoder for images of the validation split, row-major: features, regions, or
    /// centre crops. The locations must be grouped by shard. Only one shard is open at a time, so a table larger than
    /// the cache can be read.
    pub fn validation_images(&self, locations: &[RowLocation], cx: &StageContext<'_>) -> Result<Vec<f32>> {
        match &self.loader_data.sets()[0].images {
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
            LoaderImages::Pixels(images) => centre_crops(images, locations, cx),
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
            let read = self.validation_images(&sorted, cx)?;
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
fn centre_crops(images: &AugmentedImages, locations: &[RowLocation], cx: &StageContext<'_>) -> Result<Vec<f32>> {
    cx.check_cancelled()?;
    let mut pixels = vec![0.0; locations.len() * images.sample_len()];
    let share = locations.len().div_ceil(cx.threads().max(1)).max(1);
    let cancel = cx.cancel();
    std::thread::scope(|scope| {
        let chunks = locations.chunks(share).zip(pixels.chunks_mut(share * images.sample_len()));
        let decode = |locations: &[RowLocation], pixels: &mut [f32]| -> Result<()> {
            for (location, pixels) in locations.iter().zip(pixels.chunks_exact_mut(images.sample_len())) {
                cancel.check()?;
                images.write_centre_crop(images.global_row(location.shard, location.row)?, pixels)?;
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

/// Summary of the training data, cached beside the pairs.
#[derive(Debug, Default, Serialize, Deserialize)]
struct TrainingDataSummary {
    /// Number of training pairs of every data set.
    pub samples: Vec<usize>,
    /// Shape of an image.
    #[serde(flatten)]
    pub shape: ImageShape,
    /// Words of the vocabulary of the training captions.
    pub vocabulary: Vec<String>,
    /// Warnings: (subject, message).
    pub warnings: Vec<(String, String)>,
}

/// Row of `captions` in the splits that are used.
struct CaptionRow {
    id: i64,
    image: i64,
    is_validation: bool,
    text: String,
}

/// Pair of the location of an image and an encoded caption.
struct EncodedPair {
    data_set: usize,
    caption: CaptionRow,
    location: RowLocation,
    token_ids: Vec<i32>,
}

/// Captions of a data set.
struct DataSetCaptions {
    /// Captions that are trained on, and those of the validation split.
    used: Vec<CaptionRow>,
    /// Training captions beyond `caption_fraction`.
    left_out: Vec<String>,
    /// Captions of other splits that have more words than a model reads.
    too_long: Vec<i64>,
}

/// Reads all data sets. Returns the summary, the training pairs, and the validation pairs of the first data set.
///
/// Captions of other splits, and features without a caption, are ignored; those that no model can read are warned of,
/// because an evaluation after the training would fail on them. Training pairs are ordered by the location of
/// their image, and those of one image as in `captions`; validation pairs are ordered as in `captions`.
///
/// # Errors
/// As [`image_locations`](super::images::image_locations); a caption of thousands of words; no training pair; no
/// known word.
fn read_pairs(
    stage: &Train,
    sources: &[DataSetImages],
    cx: &mut StageContext<'_>,
) -> Result<(TrainingDataSummary, RecordBatch, RecordBatch)> {
    let mut summary = TrainingDataSummary::default();
    let mut pairs: Vec<EncodedPair> = Vec::new();
    let mut left_out: Vec<String> = Vec::new();
    for (set, (names, source)) in stage.data_set_inputs().iter().zip(sources).enumerate() {
        let read = read_captions(&names.captions, set == 0, stage.tokenizer, cx)?;
        let read = read.with_fraction(stage.caption_fraction)?;
        let captions = read.used;
        left_out.extend(read.left_out);
        summary.warnings.extend(unreadable(&names.captions, "caption", "is too long to be scored", read.too_long));
        let needed: BTreeSet<i64> = captions.iter().map(|caption| caption.image).collect();
        let ImageLocations { of_images: locations, shape, without_region } =
            source.locations(&needed, cx).map_err(|error| error.context(&names.images))?;
        let mistake = "has no region, so no model can score it";
        summary.warnings.extend(unreadable(&names.images, "image", mistake, without_region));
        if set > 0 && shape != summary.shape {
            return Err(Error::data(format!("`{}` has {shape}, expected {}", names.images, summary.shape))
                .hint("all images of a training must have one shape"));
        }
        summary.shape = shape;
        let (captions, without_feature): (Vec<_>, Vec<_>) =
            captions.into_iter().partition(|caption| locations.contains_key(&caption.image));
        if captions.iter().all(|caption| caption.is_validation) {
            return Err(no_training_pairs(
                &names.captions,
                without_feature.iter().filter(|caption| !caption.is_validation).count(),
            ));
        }
        if !without_feature.is_empty() {
            summary.warnings.push((names.captions.clone(), missing_features_message(&without_feature)));
        }
        pairs.extend(captions.into_iter().map(|caption| {
            let location = locations[&caption.image];
            EncodedPair { data_set: set, caption, location, token_ids: vec![] }
        }));
    }
    cx.check_cancelled()?;
    let vocabulary = encode_captions(stage, &mut pairs, &left_out, &mut summary, cx)?;
    let (mut val, mut train): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|pair| pair.caption.is_validation);
    summary
        .warnings
        .extend(check_unknown_tokens(&train, stage.min_count)?.map(|message| ("captions".to_owned(), message)));
    if val.is_empty() {
        let message = "no caption of split `val` has an image with a feature: the last epoch becomes the model";
        summary.warnings.push(("val".to_owned(), message.to_owned()));
    }
    if stage.model.capabilities().image_words {
        let key = |pair: &EncodedPair| (pair.data_set, pair.caption.image);
        let (mut captions, keys): (Vec<_>, Vec<_>) =
            train.iter_mut().chain(&mut val).map(|pair| (std::mem::take(&mut pair.token_ids), key(pair))).unzip();
        with_image_words(&mut captions, &keys);
        train.iter_mut().chain(&mut val).zip(captions).for_each(|(pair, words)| pair.token_ids = words);
    }
    // The sort is stable: captions of one image keep their order.
    train.sort_by_key(|pair| (pair.data_set, pair.location));
    summary.samples = (0..sources.len()).map(|set| train.iter().filter(|pair| pair.data_set == set).count()).collect();
    summary.vocabulary = vocabulary.words().to_vec();
    Ok((summary, samples_batch(&train)?, samples_batch(&val)?))
}

/// Builds the vocabulary of the captions that `vocabulary_captions` names, and encodes all captions of `pairs` as token
/// ids. `left_out` are training captions that are not trained on.
fn encode_captions(
    stage: &Train,
    pairs: &mut [EncodedPair],
    left_out: &[String],
    summary: &mut TrainingDataSummary,
    cx: &StageContext<'_>,
) -> Result<Vocabulary> {
    let (mut words, mut empty) = (WordCounts::default(), 0);
    let counts_all = stage.vocabulary_captions == VocabularyCaptions::TrainAndVal;
    let mut numbers: Vec<Vec<u32>> = Vec::with_capacity(pairs.len());
    for CaptionRow { id, is_validation, text, .. } in pairs.iter_mut().map(|pair| &mut pair.caption) {
        cx.check_cancelled()?;
        let tokens = stage.tokenizer.tokenize(&std::mem::take(text), true);
        check_word_count(&tokens).map_err(|error| Error::data(error).context(format!("caption {id}")))?;
        empty += usize::from(tokens.is_empty() && !*is_validation);
        let is_counted = counts_all || !*is_validation;
        numbers.push(tokens.into_iter().map(|word| words.add(word, is_counted)).collect());
    }
    for text in left_out.iter().filter(|_| counts_all) {
        cx.check_cancelled()?;
        for word in stage.tokenizer.tokenize(text, true) {
            words.add(word, true);
        }
    }
    if empty > 0 {
        let message = format!("{empty} training captions hold no word; each is trained on as an empty sentence");
        summary.warnings.push(("captions".to_owned(), message));
    }
    let vocabulary = Vocabulary::build(words.counted(), stage.min_count);
    let ids = words.token_ids(&vocabulary);
    for (pair, numbers) in pairs.iter_mut().zip(numbers) {
        pair.token_ids = with_marks(numbers.into_iter().map(|number| ids[number as usize]));
    }
    Ok(vocabulary)
}

/// Distinct words of captions, each with a number and a count.
#[derive(Default)]
struct WordCounts {
    numbers: HashMap<String, u32>,
    counts: Vec<usize>,
}

impl WordCounts {
    /// Returns the number of a word, which counts only if `is_counted`.
    fn add(&mut self, word: String, is_counted: bool) -> u32 {
        let number = *self.numbers.entry(word).or_insert(self.counts.len().saturating_as::<u32>());
        if number as usize == self.counts.len() {
            self.counts.push(0);
        }
        self.counts[number as usize] += usize::from(is_counted);
        number
    }

    /// Words that were counted, with their counts.
    fn counted(&self) -> impl Iterator<Item = (&str, usize)> {
        let words = self.numbers.iter().map(|(word, &number)| (word.as_str(), self.counts[number as usize]));
        words.filter(|(_, count)| *count > 0)
    }

    /// Token id of each word, by its number.
    fn token_ids(&self, vocabulary: &Vocabulary) -> Vec<i32> {
        let mut ids = vec![UNKNOWN_ID; self.counts.len()];
        self.numbers.iter().for_each(|(word, &number)| ids[number as usize] = vocabulary.id(word));
        ids
    }
}

/// Rows of the table `samples`.
fn samples_batch(pairs: &[EncodedPair]) -> Result<RecordBatch> {
    let column = |value: fn(&EncodedPair) -> i64| Int64Array::from_iter_values(pairs.iter().map(value));
    let mut indices = Vec::with_capacity(pairs.len());
    for (row, pair) in pairs.iter().enumerate() {
        let index = if row == 0 || pairs[row - 1].data_set != pair.data_set { 0 } else { indices[row - 1] + 1 };
        indices.push(index);
    }
    let token_ids = pairs.iter().flat_map(|pair| pair.token_ids.iter().copied());
    let columns = tables::samples::TableColumns {
        data_set: column(|pair| pair.data_set.saturating_as::<i64>()),
        sample: indices.into(),
        caption_id: column(|pair| pair.caption.id),
        image_id: column(|pair| pair.caption.image),
        shard: column(|pair| pair.location.shard.saturating_as::<i64>()),
        row: column(|pair| pair.location.row.saturating_as::<i64>()),
        token_ids: ListColumn::new(pairs.iter().map(|pair| pair.token_ids.len()), token_ids)?,
    };
    columns.into_batch()
}

/// Reads the captions of the training splits and, if `with_validation` is true, of the validation split.
fn read_captions(
    input: &str,
    with_validation: bool,
    tokenizer: Tokenizer,
    cx: &mut StageContext<'_>,
) -> Result<DataSetCaptions> {
    let (mut captions, mut too_long) = (Vec::new(), Vec::new());
    // A word has at least one byte.
    let is_too_long =
        |text: &str| text.len() > MAX_CAPTION_WORDS && tokenizer.tokenize(text, true).len() > MAX_CAPTION_WORDS;
    while let Some(batch) = cx.read_next(input)? {
        let (ids, images) = (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
        let (splits, texts) = (tables::text_column(&batch, "split")?, tables::text_column(&batch, "text")?);
        for row in 0..batch.num_rows() {
            let val = match splits.value(row) {
                "train" | "restval" => false,
                "val" if with_validation => true,
                _ => {
                    too_long.extend(is_too_long(texts.value(row)).then(|| ids.value(row)));
                    continue;
                }
            };
            let text = texts.value(row).to_owned();
            captions.push(CaptionRow { id: ids.value(row), image: images.value(row), is_validation: val, text });
        }
    }
    Ok(DataSetCaptions { used: captions, left_out: Vec::new(), too_long })
}

impl DataSetCaptions {
    /// Leaves out training captions beyond this share of them, in the order of the table.
    ///
    /// # Errors
    /// The share has no caption.
    fn with_fraction(self, fraction: f64) -> Result<Self> {
        let training = self.used.iter().filter(|caption| !caption.is_validation).count();
        let limit = first_share(training, fraction);
        if limit == 0 && training > 0 {
            let message =
                format!("`caption_fraction` is {fraction}, which leaves none of {training} training captions");
            return Err(Error::data(message).hint("set a larger share"));
        }
        let mut seen = 0;
        let Self { used, too_long, .. } = self;
        let (used, rest): (Vec<_>, Vec<_>) = used.into_iter().partition(|caption| {
            seen += usize::from(!caption.is_validation);
            caption.is_validation || seen <= limit
        });
        Ok(Self { used, left_out: rest.into_iter().map(|caption| caption.text).collect(), too_long })
    }
}

/// ⌊`fraction` · `count`⌋. Shares that are whole numbers on paper, such as 29 % of 100, stay whole.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a number of captions"
)]
pub(super) fn first_share(count: usize, fraction: f64) -> usize {
    (fraction * count as f64 + 1e-6).floor() as usize
}

/// Warning about rows that are not trained on and that no model can read.
fn unreadable(input: &str, what: &str, mistake: &str, ids: Vec<i64>) -> Option<(String, String)> {
    let (count, first) = (ids.len(), *ids.first()?);
    let more = if count > 1 { format!(", as {} more", count - 1) } else { String::new() };
    Some((input.to_owned(), format!("{what} {first}, which is not trained on, {mistake}{more}")))
}

/// Warning about captions whose images have no feature.
fn missing_features_message(without_feature: &[CaptionRow]) -> String {
    let images: BTreeSet<i64> = without_feature.iter().map(|caption| caption.image).collect();
    let (captions, n, ids) = (without_feature.len(), images.len(), TruncatedList::from_iter(images).join(", "));
    format!("{captions} captions left out: their {n} images have no feature (image_id {ids})")
}

/// Error for a data set without a training pair; `without` of its training captions have an image without a feature.
fn no_training_pairs(captions: &str, without: usize) -> Error {
    if without == 0 {
        let message = format!("nothing to train on: table `{captions}` holds no caption of split `train` or `restval`");
        return Error::data(message);
    }
    Error::data(format!(
        "nothing to train on: none of the {without} captions of the splits `train` and `restval` has an image with a \
         feature"
    ))
    .hint("check that `features` and `captions` come from the same data set")
}

/// Returns a warning if more than half of the tokens of the training captions are unknown.
///
/// # Errors
/// All tokens are unknown, so that captions differ in their length only; or there is no token.
fn check_unknown_tokens(train: &[EncodedPair], min_count: usize) -> Result<Option<String>> {
    // Without `<start>` and `<end>`.
    let words: usize = train.iter().map(|pair| pair.token_ids.len() - 2).sum();
    let all = train.iter().flat_map(|pair| &pair.token_ids);
    let unknown = all.filter(|&&word| word == UNKNOWN_ID).count();
    if words == 0 {
        return Err(Error::data(format!("none of the {} training captions holds a word", train.len())));
    }
    if unknown == words {
        let message = format!("none of the {words} words of the training captions occurs {min_count} times");
        return Err(Error::data(message).hint("lower `min_count`: words seen fewer times are unknown to the model"));
    }
    Ok((unknown > words / 2).then(|| {
        format!(
            "{unknown} of {words} words of the training captions are unknown to the model: they occur fewer than \
             {min_count} times; a lower `min_count` keeps more"
        )
    }))
}

/// Reads all concepts, in the order of their numbers.
///
/// # Errors
/// No concept; numbers that are not 0, 1, …; counts that cannot be those of captions.
fn read_concepts(cx: &mut StageContext<'_>) -> Result<Vec<Concept>> {
    let mut concepts: Vec<Concept> = Vec::new();
    while let Some(batch) = cx.read_next(CONCEPTS)? {
        let (ids, captions) = (tables::int_column(&batch, "concept_id")?, tables::int_column(&batch, "n_captions")?);
        let (lemmas, words) = (tables::text_column(&batch, "lemma")?, tables::text_column(&batch, "words")?);
        let (together, width) = tables::vector_column(&batch, "co_occurrences")?;
        for row in 0..batch.num_rows() {
            let (id, count) = (ids.value(row), captions.value(row));
            let co_occurrences = together[row * width..(row + 1) * width].to_vec();
            if usize::try_from(id) != Ok(concepts.len()) {
                let message = format!(
                    "got concept {id}, expected {}: concepts are in the order of their numbers",
                    concepts.len()
                );
                return Err(Error::data(message).context(CONCEPTS));
            }
            if count < 1 || !co_occurrences.iter().all(|value| value.is_finite() && *value >= 0.0) {
                let message =
                    format!("concept {id} is in {count} captions, expected at least 1, and finite counts of pairs");
                return Err(Error::data(message).context(CONCEPTS));
            }
            concepts.push(Concept {
                lemma: lemmas.value(row).to_owned(),
                words: words.value(row).split_whitespace().map(str::to_owned).collect(),
                n_captions: count,
                co_occurrences,
            });
        }
    }
    let count = concepts.len();
    if let Some(wrong) = concepts.iter().position(|concept| concept.co_occurrences.len() != count) {
        let got = concepts[wrong].co_occurrences.len();
        let message =
            format!("concept {wrong} has counts with {got} concepts, expected {count}, the rows of the table");
        return Err(Error::data(message).context(CONCEPTS));
    }
    if concepts.is_empty() {
        return Err(Error::data("no concept, expected at least one").context(CONCEPTS));
    }
    Ok(concepts)
}
