//! Reader of `flickr`: the original format of Flickr8k, a token file and three lists of image names.
//!
//! Format: Hodosh, Young, Hockenmaier, "Framing image description as a ranking task", JAIR 47, 2013.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::listed_images::{self, ListedImage, MissingImages};
use super::{Flickr, writer};
use pairloom_base::error::{Result, ValidationErrors};
use pairloom_formats::text_lines::TextLines;
use pairloom_stage::StageContext;
use pairloom_storage::image_names::shown_name;

/// Image of the token file with its captions.
struct CaptionedImage {
    name: String,
    captions: Vec<(i64, String)>,
}

/// Reads the token file and the lists, and writes images and captions.
///
/// `image_id` numbers the images of the token file in order of first appearance, including images in no list;
/// `caption_id` is the line of the caption, from 0. Images in no list are left out, since the lists define the splits.
/// Blank lines are skipped.
pub(super) fn run(settings: &Flickr, cx: &mut StageContext<'_>) -> Result<()> {
    let tokens = read_tokens(cx, &TextLines::read(&cx.source("flickr.tokens")?)?)?;
    let splits = read_lists(cx, &tokens)?;
    let mut entries = Vec::with_capacity(splits.len());
    for (image_id, image) in (0..).zip(tokens) {
        let Some((split, path)) = splits.get(&image.name) else { continue };
        let (split, path) = (*split, path.clone());
        entries.push(ListedImage {
            image_id,
            split,
            file_name: image.name,
            path,
            place: None,
            captions: image.captions,
        });
    }
    let missing = MissingImages::new(settings.on_missing, settings.max_skipped);
    listed_images::write_existing(cx, &entries, "flickr.images", &missing)
}

/// Reads the images in order of first appearance, with their captions in file order.
fn read_tokens(cx: &StageContext<'_>, file: &TextLines) -> Result<Vec<CaptionedImage>> {
    let mut mistakes = ValidationErrors::in_file(file.path());
    let mut images: Vec<CaptionedImage> = Vec::new();
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    let mut numbers = HashSet::new();
    for ((line, content), id) in file.iter().zip(0..) {
        cx.check_cancelled()?;
        if content.trim().is_empty() {
            continue;
        }
        let location = LineNumber(line);
        let parsed = content.split_once('\t').and_then(|(key, caption)| {
            let (name, number) = key.rsplit_once('#')?;
            Some((name, number.trim().parse::<u32>().ok()?, caption))
        });
        let Some((name, number, caption)) = parsed else {
            mistakes.add(location, "expected `name#number`, a tab and a caption");
            continue;
        };
        if !numbers.insert((name, number)) {
            mistakes.add(location, format_args!("`{}#{number}` is a duplicate", shown_name(name)));
        }
        match writer::clean_caption(caption) {
            Ok(text) => {
                let image = *by_name.entry(name).or_insert_with(|| {
                    images.push(CaptionedImage { name: name.to_owned(), captions: Vec::new() });
                    images.len() - 1
                });
                images[image].captions.push((id, text.to_owned()));
            }
            Err(problem) => mistakes.add(location, problem),
        }
    }
    mistakes.into_result()?;
    Ok(images)
}

