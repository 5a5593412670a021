//! Reader of `coco`: COCO caption annotations, `captions_train2014.json` and `captions_val2014.json`.
//!
//! Format: <https://cocodataset.org/#format-data>; Chen et al., "Microsoft COCO captions", 2015.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;

use super::Coco;
use super::listed_images::{self, DuplicateFinder, ListedImage, MissingImages};
use super::writer::CaptionCleaner;
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_formats::json;
use pairloom_stage::StageContext;

/// Description of a valid file, for error messages.
const EXPECTED_FORMAT: &str =
    "an object with the lists `images` (`id`, `file_name`) and `annotations` (`id`, `image_id`, `caption`)";

/// Fields of an annotation file that are read.
#[derive(Deserialize)]
struct CocoAnnotations {
    images: Vec<CocoImage>,
    annotations: Vec<CocoCaption>,
}

#[derive(Deserialize)]
struct CocoImage {
    id: i64,
    file_name: String,
}

#[derive(Deserialize)]
struct CocoCaption {
    id: i64,
    image_id: i64,
    caption: Option<String>,
}

/// Location of an entry in one of the files, from 0.
#[derive(Debug, Clone, Copy)]
struct CocoLocation {
    list: &'static str,
    index: usize,
    file: usize,
}

impl fmt::Display for CocoLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { list, index, file } = self;
        write!(f, "files[{file}].{list}[{index}]")
    }
}

