//! `*_precomp` folder, as published with VSE++ (Faghri et al., BMVC 2018) and read by the code of many later models.
//!
//! `{train,dev,test}_ims.npy` has a row for each image, `_caps.txt` five lines for each of them, in the same order, and
//! `_ids.txt` a line for each image. Of more than five captions, as some images of COCO have, the first five are written,
//! as in the published folders.

use std::collections::HashMap;

use arrow::array::RecordBatch;

use super::npy::{ArrayWriter, write_lines};
use super::{ExportSource, NewFolder};
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_tables as tables;

/// Number of captions of an image that loaders of such folders take for granted.
const CAPTIONS_PER_IMAGE: usize = 5;

/// Names in the folder, and the splits that they hold.
const SPLITS: [(&str, &[&str]); 3] = [("train", &["train", "restval"]), ("dev", &["val"]), ("test", &["test"])];

/// Images of one split.
struct SplitImages {
    name: &'static str,
    ids: Vec<i64>,
    array: Option<ArrayWriter>,
}

/// Writes the images of `source` with their `captions`. Returns the number of images.
///
/// # Errors
/// An image has less than five captions, a caption has several lines, a split has no name in such folders, or the folder cannot
/// be written.
pub(super) fn write_precomp(
    source: &ExportSource<'_>,
    captions: &ExportSource<'_>,
    folder: &mut NewFolder,
) -> Result<usize> {
    let mut splits = SPLITS.map(|(name, _)| SplitImages { name, ids: Vec::new(), array: None });
    for batch in source.batches()? {
        let batch = batch?;
        for (row, &id) in source.ids(&batch)?.iter().enumerate() {
            splits[split_of(source, &batch, row)?].ids.push(id);
        }
    }
    let images = splits.iter().map(|split| split.ids.len()).sum();
    if images == 0 {
        return Err(source.has_no_rows());
    }
    let texts = read_captions(captions)?;
    check_captions(&splits, &texts, captions)?;
    for batch in source.batches()? {
        let batch = batch?;
        let vectors = source.vectors(&batch)?;
        let size = vectors.shape.iter().product::<usize>().max(1);
        for (row, values) in vectors.values.chunks_exact(size).enumerate() {
            let split = &mut splits[split_of(source, &batch, row)?];
            let array = match &mut split.array {
                Some(array) => array,
                None => {
                    let name = format!("{}_ims.npy", split.name);
                    split.array.insert(ArrayWriter::create(folder, &name, split.ids.len(), &vectors.shape)?)
                }
            };
            array.append(values)?;
        }
    }
    for SplitImages { name, ids, array } in splits {
        let Some(array) = array else { continue };
        array.finish()?;
        let lines = ids.iter().flat_map(|id| texts.get(id).into_iter().flatten().take(CAPTIONS_PER_IMAGE));
        write_lines(folder, &format!("{name}_caps.txt"), lines)?;
        write_lines(folder, &format!("{name}_ids.txt"), &ids)?;
    }
    Ok(images)
}

/// Place in [`SPLITS`] of the split of a row.
fn split_of(source: &ExportSource<'_>, batch: &RecordBatch, row: usize) -> Result<usize> {
    let split = tables::text_column(batch, "split")?.value(row);
    SPLITS.iter().position(|(_, splits)| splits.contains(&split)).ok_or_else(|| {
        let place = format!("`{}.{}`", source.stage(), source.table());
        Error::usage(format!("{place} has the split `{split}`, expected `train`, `restval`, `val` and `test` only"))
            .hint("`--split` exports one of them")
    })
}

/// Texts of the captions of each image, in the order of the table.
fn read_captions(captions: &ExportSource<'_>) -> Result<HashMap<i64, Vec<String>>> {
    let mut texts: HashMap<i64, Vec<String>> = HashMap::new();
    for batch in captions.batches()? {
        let batch = batch?;
        let images = tables::int_column(&batch, "image_id")?;
        let all = tables::text_column(&batch, "text")?;
        for (image, text) in images.values().iter().zip(all.iter().flatten()) {
            texts.entry(*image).or_default().push(text.to_owned());
        }
    }
    Ok(texts)
}

fn check_captions(
    splits: &[SplitImages],
    texts: &HashMap<i64, Vec<String>>,
    captions: &ExportSource<'_>,
) -> Result<()> {
    let mut mistakes = ValidationErrors::in_table(&format!("{}.{}", captions.stage(), captions.table()));
    for &image in splits.iter().flat_map(|split| &split.ids) {
        let image_texts = texts.get(&image).map_or(&[][..], Vec::as_slice);
        if image_texts.len() < CAPTIONS_PER_IMAGE {
            let message = format!(
                "got {} captions, expected {CAPTIONS_PER_IMAGE}, as readers of such folders do",
                image_texts.len()
            );
            mistakes.add(format_args!("image {image}"), message);
        }
        if image_texts.iter().any(|text| text.contains(['\n', '\r'])) {
            mistakes.add(format_args!("image {image}"), "a caption has several lines, expected one");
        }
    }
    mistakes.into_result()
}