/// Reads the split and the path of each listed name.
///
/// # Errors
/// A list has mistakes: the error names all mistakes of the first such list.
fn read_lists(cx: &StageContext<'_>, tokens: &[CaptionedImage]) -> Result<HashMap<String, (&'static str, String)>> {
    let known: HashSet<&str> = tokens.iter().map(|image| image.name.as_str()).collect();
    let mut splits: HashMap<String, (&'static str, String)> = HashMap::new();
    for split in ["train", "val", "test"] {
        let file = TextLines::read(&cx.source(&format!("flickr.{split}"))?)?;
        let mut mistakes = ValidationErrors::in_file(file.path());
        for (line, name) in file.iter() {
            cx.check_cancelled()?;
            let name = name.trim();
            if name.is_empty() {
                continue;
            }
            let path = match listed_images::image_path("", name) {
                Ok(path) => path,
                Err(problem) => {
                    mistakes.add(LineNumber(line), problem);
                    continue;
                }
            };
            if !known.contains(name) {
                mistakes
                    .add(LineNumber(line), format_args!("`{}` has no captions in the token file", shown_name(name)));
            }
            if let Some((first, _)) = splits.insert(name.to_owned(), (split, path)) {
                mistakes
                    .add(LineNumber(line), format_args!("`{}` is in the list of `{first}` already", shown_name(name)));
            }
        }
        mistakes.into_result()?;
    }
    Ok(splits)
}

/// Line number, from 1.
#[derive(Debug, Clone, Copy)]
struct LineNumber(usize);

impl fmt::Display for LineNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;
    use test_data::public;

    use super::super::testing::{captions, folder, images, ingest, refused, split_counts};

    fn settings() -> serde_json::Value {
        json!({"flickr": {"tokens": "tokens.txt", "images": "images", "train": "train.txt", "val": "val.txt",
                          "test": "test.txt"}})
    }

    #[test]
    fn lists_select_images_and_the_token_file_defines_the_order() {
        let tokens =
            "\u{feff}b.jpg#0\tB zero .\r\nx.jpg.1#0\tX\r\na.jpg#0\tA zero\r\n\r\nb.jpg#1\tB one\twith a tab\r\n";
        let folder = folder(&[
            ("tokens.txt", tokens.as_bytes()),
            ("train.txt", b"a.jpg\r\n"),
            ("val.txt", b"b.jpg"),
            ("test.txt", b""),
            ("images/a.jpg", b""),
            ("images/b.jpg", b""),
        ]);
        let host = ingest(folder.path(), settings()).unwrap();
        let got: Vec<_> = images(&host).into_iter().map(|(id, split, name, _)| (id, split, name)).collect();
        let expected = [(0, "val", "b.jpg"), (2, "train", "a.jpg")];
        assert_eq!(got, expected.map(|(id, split, name)| (id, split.to_owned(), name.to_owned())));
        let got: Vec<_> = captions(&host).into_iter().map(|(id, image, _, text)| (id, image, text)).collect();
        let expected = [(0, 0, "B zero ."), (4, 0, "B one\twith a tab"), (2, 2, "A zero")];
        assert_eq!(got, expected.map(|(id, image, text)| (id, image, text.to_owned())));
        assert_eq!(host.warnings, []);
    }

    #[test]
    fn every_mistake_of_the_token_file_is_reported() {
        let folder = folder(&[
            ("tokens.txt", b"a.jpg#0\tfine\na.jpg 1 no tab\na.jpg#x\tno number\na.jpg#2\t \na.jpg#0\tagain\n"),
            ("images/a.jpg", b""),
        ]);
        let message = refused(ingest(folder.path(), settings()));
        for expected in [
            "tokens.txt` has 4 mistakes",
            "line 2: expected `name#number`",
            "line 3: expected `name#number`",
            "line 4: caption is empty",
            "line 5: `a.jpg#0` is a duplicate",
        ] {
            assert!(message.contains(expected), "{expected} is not in\n{message}");
        }
    }

    #[test]
    fn every_mistake_of_a_list_is_reported() {
        let folder = folder(&[
            ("tokens.txt", b"a.jpg#0\tA\n../up.jpg#0\tB\n"),
            ("train.txt", b"a.jpg\n"),
            ("val.txt", b"a.jpg\nnone.jpg\n../up.jpg\n"),
            ("test.txt", b""),
            ("images/a.jpg", b""),
            ("up.jpg", b""),
        ]);
        let message = refused(ingest(folder.path(), settings()));
        for expected in [
            "val.txt` has 3 mistakes",
            "line 1: `a.jpg` is in the list of `train` already",
            "line 2: `none.jpg` has no captions in the token file",
            "line 3: image name `../up.jpg` leads out of the image folder",
        ] {
            assert!(message.contains(expected), "{expected} is not in\n{message}");
        }
    }

    #[test]
    fn a_line_that_is_not_utf8_is_named() {
        let folder = folder(&[("tokens.txt", b"a.jpg#0\tA\na.jpg#1\tcaf\xe9\n"), ("images/a.jpg", b"")]);
        let message = refused(ingest(folder.path(), settings()));
        assert!(message.contains("tokens.txt` line 2: byte 12 (0xe9)"), "{message}");
    }

    /// Counts from the description of the data: 991 images with five captions each, 753 / 113 / 125 in the splits.
    #[test]
    fn both_formats_of_flickr8k_give_the_same_captions() {
        let Some(folder) = public("flickr8k-1k") else { return };
        let flickr = ingest(
            &folder,
            json!({"flickr": {"tokens": "Flickr8k.token.txt", "images": "images",
                "train": "Flickr_8k.trainImages.txt", "val": "Flickr_8k.devImages.txt",
                "test": "Flickr_8k.testImages.txt"}}),
        )
        .unwrap();
        let karpathy =
            ingest(&folder, json!({"karpathy": {"json": "dataset_flickr8k.json", "images": "images"}})).unwrap();
        let sets = [&flickr, &karpathy].map(|host| {
            assert_eq!(split_counts(host), [753, 113, 125]);
            assert_eq!(host.warnings, []);
            let names: std::collections::HashMap<_, _> =
                images(host).into_iter().map(|(id, _, name, _)| (id, name)).collect();
            let captions = captions(host);
            assert_eq!((names.len(), captions.len()), (991, 4955));
            captions
                .into_iter()
                .map(|(_, image, split, text)| (names[&image].clone(), split, text))
                .collect::<BTreeSet<_>>()
        });
        assert!(sets[0] == sets[1], "captions differ");
    }
}
