//! Reader of the table of pairs that are scored.

use std::collections::{HashMap, HashSet};

use super::split_captions::SplitCaptions;
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Reads the pairs, grouped by image. Images are in the order of `corpus`, the captions of an image in that of the
/// table. A pair that several rows have, such as several ratings, is scored once. If the table has a column `split`, rows
/// of other splits are ignored.
///
/// # Errors
/// The image or caption of a pair is not in the split. The error names all such rows.
pub(super) fn read_pairs(
    cx: &mut StageContext<'_>,
    corpus: &SplitCaptions,
    split: &str,
) -> Result<Vec<(usize, Vec<usize>)>> {
    let index = |ids: &[i64]| ids.iter().enumerate().map(|(i, &id)| (id, i)).collect::<HashMap<_, _>>();
    let (images, captions) = (index(&corpus.image_ids), index(&corpus.caption_ids));
    let mut wanted: Vec<Vec<usize>> = vec![Vec::new(); corpus.image_ids.len()];
    let mut seen: HashSet<(usize, usize)> = HashSet::new();
    let (mut mistakes, mut first_row) = (ValidationErrors::in_table("pairs.table"), 0);
    while let Some(batch) = cx.read_next("pairs.table")? {
        let (image_ids, caption_ids) =
            (tables::int_column(&batch, "image_id")?, tables::int_column(&batch, "caption_id")?);
        // The table may hold several splits, as `captions` does.
        let splits = batch.column_by_name("split").map(|_| tables::text_column(&batch, "split")).transpose()?;
        for row in 0..batch.num_rows() {
            if splits.is_some_and(|splits| splits.value(row) != split) {
                continue;
            }
            let (number, image_id, caption_id) = (first_row + row, image_ids.value(row), caption_ids.value(row));
            let mut problem = |message: String| mistakes.add(format_args!("row {number}"), message);
            match (images.get(&image_id), captions.get(&caption_id)) {
                (Some(&image), Some(&caption)) => {
                    if seen.insert((image, caption)) {
                        wanted[image].push(caption);
                    }
                }
                (None, _) => problem(format!("no image_id {image_id} in split `{split}`")),
                (_, None) => problem(format!("no caption_id {caption_id} in split `{split}`")),
            }
        }
        first_row += batch.num_rows();
    }
    mistakes.hint("captions and pairs must come from the same data set and split");
    mistakes.into_result()?;
    if wanted.iter().all(Vec::is_empty) {
        return Err(Error::data(format!("the table of pairs has no rows of split `{split}`")));
    }
    Ok(wanted.into_iter().enumerate().filter(|(_, captions)| !captions.is_empty()).collect())
}
