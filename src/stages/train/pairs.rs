//! What a training reads: the features of images and the captions that go with them, in memory.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use super::Train;
use crate::error::{Error, Result};
use crate::kernels::text::Vocabulary;
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
    /// Features of different widths, twice of one image or with values that are not finite; a caption of thousands of words; no pair to
    /// train on.
    pub fn read(stage: &Train, cx: &mut Cx<'_>) -> Result<Self> {
        let captions = read_captions(cx)?;
        let needed = captions.iter().map(|caption| caption.image).collect();
        let (features, width, rows) = read_features(cx, &needed)?;

        let (captions, left_out): (Vec<_>, Vec<_>) =
            captions.into_iter().partition(|caption| rows.contains_key(&caption.image));
        if !left_out.is_empty() {
            let images: BTreeSet<i64> = left_out.iter().map(|caption| caption.image).collect();
            let first: Vec<String> = images.iter().take(5).map(ToString::to_string).collect();
            let more = if images.len() > first.len() { ", …" } else { "" };
            cx.warn(
                "captions",
                format!(
                    "{} captions left out: their {} images have no feature (image_id {}{more})",
                    left_out.len(),
                    images.len(),
                    first.join(", ")
                ),
            );
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
            cx.warn(
                "captions",
                format!("{empty} training captions hold no word; each is trained on as an empty sentence"),
            );
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
            return Err(Error::data(format!(
                "nothing to train on: no caption of split `train` or `restval` has an image with a feature ({} such \
                 captions without)",
                left_out.iter().filter(|caption| !caption.val).count()
            ))
            .hint("check that `features` and `captions` come from the same data set"));
        }
        Ok(Self { features, width, train, val, vocabulary })
    }

    /// The feature vector of row `image`.
    pub fn feature(&self, image: usize) -> &[f32] {
        &self.features[image * self.width..][..self.width]
    }
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
