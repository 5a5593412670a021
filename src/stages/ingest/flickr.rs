//! Reader of `flickr`: the original format of Flickr8k, a token file and three lists of image names.
//!
//! Format: Hodosh, Young, Hockenmaier, "Framing image description as a ranking task", JAIR 47, 2013.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::Flickr;
use super::listed_images::{self, ListedImage, MissingImages};
use super::writer::CaptionCleaner;
use pairloom_base::error::{Result, ValidationErrors};
use pairloom_formats::text_lines::TextLines;
use pairloom_stage::StageContext;
use pairloom_storage::image_names::shown_name;

/// Image of the token file with its captions.
struct CaptionedImage {
    name: String,
    /// Number, identifier and text of each caption.
    captions: Vec<(u32, i64, String)>,
}

/// Reads the token file and the lists, and writes images and captions.
///
/// `image_id` numbers the images of the token file in order of first appearance, including images in no list;
/// `caption_id` is the line of the caption, from 0. The captions of an image are in the order of their numbers, by which
/// ratings name them. Images in no list are left out, since the lists define the splits.
/// Blank lines are skipped.
pub(super) fn run(settings: &Flickr, cx: &mut StageContext<'_>) -> Result<()> {
    let tokens = TextLines::read(&cx.source("flickr.tokens")?)?;
    let tokens = read_tokens(settings, cx, &tokens)?;
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
            captions: image.captions.into_iter().map(|(_, id, text)| (id, text)).collect(),
        });
    }
    let missing = MissingImages::new(settings.on_missing, settings.max_skipped);
    listed_images::write_existing(cx, &entries, "flickr.images", &missing)
}

/// Reads the images in order of first appearance, with their captions in the order of their numbers. Warns of numbers that are
/// not 0, 1, 2 and so on.
fn read_tokens(settings: &Flickr, cx: &mut StageContext<'_>, file: &TextLines) -> Result<Vec<CaptionedImage>> {
    let mut mistakes = ValidationErrors::in_file(file.path());
    let mut images: Vec<CaptionedImage> = Vec::new();
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    let mut numbers = HashSet::new();
    let mut cleaner = CaptionCleaner::new(settings.on_missing, settings.max_skipped);
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
        let image = *by_name.entry(name).or_insert_with(|| {
            images.push(CaptionedImage { name: name.to_owned(), captions: Vec::new() });
            images.len() - 1
        });
        match cleaner.clean(Some(caption), location) {
            Ok(text) => images[image].captions.extend(text.map(|text| (number, id, text.to_owned()))),
            Err(problem) => mistakes.add(location, problem),
        }
    }
    mistakes.into_result()?;
    cleaner.finish(cx, file.path())?;
    let mut others = Vec::new();
    for image in &mut images {
        image.captions.sort_by_key(|(number, ..)| *number);
        let other = image.captions.iter().zip(0..).find(|((number, ..), place)| number != place);
        others.extend(
            other.map(|((number, ..), place)| format!("`{}#{number}`, at place {place}", shown_name(&image.name))),
        );
    }
    if let Some(first) = others.first() {
        let (count, all) = (others.len(), images.len());
        let message = format!(
            "the captions of {count} of {all} images are not numbered 0, 1, 2 and so on, such as {first}: ratings that name \
             captions mean their places"
        );
        cx.warn(file.path().display().to_string(), message);
    }
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
            if name.trim().is_empty() {
                continue;
            }
            let name = if known.contains(name) { name } else { name.trim() };
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

    use pairloom_tables::int_column;

    use super::super::testing::{captions, folder, images, ingest, ingest_beside, refused, split_counts};

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

    /// Ratings name captions by their numbers.
    #[test]
    fn captions_are_in_the_order_of_their_numbers() {
        let folder = folder(&[
            ("tokens.txt", b"a.jpg#2\tthird\na.jpg#0\tfirst\na.jpg#1\tsecond\nb.jpg#1\tx\n"),
            ("train.txt", b""),
            ("val.txt", b"b.jpg\n"),
            ("test.txt", b"a.jpg\n"),
            ("images/a.jpg", b""),
            ("images/b.jpg", b""),
            ("ExpertAnnotations.txt", b"a.jpg\ta.jpg#0\t4\t4\t4\n"),
        ]);
        let host = ingest(folder.path(), settings()).unwrap();
        let got: Vec<_> = captions(&host).into_iter().map(|(id, _, _, text)| (id, text)).collect();
        let expected = [(1, "first"), (2, "second"), (0, "third"), (3, "x")];
        assert_eq!(got, expected.map(|(id, text)| (id, text.to_owned())));
        let warnings: Vec<_> = host.warnings.iter().map(|warning| warning.message.as_str()).collect();
        assert_eq!(
            warnings,
            [
                "the captions of 1 of 2 images are not numbered 0, 1, 2 and so on, such as `b.jpg#1`, at place 0: ratings \
              that name captions mean their places"
            ]
        );
        let ratings = json!({"ratings": {"file": "ExpertAnnotations.txt", "form": "flickr8k_expert",
                                         "images": "pairs.images", "captions": "pairs.captions"}});
        let tables = [("ratings.images", &host, "images"), ("ratings.captions", &host, "captions")];
        let rated = ingest_beside(folder.path(), ratings, &tables).unwrap();
        // The caption with the identifier 1 is "first".
        assert_eq!(int_column(&rated.output("ratings"), "caption_id").unwrap().values(), &[1; 3]);
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
    fn empty_captions_can_be_left_out_and_names_may_have_spaces() {
        let folder = folder(&[
            ("tokens.txt", b"a.jpg #0\t \na.jpg #1\tA one\na.jpg#0\tother\n"),
            ("train.txt", b"a.jpg \n"),
            ("val.txt", b" a.jpg\n"),
            ("test.txt", b""),
            ("images/a.jpg", b""),
            ("images/a.jpg ", b""),
        ]);
        let mut settings = settings();
        settings["flickr"]["on_missing"] = json!("skip");
        settings["flickr"]["max_skipped"] = json!(0.34);
        let host = ingest(folder.path(), settings).unwrap();
        let rows: Vec<_> = images(&host).into_iter().map(|(id, split, _, path)| (id, split, path.unwrap())).collect();
        let expected = [(0, "train", "a.jpg "), (1, "val", "a.jpg")];
        assert_eq!(rows, expected.map(|(id, split, path)| (id, split.to_owned(), path.to_owned())));
        assert_eq!(captions(&host).iter().map(|row| row.3.as_str()).collect::<Vec<_>>(), ["A one", "other"]);
        let warnings: Vec<_> = host.warnings.iter().map(|warning| warning.message.as_str()).collect();
        assert_eq!(warnings[0], "1 of 3 captions are left out: line 1: caption is empty");
        assert!(
            warnings[1].contains("1 of 2 images") && warnings[1].contains("`a.jpg #1`, at place 0"),
            "{warnings:?}"
        );
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