/// Reads the files in order and writes their images and captions.
///
/// `image_id` is the COCO id of the image, and `caption_id` is the id of the annotation, which is unique over COCO's
/// files.
pub(super) fn run(settings: &Coco, cx: &mut StageContext<'_>) -> Result<()> {
    let mut seen = DuplicateFinder::new();
    let mut entries = Vec::new();
    for (number, part) in settings.files.iter().enumerate() {
        let split = listed_images::parse_split(&part.split).map_err(Error::usage)?;
        let path = cx.source(&format!("coco.files.{number}.captions"))?;
        let file: CocoAnnotations = json::read_while(&path, EXPECTED_FORMAT, || cx.check_cancelled())?;
        let mut mistakes = ValidationErrors::in_file(&path);
        let mut cleaner = CaptionCleaner::new(settings.on_missing, settings.max_skipped);
        let mut by_id: HashMap<i64, usize> = HashMap::with_capacity(file.images.len());
        for (index, image) in file.images.into_iter().enumerate() {
            let location = CocoLocation { list: "images", index, file: number };
            let path = listed_images::image_path(&part.folder, &image.file_name).unwrap_or_else(|problem| {
                mistakes.add(location, problem);
                format!("{location}")
            });
            seen.check_image(image.id, &path, location, &mut mistakes);
            by_id.insert(image.id, entries.len());
            entries.push(ListedImage {
                image_id: image.id,
                split,
                file_name: image.file_name,
                path,
                place: None,
                captions: Vec::new(),
            });
        }
        for (index, annotation) in file.annotations.into_iter().enumerate() {
            let location = CocoLocation { list: "annotations", index, file: number };
            seen.check_caption(annotation.id, location, &mut mistakes);
            let Some(&image) = by_id.get(&annotation.image_id) else {
                mistakes
                    .add(location, format_args!("caption is for image {}, which is not listed", annotation.image_id));
                continue;
            };
            let captions = &mut entries[image].captions;
            if captions.len() == settings.captions_per_image {
                continue;
            }
            match cleaner.clean(annotation.caption.as_deref(), location) {
                Ok(text) => captions.extend(text.map(|text| (annotation.id, text.to_owned()))),
                Err(problem) => mistakes.add(location, problem),
            }
        }
        mistakes.into_result()?;
        cleaner.finish(cx, &path)?;
    }
    let missing = MissingImages::new(settings.on_missing, settings.max_skipped);
    listed_images::write_existing(cx, &entries, "coco.images", &missing)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{captions, folder, images, ingest, refused};
    use super::super::{Coco, CocoFile, Ingest, OnMissing};
    use pairloom_stage::{SourceRef, Stage};

    fn settings() -> serde_json::Value {
        json!({"coco": {"images": "images", "captions_per_image": 2, "files": [
            {"captions": "train.json", "folder": "train2014", "split": "train"},
            {"captions": "val.json", "folder": "val2014", "split": "test"},
        ]}})
    }

    fn files(train: &serde_json::Value, val: &serde_json::Value) -> tempfile::TempDir {
        folder(&[
            ("train.json", train.to_string().as_bytes()),
            ("val.json", val.to_string().as_bytes()),
            ("images/train2014/a.jpg", b""),
            ("images/train2014/b.jpg", b""),
            ("images/val2014/a.jpg", b""),
        ])
    }

    #[test]
    fn reads_several_files() {
        let train = json!({
            "info": {}, "licenses": [],
            "images": [{"id": 7, "file_name": "b.jpg", "height": 1}, {"id": 5, "file_name": "a.jpg"},
                       {"id": 6, "file_name": "none.jpg"}],
            "annotations": [
                {"image_id": 5, "id": 100, "caption": "A0\n"}, {"image_id": 7, "id": 90, "caption": "B0"},
                {"image_id": 5, "id": 80, "caption": "A1"}, {"image_id": 5, "id": 70, "caption": "A2"},
            ],
        });
        let val = json!({
            "images": [{"id": 1, "file_name": "a.jpg"}],
            "annotations": [{"image_id": 1, "id": 1, "caption": "V"}],
        });
        let host = ingest(files(&train, &val).path(), settings()).unwrap();
        let got: Vec<_> = images(&host).into_iter().map(|(id, split, _, path)| (id, split, path.unwrap())).collect();
        let expected = [(7, "train", "train2014/b.jpg"), (5, "train", "train2014/a.jpg"), (1, "test", "val2014/a.jpg")];
        assert_eq!(got, expected.map(|(id, split, path)| (id, split.to_owned(), path.to_owned())));
        let got: Vec<_> = captions(&host).into_iter().map(|(id, image, _, text)| (id, image, text)).collect();
        let expected = [(90, 7, "B0"), (100, 5, "A0"), (80, 5, "A1"), (1, 1, "V")];
        assert_eq!(got, expected.map(|(id, image, text)| (id, image, text.to_owned())));
        assert_eq!(
            host.warnings.iter().map(|warning| warning.subject.as_str()).collect::<Vec<_>>(),
            ["train2014/none.jpg"]
        );
    }

    #[test]
    fn every_mistake_of_a_file_is_reported() {
        let train = json!({
            "images": [{"id": 5, "file_name": "a.jpg"}],
            "annotations": [{"image_id": 5, "id": 1, "caption": "A"}],
        });
        let val = json!({
            "images": [{"id": 5, "file_name": "a.jpg"}, {"id": 6, "file_name": "../../a.jpg"}],
            "annotations": [{"image_id": 5, "id": 1, "caption": "V"}, {"image_id": 9, "id": 2, "caption": "W"},
                            {"image_id": 5, "id": 3, "caption": ""}],
        });
        let message = refused(ingest(files(&train, &val).path(), settings()));
        for expected in [
            "val.json` has 5 mistakes",
            "files[1].images[0]: image id 5 is also that of files[0].images[0]",
            "files[1].images[1]: image name `val2014/../../a.jpg` leads out of the image folder",
            "files[1].annotations[0]: caption id 1 is also that of files[0].annotations[0]",
            "files[1].annotations[1]: caption is for image 9, which is not listed",
            "files[1].annotations[2]: caption is empty",
        ] {
            assert!(message.contains(expected), "{expected} is not in\n{message}");
        }
    }

    #[test]
    fn empty_captions_can_be_left_out() {
        let train = json!({
            "images": [{"id": 5, "file_name": "a.jpg"}],
            "annotations": [{"image_id": 5, "id": 1, "caption": ""}, {"image_id": 5, "id": 2, "caption": "A"},
                            {"image_id": 5, "id": 3, "caption": "B"}],
        });
        let val = json!({
            "images": [{"id": 6, "file_name": "a.jpg"}],
            "annotations": [{"image_id": 6, "id": 4, "caption": null}, {"image_id": 6, "id": 7, "caption": "V"}],
        });
        let mut settings = settings();
        settings["coco"]["on_missing"] = json!("skip");
        settings["coco"]["max_skipped"] = json!(0.5);
        let host = ingest(files(&train, &val).path(), settings.clone()).unwrap();
        assert_eq!(captions(&host).iter().map(|caption| caption.0).collect::<Vec<_>>(), [2, 3, 7]);
        let warnings: Vec<_> = host.warnings.iter().map(|warning| warning.message.as_str()).collect();
        let expected = [
            "1 of 3 captions are left out: files[0].annotations[0]: caption is empty",
            "1 of 2 captions are left out: files[1].annotations[0]: caption is missing",
        ];
        assert_eq!(warnings, expected);
        settings["coco"]["max_skipped"] = json!(0.4);
        let message = refused(ingest(files(&train, &val).path(), settings));
        assert!(message.starts_with("1 of 2 captions were left out, expected at most 0.4"), "{message}");
    }

    #[test]
    fn settings_are_checked_without_data() {
        let file = CocoFile { captions: SourceRef::new("a.json"), folder: "../up".into(), split: "training".into() };
        let mut set = Coco {
            images: SourceRef::new("images"),
            files: vec![file],
            captions_per_image: 0,
            on_missing: OnMissing::Fail,
            max_skipped: 0.1,
        };
        let wrong = |set: &Coco| -> Vec<String> {
            Ingest::Coco(set.clone()).check().into_iter().map(|problem| problem.setting).collect()
        };
        assert_eq!(wrong(&set), ["coco.captions_per_image", "coco.files.0.split", "coco.files.0.folder"]);
        set.captions_per_image = 5;
        set.files.clear();
        assert_eq!(wrong(&set), ["coco.files"]);
    }
}
