//! Captions of a split, grouped by image.

use std::collections::{BTreeSet, HashMap};

use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_base::runtime::Resources;
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Captions of one split. Images and captions are numbered from 0: images in the order of their first caption, captions
/// image by image and in the order of the table.
#[derive(Debug, Default)]
pub(super) struct SplitCaptions {
    pub image_ids: Vec<i64>,
    pub caption_ids: Vec<i64>,
    pub texts: Vec<String>,
    /// Index of the first caption of each image, followed by the number of captions.
    pub first_caption: Vec<usize>,
}

impl SplitCaptions {
    /// Returns the image of every caption.
    pub fn image_of(&self) -> Vec<usize> {
        let counts = self.first_caption.windows(2).map(|ends| ends[1] - ends[0]);
        counts.enumerate().flat_map(|(image, count)| std::iter::repeat_n(image, count)).collect()
    }

    /// Applies `function` to every text, on the threads of the stage.
    ///
    /// # Errors
    /// The run was cancelled.
    pub fn parallel_map<T: Send>(&self, resources: &Resources, function: impl Fn(&str) -> T + Sync) -> Result<Vec<T>> {
        let size = self.texts.len().div_ceil(resources.threads.max(1)).max(1);
        let mapped = |text: &String| resources.cancel.check().map(|()| function(text));
        let mapped = &mapped;
        std::thread::scope(|scope| {
            let chunks: Vec<_> = self
                .texts
                .chunks(size)
                .map(|chunk| scope.spawn(move || chunk.iter().map(mapped).collect::<Result<Vec<T>>>()))
                .collect();
            let mut all = Vec::with_capacity(self.texts.len());
            for chunk in chunks {
                all.extend(chunk.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(all)
        })
    }
}

/// Reads the captions of each of these splits. `train+restval` is a split of the captions of both.
///
/// # Errors
/// A caption identifier occurs twice, a split has no captions, or an image is in two splits.
pub(super) fn read_splits<const N: usize>(cx: &mut StageContext<'_>, splits: [&str; N]) -> Result<[SplitCaptions; N]> {
    let mut rows: [Vec<(usize, i64, String)>; N] = std::array::from_fn(|_| Vec::new());
    let mut images: [Vec<i64>; N] = std::array::from_fn(|_| Vec::new());
    let mut numbers: HashMap<i64, (usize, usize)> = HashMap::new();
    let mut seen: HashMap<i64, usize> = HashMap::new();
    let (mut mistakes, mut others) = (ValidationErrors::in_table("captions"), BTreeSet::new());
    let mut first_row = 0;
    while let Some(batch) = cx.read_next("captions")? {
        let (caption_ids, image_ids) =
            (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
        let (split, text) = (tables::text_column(&batch, "split")?, tables::text_column(&batch, "text")?);
        for row in 0..batch.num_rows() {
            let Some(index) = splits.iter().position(|wanted| wanted.split('+').any(|one| one == split.value(row)))
            else {
                others.insert(split.value(row).to_owned());
                continue;
            };
            let (number, caption_id, image_id) = (first_row + row, caption_ids.value(row), image_ids.value(row));
            if let Some(earlier) = seen.insert(caption_id, number) {
                mistakes.add(
                    format_args!("row {number}"),
                    format_args!("caption_id {caption_id} is also in row {earlier}"),
                );
            }
            let (first_index, image) = *numbers.entry(image_id).or_insert_with(|| {
                images[index].push(image_id);
                (index, images[index].len() - 1)
            });
            if first_index != index {
                let (here, before) = (splits[index], splits[first_index]);
                let message = format!("image_id {image_id} is in split `{here}` here and in `{before}` before");
                mistakes.add(format_args!("row {number}"), message);
                continue;
            }
            rows[index].push((image, caption_id, text.value(row).to_owned()));
        }
        first_row += batch.num_rows();
    }
    mistakes.into_result()?;
    if let Some(empty) = rows.iter().position(Vec::is_empty) {
        others.extend((0..N).filter(|&i| !rows[i].is_empty()).map(|i| splits[i].to_owned()));
        let others: Vec<String> = others.iter().map(|name| format!("`{name}`")).collect();
        let there = if others.is_empty() { "no rows at all".to_owned() } else { others.join(", ") };
        return Err(Error::data(format!("no captions of split `{}`; there are {there}", splits[empty])));
    }
    let mut images = images.into_iter();
    Ok(rows.map(|rows| group_by_image(images.next().unwrap_or_default(), rows)))
}

fn group_by_image(image_ids: Vec<i64>, mut rows: Vec<(usize, i64, String)>) -> SplitCaptions {
    rows.sort_by_key(|&(image, ..)| image);
    let first_caption = (0..=image_ids.len()).map(|image| rows.partition_point(|&(of, ..)| of < image)).collect();
    let mut corpus = SplitCaptions { image_ids, first_caption, ..SplitCaptions::default() };
    for (_, caption_id, text) in rows {
        corpus.caption_ids.push(caption_id);
        corpus.texts.push(text);
    }
    corpus
}
