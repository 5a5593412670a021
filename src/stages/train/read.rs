//! Reads captions and features and makes of them what a training goes through: once, then it is kept.

use std::collections::{BTreeSet, HashMap};

use arrow::array::{Int64Array, RecordBatch};
use az::SaturatingAs;
use serde::{Deserialize, Serialize};

use super::Train;
use super::images::Source;
use super::place::Place;
use crate::error::{Error, Result, TruncatedList};
use crate::kernels::text::{Vocabulary, vocabulary::UNKNOWN};
use crate::stage::Cx;
use crate::tables::{self, Lists};

/// What is known of a corpus besides its samples.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Summary {
    /// Training samples of every data set.
    pub samples: Vec<usize>,
    /// Width of a feature vector.
    pub width: usize,
    /// The words of the training captions.
    pub vocabulary: Vec<String>,
    /// What a person should know: (subject, message).
    pub warnings: Vec<(String, String)>,
}

/// A caption before its words are numbered.
struct Caption {
    id: i64,
    image: i64,
    val: bool,
    text: String,
}

/// A caption and where its image lies.
struct Sample {
    set: usize,
    caption: Caption,
    place: Place,
    words: Vec<i32>,
}

/// Reads all data sets: what is known, the training samples, and the validation samples (of the first data set).
///
/// Captions of other splits, and features that no caption needs, are passed over. Training samples stand in the order of
/// their images in the features, those of one image in the order of the captions; validation samples in the order of the
/// captions.
///
/// # Errors
/// As [`places`]; a caption of thousands of words; no pair to train on; no word that is known.
pub(super) fn read(stage: &Train, sources: &[Source], cx: &mut Cx<'_>) -> Result<(Summary, RecordBatch, RecordBatch)> {
    let mut summary = Summary::default();
    let mut samples: Vec<Sample> = Vec::new();
    for (set, (names, source)) in stage.names().iter().zip(sources).enumerate() {
        let captions = read_captions(&names.captions, set == 0, cx)?;
        let needed: BTreeSet<i64> = captions.iter().map(|caption| caption.image).collect();
        let (places, width) = source.places(&needed, cx).map_err(|error| error.context(&names.images))?;
        if set > 0 && width != summary.width {
            return Err(Error::data(format!("`{}` has width {width}, wanted {}", names.images, summary.width))
                .hint("all features of a training must have one width above 0"));
        }
        summary.width = width;
        let (captions, left_out): (Vec<_>, Vec<_>) =
            captions.into_iter().partition(|caption| places.contains_key(&caption.image));
        if captions.iter().all(|caption| caption.val) {
            return Err(nothing_to_train_on(&names.captions, left_out.iter().filter(|caption| !caption.val).count()));
        }
        if !left_out.is_empty() {
            summary.warnings.push((names.captions.clone(), without_feature(&left_out)));
        }
        samples.extend(captions.into_iter().map(|caption| {
            let place = places[&caption.image];
            Sample { set, caption, place, words: vec![] }
        }));
    }
    cx.proceed()?;
    let vocabulary = number_words(stage, &mut samples, &mut summary)?;
    let (val, mut train): (Vec<_>, Vec<_>) = samples.into_iter().partition(|sample| sample.caption.val);
    summary.warnings.extend(little_known(&train, stage.min_count)?.map(|message| ("captions".to_owned(), message)));
    if val.is_empty() {
        let message = "no caption of split `val` has an image with a feature: the last epoch becomes the model";
        summary.warnings.push(("val".to_owned(), message.to_owned()));
    }
    // A stable sort: captions of one image keep their order.
    train.sort_by_key(|sample| (sample.set, sample.place));
    summary.samples = (0..sources.len()).map(|set| train.iter().filter(|sample| sample.set == set).count()).collect();
    summary.vocabulary = vocabulary.words().to_vec();
    Ok((summary, rows(&train)?, rows(&val)?))
}

/// Builds the vocabulary of the training captions and numbers the words of all captions.
fn number_words(stage: &Train, samples: &mut [Sample], summary: &mut Summary) -> Result<Vocabulary> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut empty = 0;
    for sample in samples.iter().filter(|sample| !sample.caption.val) {
        let words = stage.tokenizer.words(&sample.caption.text, true);
        empty += usize::from(words.is_empty());
        for word in words {
            *counts.entry(word).or_default() += 1;
        }
    }
    if empty > 0 {
        let message = format!("{empty} training captions hold no word; each is trained on as an empty sentence");
        summary.warnings.push(("captions".to_owned(), message));
    }
    let vocabulary = Vocabulary::build(&counts, stage.min_count);
    for sample in samples {
        sample.words = vocabulary
            .encode_caption(stage.tokenizer, &sample.caption.text)
            .map_err(|error| Error::data(error).context(format!("caption {}", sample.caption.id)))?;
    }
    Ok(vocabulary)
}

fn rows(samples: &[Sample]) -> Result<RecordBatch> {
    let column = |value: fn(&Sample) -> i64| Int64Array::from_iter_values(samples.iter().map(value));
    let mut places = Vec::with_capacity(samples.len());
    for (row, sample) in samples.iter().enumerate() {
        let first = if row == 0 || samples[row - 1].set != sample.set { 0 } else { places[row - 1] + 1 };
        places.push(first);
    }
    let words = samples.iter().flat_map(|sample| sample.words.iter().copied());
    let columns = tables::samples::Columns {
        data_set: column(|sample| sample.set.saturating_as::<i64>()),
        sample: places.into(),
        caption_id: column(|sample| sample.caption.id),
        image_id: column(|sample| sample.caption.image),
        shard: column(|sample| sample.place.shard.saturating_as::<i64>()),
        row: column(|sample| sample.place.row.saturating_as::<i64>()),
        words: Lists::new(samples.iter().map(|sample| sample.words.len()), words)?,
    };
    columns.into_batch()
}

/// The captions of the splits that a training uses; `val` only where asked for.
fn read_captions(input: &str, val: bool, cx: &mut Cx<'_>) -> Result<Vec<Caption>> {
    let mut captions = Vec::new();
    while let Some(batch) = cx.next(input)? {
        let (ids, images) = (tables::ids(&batch, "caption_id")?, tables::ids(&batch, "image_id")?);
        let (splits, texts) = (tables::texts(&batch, "split")?, tables::texts(&batch, "text")?);
        for row in 0..batch.num_rows() {
            let val = match splits.value(row) {
                "train" | "restval" => false,
                "val" if val => true,
                _ => continue,
            };
            let text = texts.value(row).to_owned();
            captions.push(Caption { id: ids.value(row), image: images.value(row), val, text });
        }
    }
    Ok(captions)
}

fn without_feature(left_out: &[Caption]) -> String {
    let images: BTreeSet<i64> = left_out.iter().map(|caption| caption.image).collect();
    let (captions, n, ids) = (left_out.len(), images.len(), TruncatedList::from_iter(images).join(", "));
    format!("{captions} captions left out: their {n} images have no feature (image_id {ids})")
}

/// The error of a data set without a pair to train on, `without` of whose captions have no feature.
fn nothing_to_train_on(captions: &str, without: usize) -> Error {
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

/// What a person should know of a vocabulary that lacks more than half of the words of `train`.
///
/// # Errors
/// It lacks all of them: every caption would be the same to a model.
fn little_known(train: &[Sample], min_count: usize) -> Result<Option<String>> {
    // Less `<start>` and `<end>`.
    let words: usize = train.iter().map(|sample| sample.words.len() - 2).sum();
    let all = train.iter().flat_map(|sample| &sample.words);
    let unknown = all.filter(|&&word| word == UNKNOWN).count();
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
