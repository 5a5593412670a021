//! The pairs that a table asks for, image by image.

use std::collections::HashMap;

use super::corpus::Corpus;
use crate::error::{Error, Mistakes, Result};
use crate::stage::Cx;
use crate::tables;

/// For each image of `corpus` that the table names, in the order of the corpus: the image and its captions, in the order
/// of the table.
///
/// # Errors
/// A pair whose image or caption is not in the split, or that stands there twice: all such are named. Rows of a table with
/// a column `split` that are of another split are passed over.
pub(super) fn read(cx: &mut Cx<'_>, corpus: &Corpus, split: &str) -> Result<Vec<(usize, Vec<usize>)>> {
    let index = |ids: &[i64]| ids.iter().enumerate().map(|(i, &id)| (id, i)).collect::<HashMap<_, _>>();
    let (images, captions) = (index(&corpus.image_ids), index(&corpus.caption_ids));
    let mut wanted: Vec<Vec<usize>> = vec![Vec::new(); corpus.image_ids.len()];
    let mut seen: HashMap<(usize, usize), usize> = HashMap::new();
    let (mut mistakes, mut first_row) = (Mistakes::of_table("form.pairs"), 0);
    while let Some(batch) = cx.next("form.pairs")? {
        let (image_ids, caption_ids) = (tables::ids(&batch, "image_id")?, tables::ids(&batch, "caption_id")?);
        // A table of several splits, such as `captions`, asks for this one.
        let splits = batch.column_by_name("split").map(|_| tables::texts(&batch, "split")).transpose()?;
        for row in 0..batch.num_rows() {
            if splits.is_some_and(|splits| splits.value(row) != split) {
                continue;
            }
            let (number, image_id, caption_id) = (first_row + row, image_ids.value(row), caption_ids.value(row));
            let mut problem = |what: String| mistakes.add(format_args!("row {number}"), what);
            match (images.get(&image_id), captions.get(&caption_id)) {
                (Some(&image), Some(&caption)) => match seen.insert((image, caption), number) {
                    Some(earlier) => {
                        problem(format!(
                            "image_id {image_id} with caption_id {caption_id} stands in row {earlier} too"
                        ));
                    }
                    None => wanted[image].push(caption),
                },
                (None, _) => problem(format!("no image_id {image_id} in split `{split}`")),
                (_, None) => problem(format!("no caption_id {caption_id} in split `{split}`")),
            }
        }
        first_row += batch.num_rows();
    }
    mistakes.hint("captions and pairs must come from the same data set and split");
    mistakes.finish()?;
    if wanted.iter().all(Vec::is_empty) {
        return Err(Error::data(format!("the table of pairs has no rows of split `{split}`")));
    }
    Ok(wanted.into_iter().enumerate().filter(|(_, captions)| !captions.is_empty()).collect())
}
