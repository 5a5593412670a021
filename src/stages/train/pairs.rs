//! What a training reads: the features of images and the captions that go with them, in memory.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use super::Train;
use crate::error::{Error, Result};
use crate::kernels::text::{Vocabulary, vocabulary::UNKNOWN};
use crate::model::trained::encode;
use crate::stage::Cx;
use crate::tables;

/// A caption and the image that it describes.
#[derive(Debug)]
pub(super) struct Pair {
    /// `caption_id`.
    pub caption: i64,
    /// Row of the image in [`Pairs::feature`].
    pub image: usize,
    /// Numbers of its words, `<start>` and `<end>` among them.
    pub words: Vec<i64>,
}

/// All pairs of a training.
#[derive(Debug)]
pub(super) struct Pairs {
    features: Vec<f32>,
    /// Width of a feature vector.
    pub width: usize,
    /// Pairs of the splits `train` and `restval`.
    pub train: Vec<Pair>,
    /// Pairs of the split `val`.
    pub val: Vec<Pair>,
    /// The words of the training captions.
    pub vocabulary: Vocabulary,
    /// What a person should know of them: (subject, message).
    pub warnings: Vec<(&'static str, String)>,
}

/// A caption before its words are numbered.
struct Caption {
    id: i64,
    image: i64,
    val: bool,
    text: String,
}

impl Pairs {
    /// Reads both tables. Captions of other splits, and features that no caption needs, are passed over.
    ///
    /// # Errors
    /// Features of different widths, twice of one image or with values that are not finite; a caption of
    /// thousands of words; no pair to train on; no word that is known.
    pub fn read(stage: &Train, cx: &mut Cx<'_>) -> Result<Self> {
        let captions = read_captions(cx)?;
        let needed = captions.iter().map(|caption| caption.image).collect();
        let (features, width, rows) = read_features(cx, &needed)?;

        let mut warnings = Vec::new();
        let (captions, left_out): (Vec<_>, Vec<_>) =
            captions.into_iter().partition(|caption| rows.contains_key(&caption.image));
        if !left_out.is_empty() {
            let images: BTreeSet<i64> = left_out.iter().map(|caption| caption.image).collect();
            let first: Vec<String> = images.iter().take(5).map(ToString::to_string).collect();
            let more = if images.len() > first.len() { ", …" } else { "" };
            warnings.push((
                "captions",
                format!(
                    "{} captions left out: their {} images have no feature (image_id {}{more})",
                    left_out.len(),
                    images.len(),
                    first.join(", ")
                ),
            ));
        }

        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut empty = 0;
        for caption in captions.iter().filter(|caption| !caption.val) {
            let words = stage.tokenizer.words(&caption.text);
            empty += usize::from(words.is_empty());
            for word in words {
                *counts.entry(word).or_default() += 1;
            }
        }
        if empty > 0 {
            let message = format!("{empty} training captions hold no word; each is trained on as an empty sentence");
            warnings.push(("captions", message));
        }
        let vocabulary = Vocabulary::build(&counts, stage.min_count);
        cx.proceed()?;

        let (mut train, mut val) = (Vec::new(), Vec::new());
        for caption in captions {
            let words = encode(&vocabulary, stage.tokenizer, &caption.text)
                .map_err(|error| error.context(format!("caption {}", caption.id)))?;
            let pair = Pair { caption: caption.id, image: rows[&caption.image], words };
            if caption.val { val.push(pair) } else { train.push(pair) }
        }
        if train.is_empty() {
            return Err(nothing_to_train_on(left_out.iter().filter(|caption| !caption.val).count()));
        }
        warnings.extend(little_known(&train, stage.min_count)?.map(|message| ("captions", message)));
        if val.is_empty() {
            let message = "no caption of split `val` has an image with a feature: the last epoch becomes the model";
            warnings.push(("val", message.to_owned()));
        }
        Ok(Self { features, width, train, val, vocabulary, warnings })
    }

    /// The feature vector of row `image`.
    pub fn feature(&self, image: usize) -> &[f32] {
        &self.features[image * self.width..][..self.width]
    }
}

/// The error of a training without a pair, `without` of whose captions have no feature.
fn nothing_to_train_on(without: usize) -> Error {
    if without == 0 {
        return Error::data("nothing to train on: table `captions` holds no caption of split `train` or `restval`");
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
fn little_known(train: &[Pair], min_count: usize) -> Result<Option<String>> {
    // Less `<start>` and `<end>`.
    let words: usize = train.iter().map(|pair| pair.words.len() - 2).sum();
    let unknown = train.iter().flat_map(|pair| &pair.words).filter(|&&word| word == UNKNOWN).count();
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

fn read_captions(cx: &mut Cx<'_>) -> Result<Vec<Caption>> {
    let mut captions = Vec::new();
    cx.rewind("captions")?;
    while let Some(batch) = cx.next("captions")? {
        let (ids, images) = (tables::ids(&batch, "caption_id")?, tables::ids(&batch, "image_id")?);
        let (splits, texts) = (tables::texts(&batch, "split")?, tables::texts(&batch, "text")?);
        for row in 0..batch.num_rows() {
            let val = match splits.value(row) {
                "train" | "restval" => false,
                "val" => true,
                _ => continue,
            };
            let text = texts.value(row).to_owned();
            captions.push(Caption { id: ids.value(row), image: images.value(row), val, text });
        }
    }
    Ok(captions)
}

/// The features of the images in `needed`, their width and the row of each.
fn read_features(cx: &mut Cx<'_>, needed: &BTreeSet<i64>) -> Result<(Vec<f32>, usize, HashMap<i64, usize>)> {
    let (mut features, mut width) = (Vec::new(), 0);
    let mut rows = HashMap::new();
    cx.rewind("features")?;
    while let Some(batch) = cx.next("features")? {
        let images = tables::ids(&batch, "image_id")?;
        let (values, got) = tables::floats(&batch, "feature")?;
        if batch.num_rows() == 0 {
            continue;
        }
        if got == 0 || (width != 0 && got != width) {
            return Err(Error::data(format!(
                "the feature of image {} has width {got}, wanted {width}",
                images.value(0)
            ))
            .hint("all features of a training must have one width above 0"));
        }
        width = got;
        for (&image, feature) in images.values().iter().zip(values.chunks_exact(width)) {
            if !needed.contains(&image) {
                continue;
            }
            if feature.iter().any(|value| !value.is_finite()) {
                return Err(Error::data(format!("the feature of image {image} holds a value that is not finite")));
            }
            match rows.entry(image) {
                Entry::Occupied(_) => return Err(Error::data(format!("image {image} has two features, wanted one"))),
                Entry::Vacant(entry) => entry.insert(features.len() / width),
            };
            features.extend_from_slice(feature);
        }
    }
    Ok((features, width, rows))
}
