//! The original form of Flickr8k: a token file and three lists of image names.
//!
//! Format: Hodosh, Young, Hockenmaier, "Framing image description as a ranking task", JAIR 47, 2013.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::Flickr;
use super::listing::{self, Entry};
use super::rows;
use crate::error::Result;
use crate::io::{Mistakes, text_lines::TextLines};
use crate::stage::Cx;

/// What the token file says of an image.
struct Tokens {
    name: String,
    captions: Vec<(i64, String)>,
}

/// Reads token file and lists, and writes images and captions.
///
/// `image_id` counts the images of the token file in order of their first appearance, those outside of the lists
/// included; `caption_id` is the line of the caption, from 0. Images in no list are left out: that is how the lists
/// work. Blank lines are skipped.
pub(super) fn run(set: &Flickr, cx: &mut Cx<'_>) -> Result<()> {
    let tokens = read_tokens(&TextLines::read(&cx.source("flickr.tokens")?)?)?;
    let splits = read_lists(cx, &tokens)?;
    let mut entries = Vec::with_capacity(splits.len());
    for (image_id, image) in (0..).zip(tokens) {
        let Some((split, path)) = splits.get(&image.name) else { continue };
        let (split, path) = (*split, path.clone());
        entries.push(Entry { image_id, split, file_name: image.name, path, captions: image.captions });
    }
    listing::write(cx, &entries, &cx.source("flickr.images")?, set.on_missing)
}

/// Images in order of first appearance, with their captions in file order.
fn read_tokens(file: &TextLines) -> Result<Vec<Tokens>> {
    let mut mistakes = Mistakes::of(file.path());
    let mut images: Vec<Tokens> = Vec::new();
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    let mut numbers = HashSet::new();
    for ((line, content), id) in file.iter().zip(0..) {
        if content.trim().is_empty() {
            continue;
        }
        let place = Line(line);
        let parsed = content.split_once('\t').and_then(|(key, caption)| {
            let (name, number) = key.rsplit_once('#')?;
            Some((name, number.trim().parse::<u32>().ok()?, caption))
        });
        let Some((name, number, caption)) = parsed else {
            mistakes.add(place, "wanted `name#number`, a tab and a caption");
            continue;
        };
        if !numbers.insert((name, number)) {
            mistakes.add(place, format_args!("`{name}#{number}` is there already"));
        }
        match rows::caption(caption) {
            Ok(text) => {
                let image = *by_name.entry(name).or_insert_with(|| {
                    images.push(Tokens { name: name.to_owned(), captions: Vec::new() });
                    images.len() - 1
                });
                images[image].captions.push((id, text.to_owned()));
            }
            Err(problem) => mistakes.add(place, problem),
        }
    }
    mistakes.finish()?;
    Ok(images)
}

/// Split and path of each listed name. Every mistake of a list is reported, then the next list is read.
fn read_lists(cx: &Cx<'_>, tokens: &[Tokens]) -> Result<HashMap<String, (&'static str, String)>> {
    let known: HashSet<&str> = tokens.iter().map(|image| image.name.as_str()).collect();
    let mut splits: HashMap<String, (&'static str, String)> = HashMap::new();
    for split in ["train", "val", "test"] {
        let file = TextLines::read(&cx.source(&format!("flickr.{split}"))?)?;
        let mut mistakes = Mistakes::of(file.path());
        for (line, name) in file.iter() {
            let name = name.trim();
            if name.is_empty() {
                continue;
            }
            let path = match listing::image_path("", name) {
                Ok(path) => path,
                Err(problem) => {
                    mistakes.add(Line(line), problem);
                    continue;
                }
            };
            if !known.contains(name) {
                mistakes.add(Line(line), format_args!("`{name}` has no captions in the token file"));
            }
            if let Some((first, _)) = splits.insert(name.to_owned(), (split, path)) {
                mistakes.add(Line(line), format_args!("`{name}` is in the list of `{first}` already"));
            }
        }
        mistakes.finish()?;
    }
    Ok(splits)
}

/// A line, from 1.
#[derive(Debug, Clone, Copy)]
struct Line(usize);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.0)
    }
}
