//! `hugging_face`: Parquet or Arrow files with a column of images and one of captions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use arrow::array::{Array, RecordBatch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::image_folder::ImageSplit;
use super::picture_rows::{PictureRows, PictureSample};
use super::{OnMissing, default_max_skipped, is_default_max_skipped, max_skipped_problem};
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_formats::table_file::{ColumnKind, TableFile, integers, pictures, text_lists, texts};
use pairloom_formats::tar_samples::MAX_MEMBER_BYTES;
use pairloom_images::image::extension;
use pairloom_stage::{Problem, SourceRef, StageContext, StageInput};
use pairloom_storage::bounded;

/// Parquet or Arrow files in the form of Hugging Face's data sets: one image a row, as bytes or as the struct of `bytes` and
/// `path` of the feature `Image`, with a caption or a list of captions. An image has at most 16 MiB. The images become part
/// of the store.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HuggingFace {
    /// Folder with the files (`.parquet`, `.arrow`), which are read in the order of their names, or one file. Of a folder that
    /// `save_to_disk` wrote, the files that its `state.json` lists are read.
    pub files: SourceRef,
    /// Column of the images.
    #[serde(default = "default_image")]
    pub image: String,
    /// Column of the captions: texts or lists of texts.
    #[serde(default = "default_caption")]
    pub caption: String,
    /// Column of the identifiers of the images, whole numbers; without it images are numbered from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Split of the images: a name for all, `{ column = "split" }` for a column, or
    /// `{ fractions = { val = 0.1, test = 0.1 } }` for a random split by the name of the image.
    pub split: ImageSplit,
    /// Treatment of rows without an image, without captions or without an identifier, of images over 16 MiB, and of captions
    /// that are empty or null beside others.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Largest share of the rows that `on_missing = "skip"` may leave out.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
}

fn default_image() -> String {
    "image".to_owned()
}

fn default_caption() -> String {
    "caption".to_owned()
}

impl HuggingFace {
    pub(super) fn inputs(&self) -> Vec<StageInput> {
        vec![StageInput::source("hugging_face.files", &self.files)]
    }

    pub(super) fn check(&self) -> Vec<Problem> {
        let mut problems = self.split.problems("hugging_face");
        problems.extend(max_skipped_problem("hugging_face", self.on_missing, self.max_skipped));
        problems
    }
}

/// Largest `state.json`, which has some 50 bytes for each file.
const MAX_STATE_BYTES: u64 = 16 << 20;

/// Endings of the names of tables.
const TABLES: [&str; 2] = [".parquet", ".arrow"];

/// Reads the files and writes the images and captions of all rows, in their order.
pub(super) fn run(settings: &HuggingFace, cx: &mut StageContext<'_>) -> Result<()> {
    let mut rows = PictureRows::new(&settings.split, settings.on_missing, settings.max_skipped);
    let split = settings.split.column();
    for path in table_files(cx)? {
        let file = TableFile::open(&path)?;
        let mut columns = vec![
            (settings.image.as_str(), ColumnKind::Pictures),
            (settings.caption.as_str(), ColumnKind::TextsOrLists),
        ];
        columns.extend(settings.image_id.as_deref().map(|name| (name, ColumnKind::Integers)));
        columns.extend(split.map(|name| (name, ColumnKind::Texts)));
        file.check_columns(&columns, "name them with `image`, `caption` and `image_id`")?;
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let mut mistakes = ValidationErrors::in_file(&path);
        let mut number = 0;
        let cancel = cx.cancel().clone();
        for batch in file.batches(&names, || cancel.check())? {
            push_batch(settings, split, &batch?, &mut number, &mut rows, &mut mistakes, cx)?;
        }
        mistakes.into_result().map_err(|error| rows.unknown_splits.counted(error))?;
    }
    rows.finish(cx)
}

