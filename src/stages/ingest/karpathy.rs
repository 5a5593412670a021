//! Reader of `karpathy`: Karpathy split files, `dataset_coco.json`, `dataset_flickr30k.json`, `dataset_flickr8k.json`.
//!
//! Format: Karpathy and Fei-Fei, "Deep visual-semantic alignments for generating image descriptions", CVPR 2015.

use std::fmt;

use serde::Deserialize;

use super::Karpathy;
use super::listed_images::{self, DuplicateFinder, ListedImage, MissingImages, UnknownSplits};
use super::writer::CaptionCleaner;
use pairloom_base::error::{Result, ValidationErrors};
use pairloom_formats::json;
use pairloom_stage::StageContext;
use pairloom_storage::image_names::shown_name;

/// Description of a valid file, for error messages.
const EXPECTED_FORMAT: &str =
    "an object with the list `images`, each with `filename`, `imgid`, `split` and `sentences` (`raw`, `sentid`)";

/// Fields of a split file that are read. `tokens` is ignored: it is `raw` in lower case without punctuation.
#[derive(Deserialize)]
struct KarpathySplits {
    images: Vec<KarpathyImage>,
}

#[derive(Deserialize)]
struct KarpathyImage {
    /// `train2014` or `val2014`; COCO only.
    filepath: Option<String>,
    filename: String,
    imgid: i64,
    /// COCO only.
    cocoid: Option<i64>,
    split: String,
    sentences: Vec<KarpathySentence>,
}

#[derive(Deserialize)]
struct KarpathySentence {
    raw: Option<String>,
    sentid: i64,
}

/// Location of an image in the file, from 0.
#[derive(Debug, Clone, Copy)]
struct KarpathyLocation(usize);

impl fmt::Display for KarpathyLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "images[{}]", self.0)
    }
}

/// Reads the file and writes its images and captions.
///
/// `image_id` is `cocoid` if present, else `imgid`. This is the id in published `*_ids.txt` files, and for COCO that of
/// the annotation files. `caption_id` is `sentid`; those of COCO's test split, by which Crisscrossed Captions names
/// captions, are also the identifiers of ECCV Caption (`coco_test_ids.npy`).
pub(super) fn run(settings: &Karpathy, cx: &mut StageContext<'_>) -> Result<()> {
    let path = cx.source("karpathy.json")?;
    let file: KarpathySplits = json::read_while(&path, EXPECTED_FORMAT, || cx.check_cancelled())?;
    let mut mistakes = ValidationErrors::in_file(&path);
    let mut unknown = UnknownSplits::default();
    let mut seen = DuplicateFinder::new();
    let mut cleaner = CaptionCleaner::new(settings.on_missing, settings.max_skipped);
    let mut entries = Vec::with_capacity(file.images.len());
    for (i, image) in file.images.into_iter().enumerate() {
        let location = KarpathyLocation(i);
        let image_id = image.cocoid.unwrap_or(image.imgid);
        let path = listed_images::image_path(image.filepath.as_deref().unwrap_or_default(), &image.filename);
        let path = path.unwrap_or_else(|problem| {
            mistakes.add(location, problem);
            format!("{location}")
        });
        let split = settings.splits.get(&image.split).unwrap_or(&image.split);
        let split = listed_images::parse_split(split).unwrap_or_else(|problem| {
            let name = shown_name(&image.split);
            let problem = format!("{problem}; `splits = {{ \"{name}\" = \"val\" }}` gives it one");
            if let Err(problem) = unknown.add(&image.split, problem) {
                mistakes.add(location, problem);
            }
            listed_images::SPLITS[0]
        });
        seen.check_image(image_id, &path, location, &mut mistakes);
        let mut captions = Vec::with_capacity(settings.captions_per_image.min(image.sentences.len()));
        for (k, sentence) in image.sentences.iter().enumerate() {
            if captions.len() == settings.captions_per_image {
                break;
            }
            seen.check_caption(sentence.sentid, location, &mut mistakes);
            let place = format_args!("{location}.sentences[{k}]");
            match cleaner.clean(sentence.raw.as_deref(), place) {
                Ok(text) => captions.extend(text.map(|text| (sentence.sentid, text.to_owned()))),
                Err(problem) => mistakes.add(place, problem),
            }
        }
        entries.push(ListedImage { image_id, split, file_name: image.filename, path, place: None, captions });
    }
    mistakes.into_result().map_err(|error| unknown.counted(error))?;
    cleaner.finish(cx, &path)?;
    let missing = MissingImages::new(settings.on_missing, settings.max_skipped);
    listed_images::write_existing(cx, &entries, "karpathy.images", &missing)
}

#[cfg(test)]
mod tests {
    use arrow::array::RecordBatch;
    use serde_json::json;

    use super::super::testing::{captions, folder, images, ingest, refused};

    fn sentences(first: i64, texts: &[&str]) -> serde_json::Value {
        texts.iter().zip(first..).map(|(raw, sentid)| json!({"raw": raw, "sentid": sentid, "tokens": ["x"]})).collect()
    }

