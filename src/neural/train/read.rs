//! Reads captions and feature locations, and creates the training pairs. The result is cached.

use std::collections::{BTreeSet, HashMap};

use arrow::array::{Int64Array, RecordBatch};
use az::SaturatingAs;
use serde::{Deserialize, Serialize};

use super::images::DataSetImages;
use super::location::{ImageLocations, RowLocation};
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_kernels::text::vocabulary::{MAX_CAPTION_WORDS, UNKNOWN_ID};
use pairloom_kernels::text::{Tokenizer, Vocabulary};
use pairloom_model::family::image_words::with_image_words;
use pairloom_model::family::input_spec::ImageShape;
use pairloom_spec::stages::train::Train;
use pairloom_spec::stages::train::VocabularyCaptions;
use pairloom_stage::StageContext;
use pairloom_tables::{self as tables, ListColumn};

/// Summary of the training data, cached beside the pairs.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct TrainingDataSummary {
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
/// As [`image_locations`](super::location::image_locations); a caption of thousands of words; no training pair; no
/// known word.
pub(super) fn read_pairs(
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
            return Err(Error::data(format!("`{}` has {shape}, wanted {}", names.images, summary.shape))
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
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut empty = 0;
    let counts_all = stage.vocabulary_captions == VocabularyCaptions::TrainAndVal;
    let counted = pairs.iter().map(|pair| (pair.caption.text.as_str(), pair.caption.is_validation));
    let counted = counted.filter(|(_, is_validation)| counts_all || !is_validation);
    let more = left_out.iter().filter(|_| counts_all).map(|text| (text.as_str(), true));
    for (text, is_other) in counted.chain(more) {
        cx.check_cancelled()?;
        let words = stage.tokenizer.tokenize(text, true);
        empty += usize::from(words.is_empty() && !is_other);
        for word in words {
            *counts.entry(word).or_default() += 1;
        }
    }
    if empty > 0 {
        let message = format!("{empty} training captions hold no word; each is trained on as an empty sentence");
        summary.warnings.push(("captions".to_owned(), message));
    }
    let vocabulary = Vocabulary::build(&counts, stage.min_count);
    for pair in pairs {
        cx.check_cancelled()?;
        pair.token_ids = vocabulary
            .encode_caption(stage.tokenizer, &pair.caption.text)
            .map_err(|error| Error::data(error).context(format!("caption {}", pair.caption.id)))?;
    }
    Ok(vocabulary)
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