/// Files with rows, in their order. Of a folder with a `state.json` these are the ones that it lists; what `map` and `filter`
/// leave beside them (`cache-*.arrow`) has the same rows again.
fn table_files(cx: &StageContext<'_>) -> Result<Vec<PathBuf>> {
    let source = cx.source("hugging_face.files")?;
    let mut files = Vec::new();
    // True for folders with a list.
    let mut folders = HashMap::new();
    for path in cx.source_files("hugging_face.files", &TABLES)? {
        let Some(folder) = path.parent().filter(|_| path != source) else {
            files.push(path);
            continue;
        };
        if !folders.contains_key(folder) {
            let listed = listed_files(folder)?;
            folders.insert(folder.to_owned(), listed.is_some());
            files.extend(listed.into_iter().flatten());
        }
        if folders[folder] {
            continue;
        }
        if is_cache(&path) {
            let message = format!("`{}` has the name of a file that `map` of `datasets` leaves", path.display());
            return Err(Error::data(message)
                .hint("it has the rows of other files again: remove it, or name the one file to read with `files`"));
        }
        files.push(path);
    }
    Ok(files)
}

fn is_cache(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("cache-") && name.ends_with(".arrow")
}

/// Files that the `state.json` of a folder lists; `None` if it has none, or one of something else.
fn listed_files(folder: &Path) -> Result<Option<Vec<PathBuf>>> {
    let path = folder.join("state.json");
    if !path.is_file() {
        return Ok(None);
    }
    let wrong = |message: &str| Error::data(format!("`{}`: {message}", path.display()));
    let state: Value = serde_json::from_slice(&bounded::read(&path, MAX_STATE_BYTES)?)
        .map_err(|error| wrong(&format!("it is no JSON: {error}")))?;
    let Some(files) = state.get("_data_files").and_then(Value::as_array) else { return Ok(None) };
    if state.get("_indices_data_files").and_then(Value::as_array).is_some_and(|files| !files.is_empty()) {
        return Err(wrong("its rows are chosen by a file of indices, which is not read").hint(
            "write the folder again with a newer version of `datasets`: `load_from_disk(old).save_to_disk(new)`",
        ));
    }
    let files = files.iter().map(|file| {
        // A name, so that nothing is read outside of the folder.
        let name = file.get("filename").and_then(Value::as_str).filter(|name| !name.contains('/'));
        name.map(|name| folder.join(name)).ok_or_else(|| wrong("`_data_files` has an entry without the name of a file"))
    });
    files.collect::<Result<_>>().map(Some)
}