    fn settings() -> serde_json::Value {
        json!({"karpathy": {"json": "set.json", "images": "images"}})
    }

    fn skipping() -> serde_json::Value {
        json!({"karpathy": {"json": "set.json", "images": "images", "on_missing": "skip", "max_skipped": 0.7}})
    }

    fn set(images: &serde_json::Value) -> Vec<u8> {
        json!({"dataset": "made", "images": images}).to_string().into_bytes()
    }

    #[test]
    fn keeps_order_ids_and_the_first_captions() {
        let set = set(&json!([
            {"filepath": "val2014", "filename": "b.jpg", "imgid": 0, "cocoid": 40, "split": "restval",
             "sentences": sentences(70, &["B0 ", "B1", "B2", "B3", "B4", "B5"])},
            {"filename": "a.jpg", "imgid": 1, "split": "test", "sentences": sentences(10, &["A0"])},
            {"filename": "none.jpg", "imgid": 2, "split": "test", "sentences": []},
        ]));
        let folder = folder(&[("set.json", &set), ("images/val2014/b.jpg", b""), ("images/a.jpg", b"")]);
        let host = ingest(folder.path(), settings()).unwrap();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            images(&host),
            [
                (40, "restval".to_owned(), "b.jpg".to_owned(), text("val2014/b.jpg")),
                (1, "test".to_owned(), "a.jpg".to_owned(), text("a.jpg"))
            ]
        );
        let got = captions(&host);
        assert_eq!(got[0], (70, 40, "restval".to_owned(), "B0".to_owned()));
        assert_eq!(got.iter().map(|caption| caption.0).collect::<Vec<_>>(), [70, 71, 72, 73, 74, 10]);
        assert_eq!(host.warnings.len(), 1);
        assert_eq!(host.warnings[0].subject, "none.jpg");
    }

    #[test]
    fn other_names_of_splits_have_a_setting() {
        let set = set(&json!([
            {"filename": "a.jpg", "imgid": 0, "split": "dev", "sentences": sentences(0, &["A"])},
            {"filename": "b.jpg", "imgid": 1, "split": "test", "sentences": sentences(1, &["B"])},
            {"filename": "c.jpg", "imgid": 2, "split": "dev", "sentences": sentences(2, &["C"])},
        ]));
        let folder = folder(&[("set.json", &set), ("images/a.jpg", b""), ("images/b.jpg", b""), ("images/c.jpg", b"")]);
        let message = refused(ingest(folder.path(), settings()));
        assert!(message.ends_with("the split `dev` occurs 2 times") && !message.contains("images[2]"), "{message}");
        let expected =
            "images[0]: split is `dev`, expected `train`, `restval`, `val` or `test`; `splits = { \"dev\" = \"val\" }`";
        assert!(message.contains(expected), "{message}");
        let mut settings = settings();
        settings["karpathy"]["splits"] = json!({"dev": "val"});
        let host = ingest(folder.path(), settings).unwrap();
        assert_eq!(images(&host).iter().map(|image| image.1.as_str()).collect::<Vec<_>>(), ["val", "test", "val"]);
    }

    #[test]
    fn missing_images_are_all_named_or_skipped() {
        let set = set(&json!([
            {"filename": "a.jpg", "imgid": 0, "split": "train", "sentences": sentences(0, &["A"])},
            {"filename": "b.jpg", "imgid": 1, "split": "train", "sentences": sentences(1, &["B"])},
            {"filename": "c.jpg", "imgid": 2, "split": "train", "sentences": sentences(2, &["C"])},
        ]));
        let folder = folder(&[("set.json", &set), ("images/b.jpg", b"")]);
        let message = refused(ingest(folder.path(), settings()));
        assert!(
            message.contains("`a.jpg`") && message.contains("`c.jpg`") && !message.contains("`b.jpg`"),
            "{message}"
        );
        assert!(message.contains("on_missing"), "{message}");
        let host = ingest(folder.path(), skipping()).unwrap();
        assert_eq!(images(&host).iter().map(|image| image.0).collect::<Vec<_>>(), [1]);
        assert_eq!(captions(&host).iter().map(|caption| caption.0).collect::<Vec<_>>(), [1]);
        assert_eq!(
            host.warnings.iter().map(|warning| warning.subject.as_str()).collect::<Vec<_>>(),
            ["a.jpg", "c.jpg"]
        );
        std::fs::remove_file(folder.path().join("images/b.jpg")).unwrap();
        assert!(refused(ingest(folder.path(), skipping())).contains("all 3 images were left out"));
        std::fs::remove_dir(folder.path().join("images")).unwrap();
        assert!(refused(ingest(folder.path(), skipping())).contains("is not a folder"));
    }

    /// The sixth caption takes the place of an empty one, since five are kept.
    #[test]
    fn empty_captions_can_be_left_out() {
        let mut six = sentences(10, &["A0", " ", "A2", "A3", "A4", "A5", "A6"]);
        six[3]["raw"] = json!(null);
        let set = set(&json!([
            {"filename": "a.jpg", "imgid": 0, "split": "train", "sentences": six},
            {"filename": "b.jpg", "imgid": 1, "split": "train", "sentences": sentences(0, &[""])},
        ]));
        let folder = folder(&[("set.json", &set), ("images/a.jpg", b""), ("images/b.jpg", b"")]);
        let host = ingest(folder.path(), skipping()).unwrap();
        assert_eq!(captions(&host).iter().map(|caption| caption.0).collect::<Vec<_>>(), [10, 12, 14, 15, 16]);
        let warnings: Vec<_> = host.warnings.iter().map(|warning| warning.message.as_str()).collect();
        let expected = "3 of 8 captions are left out: images[0].sentences[1]: caption is empty; images[0].sentences[3]: \
                        caption is missing; images[1].sentences[0]: caption is empty";
        assert_eq!(warnings, [expected, "image has no captions and is left out"]);
        let message = refused(ingest(folder.path(), settings()));
        assert!(message.contains("images[0].sentences[3]: caption is missing: `on_missing = \"skip\"`"), "{message}");
    }

    #[test]
    fn every_mistake_is_reported_with_its_location() {
        let set = set(&json!([
            {"filename": "a.jpg", "imgid": 0, "split": "train", "sentences": sentences(0, &["A", " \n"])},
            {"filename": "../b.jpg", "imgid": 1, "split": "dev", "sentences": sentences(2, &["B"])},
            {"filename": "a.jpg", "imgid": 0, "split": "val", "sentences": sentences(0, &["C"])},
            {"filename": "/etc/passwd", "imgid": 4, "split": "val", "sentences": sentences(9, &["D"])},
        ]));
        let folder = folder(&[("set.json", &set), ("images/a.jpg", b""), ("b.jpg", b"")]);
        let message = refused(ingest(folder.path(), settings()));
        for expected in [
            "set.json` has 7 mistakes",
            "images[0].sentences[1]: caption is empty",
            "images[1]: image name `../b.jpg` leads out of the image folder",
            "images[1]: split is `dev`, expected `train`, `restval`, `val` or `test`",
            "images[2]: image id 0 is also that of images[0]",
            "images[2]: image `a.jpg` is also that of images[0]",
            "images[2]: caption id 0 is also that of images[0]",
            "images[3]: image name `/etc/passwd` leads out",
        ] {
            assert!(message.contains(expected), "{expected} is not in\n{message}");
        }
    }

    #[test]
    fn a_damaged_file_is_named_with_line_and_column() {
        let whole = set(&json!([{"filename": "a.jpg", "imgid": 0, "split": "val", "sentences": sentences(0, &["A"])}]));
        let cut = folder(&[("set.json", &whole[..whole.len() - 9]), ("images/a.jpg", b"")]);
        let message = refused(ingest(cut.path(), settings()));
        assert!(message.contains("set.json") && message.contains("cut short"), "{message}");
        let invalid = String::from_utf8(whole).unwrap().replace("\"raw\":\"A\"", "\"raw\":\"?\"").into_bytes();
        let invalid: Vec<u8> = invalid.iter().map(|&byte| if byte == b'?' { 0xff } else { byte }).collect();
        let invalid = folder(&[("set.json", &invalid), ("images/a.jpg", b"")]);
        let message = refused(ingest(invalid.path(), settings()));
        assert!(message.contains("set.json") && message.contains("line 1 column"), "{message}");
        let none = folder(&[("images/a.jpg", b"")]);
        assert!(refused(ingest(none.path(), settings())).contains("set.json"));
    }

    #[test]
    fn the_error_for_another_json_layout_describes_the_wanted_one() {
        for (file, parser) in [
            (&b"[]"[..], "invalid length 0"),
            (b"{\"annotations\": []}", "missing field `images`"),
            (b"{\"images\": [{\"id\": 1}]}", "missing field `filename`"),
        ] {
            let folder = folder(&[("set.json", file), ("images/a.jpg", b"")]);
            let message = refused(ingest(folder.path(), settings()));
            let (expected, rest) = message.split_once(": ").unwrap();
            assert!(expected.contains("set.json` is not an object with the list `images`, each with"), "{message}");
            assert!(rest.starts_with(parser), "{message}");
        }
    }

    #[test]
    fn each_written_batch_is_one_part() {
        let entries: Vec<_> = (0..2500)
            .map(|i| {
                json!({"filename": format!("{i}.jpg"), "imgid": i, "split": "train",
                       "sentences": sentences(5 * i, &["a", "b", "c", "d", "e"])})
            })
            .collect();
        let folder = folder(&[("set.json", &set(&json!(entries)))]);
        std::fs::create_dir(folder.path().join("images")).unwrap();
        for i in 0..2500 {
            std::fs::write(folder.path().join(format!("images/{i}.jpg")), b"").unwrap();
        }
        let host = ingest(folder.path(), settings()).unwrap();
        assert_eq!(
            host.output_tables["images"].iter().map(RecordBatch::num_rows).collect::<Vec<_>>(),
            [1024, 1024, 452]
        );
        let ids: Vec<i64> = captions(&host).iter().map(|caption| caption.0).collect();
        assert_eq!(ids, (0..12500).collect::<Vec<_>>());
    }
}
