//! COCO's own caption annotations: `captions_train2014.json`, `captions_val2014.json`.
//!
//! Format: <https://cocodataset.org/#format-data>; Chen et al., "Microsoft COCO captions", 2015.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;

use super::Coco;
use super::listing::{self, Entry, Seen};
use super::rows;
use crate::error::{Error, Result};
use crate::io::{Mistakes, json};
use crate::stage::Cx;

/// What is read of a file.
#[derive(Deserialize)]
struct File {
    images: Vec<Image>,
    annotations: Vec<Annotation>,
}

#[derive(Deserialize)]
struct Image {
    id: i64,
    file_name: String,
}

#[derive(Deserialize)]
struct Annotation {
    id: i64,
    image_id: i64,
    caption: String,
}

/// Place in one of the files, from 0.
#[derive(Debug, Clone, Copy)]
struct Place {
    list: &'static str,
    index: usize,
    file: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { list, index, file } = self;
        write!(f, "files[{file}].{list}[{index}]")
    }
}

/// Reads the files one after the other and writes their images and captions.
///
/// `image_id` is the image's COCO id, `caption_id` the annotation's, which is unique over COCO's files.
pub(super) fn run(set: &Coco, cx: &mut Cx<'_>) -> Result<()> {
    let mut seen = Seen::new();
    let mut entries = Vec::new();
    for (number, part) in set.files.iter().enumerate() {
        let split = listing::split(&part.split).map_err(Error::usage)?;
        let path = cx.source(&format!("coco.files.{number}.captions"))?;
        let file: File = json::read(&path)?;
        let mut mistakes = Mistakes::of(&path);
        let mut by_id: HashMap<i64, usize> = HashMap::with_capacity(file.images.len());
        for (index, image) in file.images.into_iter().enumerate() {
            let place = Place { list: "images", index, file: number };
            let path = listing::image_path(&part.folder, &image.file_name).unwrap_or_else(|problem| {
                mistakes.add(place, problem);
                format!("{place}")
            });
            seen.image(image.id, &path, place, &mut mistakes);
            by_id.insert(image.id, entries.len());
            entries.push(Entry { image_id: image.id, split, file_name: image.file_name, path, captions: Vec::new() });
        }
        for (index, annotation) in file.annotations.into_iter().enumerate() {
            let place = Place { list: "annotations", index, file: number };
            seen.caption(annotation.id, place, &mut mistakes);
            let Some(&image) = by_id.get(&annotation.image_id) else {
                mistakes.add(place, format_args!("caption is for image {}, which is not listed", annotation.image_id));
                continue;
            };
            let captions = &mut entries[image].captions;
            if captions.len() == set.captions_per_image {
                continue;
            }
            match rows::caption(&annotation.caption) {
                Ok(text) => captions.push((annotation.id, text.to_owned())),
                Err(problem) => mistakes.add(place, problem),
            }
        }
        mistakes.finish()?;
    }
    listing::write(cx, &entries, &cx.source("coco.images")?, set.on_missing)
}
