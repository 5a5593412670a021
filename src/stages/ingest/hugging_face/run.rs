//! Reader of `hugging_face`.

use arrow::array::{Array, RecordBatch};

use super::super::image_folder::ImageSplit;
use super::super::picture_rows::{PictureRows, PictureSample};
use super::HuggingFace;
use pairloom_base::error::{Result, ValidationErrors};
use pairloom_formats::table_file::{ColumnKind, TableFile, integers, pictures, text_lists, texts};
use pairloom_formats::tar_samples::MAX_MEMBER_BYTES;
use pairloom_images::image::extension;
use pairloom_stage::StageContext;

/// Endings of the names of tables.
const TABLES: [&str; 2] = [".parquet", ".arrow"];

/// Reads the files and writes the images and captions of all rows, in their order.
pub(in super::super) fn run(settings: &HuggingFace, cx: &mut StageContext<'_>) -> Result<()> {
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
                Some(format!("its image has {} bytes, wanted at most {MAX_MEMBER_BYTES}", bytes.len()))
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
