//! `hugging_face`: Parquet or Arrow files with a column of images and one of captions.

use arrow::array::{Array, RecordBatch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::image_folder::ImageSplit;
use super::picture_rows::{PictureRows, PictureSample};
use super::{OnMissing, default_max_skipped, is_default_max_skipped, max_skipped_problem};
use pairloom_base::error::{Result, ValidationErrors};
use pairloom_formats::table_file::{ColumnKind, TableFile, integers, pictures, text_lists, texts};
use pairloom_formats::tar_samples::MAX_MEMBER_BYTES;
use pairloom_images::image::extension;
use pairloom_stage::{Problem, SourceRef, StageContext, StageInput};

/// Parquet or Arrow files in the form of Hugging Face's data sets: one image a row, as bytes or as the struct of `bytes` and
/// `path` of the feature `Image`, with a caption or a list of captions. An image has at most 16 MiB. The images become part
/// of the store.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HuggingFace {
    /// Folder with the files (`.parquet`, `.arrow`), which are read in the order of their names, or one file.
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
    /// Treatment of rows without an image, without captions or without an identifier, and of images over 16 MiB.
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

/// Endings of the names of tables.
const TABLES: [&str; 2] = [".parquet", ".arrow"];

/// Reads the files and writes the images and captions of all rows, in their order.
pub(super) fn run(settings: &HuggingFace, cx: &mut StageContext<'_>) -> Result<()> {
    let mut rows = PictureRows::new(&settings.split, settings.on_missing, settings.max_skipped);
    let split = match &settings.split {
        ImageSplit::Column(name) => Some(name.as_str()),
        _ => None,
    };
    for path in cx.source_files("hugging_face.files", &TABLES)? {
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
        mistakes.into_result()?;
    }
    rows.finish(cx)
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
                Some("its identifier is missing, or too large".to_owned())
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
            (None, single) => single.iter().filter_map(|texts| texts.get(row)).collect(),
        };
        let sample = PictureSample {
            name: &name,
            file_name: &name,
            split: splits.as_ref().and_then(|splits| splits.get(row)),
            picture,
            texts,
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
}
