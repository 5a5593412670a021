//! Karpathy's split files: `dataset_coco.json`, `dataset_flickr30k.json`, `dataset_flickr8k.json`.
//!
//! Format: Karpathy and Fei-Fei, "Deep visual-semantic alignments for generating image descriptions", CVPR 2015.

use std::fmt;

use serde::Deserialize;

use super::Karpathy;
use super::listing::{self, Entry, Seen};
use super::rows;
use crate::error::Result;
use crate::io::{Mistakes, json};
use crate::stage::Cx;

/// What is read of a file. `tokens` is left: it is `raw` in lower case without punctuation.
#[derive(Deserialize)]
struct File {
    images: Vec<Image>,
}

#[derive(Deserialize)]
struct Image {
    /// `train2014` or `val2014`; COCO only.
    filepath: Option<String>,
    filename: String,
    imgid: i64,
    /// COCO only.
    cocoid: Option<i64>,
    split: String,
    sentences: Vec<Sentence>,
}

#[derive(Deserialize)]
struct Sentence {
    raw: String,
    sentid: i64,
}

/// Place of an image in the file, from 0.
#[derive(Debug, Clone, Copy)]
struct Place(usize);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "images[{}]", self.0)
    }
}

/// Reads the file and writes its images and captions.
///
/// `image_id` is `cocoid` where there is one, else `imgid`: so it is the id of published `*_ids.txt` files, and for COCO
/// that of the annotation files. `caption_id` is `sentid`, which for COCO is *not* an annotation id.
pub(super) fn run(set: &Karpathy, cx: &mut Cx<'_>) -> Result<()> {
    let path = cx.source("karpathy.json")?;
    let file: File = json::read(&path)?;
    let mut mistakes = Mistakes::of(&path);
    let mut seen = Seen::new();
    let mut entries = Vec::with_capacity(file.images.len());
    for (i, image) in file.images.into_iter().enumerate() {
        let place = Place(i);
        let image_id = image.cocoid.unwrap_or(image.imgid);
        let path = listing::image_path(image.filepath.as_deref().unwrap_or_default(), &image.filename);
        let path = path.unwrap_or_else(|problem| {
            mistakes.add(place, problem);
            format!("{place}")
        });
        let split = listing::split(&image.split).unwrap_or_else(|problem| {
            mistakes.add(place, problem);
            listing::SPLITS[0]
        });
        seen.image(image_id, &path, place, &mut mistakes);
        let mut captions = Vec::with_capacity(set.captions_per_image.min(image.sentences.len()));
        for (k, sentence) in image.sentences.iter().take(set.captions_per_image).enumerate() {
            seen.caption(sentence.sentid, place, &mut mistakes);
            match rows::caption(&sentence.raw) {
                Ok(text) => captions.push((sentence.sentid, text.to_owned())),
                Err(problem) => mistakes.add(format_args!("{place}.sentences[{k}]"), problem),
            }
        }
        entries.push(Entry { image_id, split, file_name: image.filename, path, captions });
    }
    mistakes.finish()?;
    listing::write(cx, &entries, &cx.source("karpathy.images")?, set.on_missing)
}