/// Writes the rows of a batch, which begins at row `number` of its file.
fn push_batch(
    settings: &HuggingFace,
    split: Option<&str>,
    batch: &RecordBatch,
    number: &mut u64,
    rows: &mut PictureRows<'_>,
    mistakes: &mut ValidationErrors,
    cx: &mut StageContext<'_>,
) -> Result<()> {
    let images = pictures(batch, &settings.image)?;
    let lists = text_lists(batch, &settings.caption)?;
    let single = if lists.is_none() { Some(texts(batch, &settings.caption)?) } else { None };
    let splits = split.map(|name| texts(batch, name)).transpose()?;
    let ids = settings.image_id.as_deref().map(|name| integers(batch, name)).transpose()?;
    for row in 0..batch.num_rows() {
        let place = format!("row {number}");
        *number += 1;
        let picture = images.get(row);
        let refused = match picture {
            Some(bytes) if bytes.len() as u64 > MAX_MEMBER_BYTES => {
                Some(format!("its image has {} bytes, expected at most {MAX_MEMBER_BYTES}", bytes.len()))
            }
            _ if ids.as_ref().is_some_and(|ids| ids.is_null(row)) => {
                Some(format!("its identifier is missing or above {}", i64::MAX))
            }
            _ => None,
        };
        if let Some(reason) = refused {
            if let Err(message) = rows.refuse(&place, &reason, cx) {
                mistakes.add(place, message);
            }
            continue;
        }
        let own = || format!("{:09}.{}", rows.count(), picture.and_then(extension).unwrap_or("img"));
        let name = images.path(row).map_or_else(own, str::to_owned);
        let texts = match (&lists, &single) {
            (Some(lists), _) => lists.get(row).unwrap_or_default(),
            (None, single) => single.iter().map(|texts| texts.get(row)).collect(),
        };
        let sample = PictureSample {
            name: &name,
            file_name: &name,
            split: splits.as_ref().and_then(|splits| splits.get(row)),
            picture,
            texts,
            expected: "",
            image_id: ids.as_ref().map(|ids| ids.value(row)),
            caption_ids: None,
        };
        if let Err(message) = rows.push(sample, cx)? {
            mistakes.add(place, message);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    // Tests of `hugging_face`, on files that `tests/golden/hugging_face.py` wrote in the form of the library `datasets`.

    use serde_json::json;

    use super::super::testing::{captions, encoded_images, folder, images, ingest, refused};

    /// Folder with the golden files: two with lists of captions, and one with a single caption and an image without bytes.
    fn golden() -> tempfile::TempDir {
        let read = |name: &str| std::fs::read(test_data::root().join("tests/golden").join(name)).unwrap();
        let [first, second, single] =
            ["first", "second", "single"].map(|name| read(&format!("hugging_face_{name}.parquet")));
        folder(&[("lists/0.parquet", &first), ("lists/1.parquet", &second), ("single.parquet", &single)])
    }

    #[test]
    fn rows_of_all_files_are_read_in_order() {
        let data = golden();
        let settings = json!({"hugging_face": {"files": "lists", "caption": "captions", "image_id": "id", "split": {"column": "split"}}});
        let host = ingest(data.path(), settings).unwrap();
        let row = |id: i64, split: &str, name: &str| (id, split.to_owned(), name.to_owned(), None);
        assert_eq!(
            images(&host),
            [row(30, "train", "a b.jpg"), row(10, "val", "ä.png"), row(20, "test", "000000002.png")]
        );
        let pictures = encoded_images(&host);
        let sizes: Vec<_> = pictures.iter().map(|bytes| pairloom_images::image::image_size(bytes).unwrap()).collect();
        assert_eq!(sizes, [(5, 4), (3, 2), (1, 6)]);
        let texts: Vec<_> = captions(&host).into_iter().map(|(id, image, _, text)| (id, image, text)).collect();
        let expected = [(0, 30, "one"), (1, 30, "two"), (2, 10, "three"), (3, 20, "four"), (4, 20, "five — é")];
        assert_eq!(texts, expected.map(|(id, image, text)| (id, image, text.to_owned())));
    }

    #[test]
    fn a_row_without_an_image_is_refused_or_left_out() {
        let data = golden();
        let settings = |more: serde_json::Value| {
            let mut form = json!({"files": "single.parquet", "split": "train"});
            form.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"hugging_face": form})
        };
        let error = refused(ingest(data.path(), settings(json!({}))));
        assert!(error.contains("row 1: it has no image"), "{error}");
        let host = ingest(data.path(), settings(json!({"on_missing": "skip", "max_skipped": 0.5}))).unwrap();
        assert_eq!((encoded_images(&host).len(), host.warnings.len()), (1, 1));
        let error = refused(ingest(data.path(), settings(json!({"image": "caption", "caption": "text"}))));
        for expected in [
            "column `caption`: is Utf8, expected bytes, or a struct of `bytes` and `path`",
            "column `text`: is not there",
        ] {
            assert!(error.contains(expected), "{error}");
        }
    }

    /// Table of images with lists of captions, the first ones with nulls and empty texts.
    fn lists_with_nulls() -> Vec<u8> {
        use arrow::array::{BinaryArray, ListBuilder, RecordBatch, StringBuilder};
        let mut captions = ListBuilder::new(StringBuilder::new());
        captions.append_value([Some("c"), None]);
        captions.append_value([None::<&str>, Some(" ")]);
        captions.append_value([Some("d")]);
        let images = BinaryArray::from(vec![b"A".as_slice(), b"B", b"C"]);
        let columns: Vec<(&str, arrow::array::ArrayRef)> =
            vec![("image", std::sync::Arc::new(images)), ("caption", std::sync::Arc::new(captions.finish()))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut bytes = Vec::new();
        let mut writer = arrow::ipc::writer::FileWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        bytes
    }

    #[test]
    fn a_null_beside_a_caption_is_left_out_alone() {
        let data = folder(&[("x.arrow", &lists_with_nulls())]);
        let settings = |policy: &str| {
            let share = if policy == "skip" { 0.5 } else { 0.1 };
            json!({"hugging_face": {"files": "x.arrow", "split": "train", "on_missing": policy, "max_skipped": share}})
        };
        let host = ingest(data.path(), settings("skip")).unwrap();
        assert_eq!(encoded_images(&host), [b"A", b"C"]);
        let texts: Vec<_> = captions(&host).into_iter().map(|(id, image, _, text)| (id, image, text)).collect();
        assert_eq!(texts, [(0, 0, "c".to_owned()), (1, 1, "d".to_owned())]);
        let warnings: Vec<_> = host.warnings.iter().map(|warning| warning.message.as_str()).collect();
        assert_eq!(warnings, ["left out: caption 2 of 2 is empty", "sample left out: its captions are empty"]);
        let error = ingest(data.path(), json!({"hugging_face": {"files": "x.arrow", "split": "train"}}));
        let error = refused(error);
        assert!(error.contains("row 0: caption 2 of 2 is empty: `on_missing"), "{error}");
        assert!(error.contains("row 1: its captions are empty: `on_missing"), "{error}");
    }

    /// The folder that `save_to_disk` of `datasets` 4 writes, with what a later `map` leaves there.
    #[test]
    fn of_a_saved_folder_the_files_of_its_state_are_read() {
        let rows = lists_with_nulls();
        let state =
            br#"{"_data_files": [{"filename": "data-00001-of-00002.arrow"}, {"filename": "data-00000-of-00002.arrow"}],
            "_fingerprint": "9790136ce591eae3", "_split": null}"#;
        let named = |state: &[u8]| {
            let files = ["cache-14b38bcbd45c474b", "data-00000-of-00002", "data-00001-of-00002"];
            let mut files = files.map(|name| (format!("d/train/{name}.arrow"), rows.as_slice())).to_vec();
            if !state.is_empty() {
                files.push(("d/train/state.json".to_owned(), state));
            }
            files.push(("d/other.arrow".to_owned(), rows.as_slice()));
            folder(&files.iter().map(|(name, content)| (name.as_str(), *content)).collect::<Vec<_>>())
        };
        let read = |state: &[u8], files: &str| {
            let form = json!({"files": files, "split": "train", "on_missing": "skip", "max_skipped": 0.5});
            ingest(named(state).path(), json!({"hugging_face": form}))
        };
        // Two rows of each file have captions.
        assert_eq!(images(&read(state, "d/train").unwrap()).len(), 4);
        assert_eq!(images(&read(state, "d").unwrap()).len(), 6);
        assert_eq!(images(&read(state, "d/train/cache-14b38bcbd45c474b.arrow").unwrap()).len(), 2);
        let error = refused(read(b"", "d/train"));
        assert!(error.contains("cache-14b38bcbd45c474b.arrow` has the name of a file that `map`"), "{error}");
        for (state, message) in [
            (&b"{"[..], "state.json`: it is no JSON"),
            (br#"{"_data_files": [{"filename": "../other.arrow"}]}"#, "an entry without the name of a file"),
            (
                br#"{"_data_files": [], "_indices_data_files": [{"filename": "i.arrow"}]}"#,
                "chosen by a file of indices",
            ),
        ] {
            let error = refused(read(state, "d/train"));
            assert!(error.contains(message), "{error}");
        }
    }
}
