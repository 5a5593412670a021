//! The captions of a split, image by image.

use std::collections::{BTreeSet, HashMap};

use crate::error::{Error, Mistakes, Result};
use crate::stage::Cx;
use crate::tables;

/// Captions of one split. Images and captions are numbered from 0: images in order of their first caption, captions image
/// by image and in the order of the table.
#[derive(Debug, Default)]
pub(super) struct Corpus {
    pub image_ids: Vec<i64>,
    pub caption_ids: Vec<i64>,
    pub texts: Vec<String>,
    /// Index of the first caption of each image, and at the end the number of captions.
    pub first_caption: Vec<usize>,
}

impl Corpus {
    /// The image of every caption.
    pub fn image_of(&self) -> Vec<usize> {
        let counts = self.first_caption.windows(2).map(|ends| ends[1] - ends[0]);
        counts.enumerate().flat_map(|(image, count)| std::iter::repeat_n(image, count)).collect()
    }

    /// `function` of every text, on several threads.
    pub fn map_texts<T: Send>(&self, threads: usize, function: impl Fn(&str) -> T + Sync) -> Vec<T> {
        let size = self.texts.len().div_ceil(threads.max(1)).max(1);
        let function = &function;
        std::thread::scope(|scope| {
            let chunks: Vec<_> = self
                .texts
                .chunks(size)
                .map(|chunk| scope.spawn(move || chunk.iter().map(|text| function(text)).collect::<Vec<T>>()))
                .collect();
            chunks
                .into_iter()
                .flat_map(|chunk| chunk.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }
}

/// Reads the captions of these splits, one corpus a split; `train+restval` are the captions of both as one.
///
/// # Errors
/// A caption identifier twice, a split that has no captions, or an image in two splits.
pub(super) fn read<const N: usize>(cx: &mut Cx<'_>, splits: [&str; N]) -> Result<[Corpus; N]> {
    let mut rows: [Vec<(usize, i64, String)>; N] = std::array::from_fn(|_| Vec::new());
    let mut images: [Vec<i64>; N] = std::array::from_fn(|_| Vec::new());
    let mut numbers: HashMap<i64, (usize, usize)> = HashMap::new();
    let mut seen: HashMap<i64, usize> = HashMap::new();
    let (mut mistakes, mut others) = (Mistakes::of_table("captions"), BTreeSet::new());
    let mut first_row = 0;
    while let Some(batch) = cx.next("captions")? {
        let (caption_ids, image_ids) = (tables::ids(&batch, "caption_id")?, tables::ids(&batch, "image_id")?);
        let (split, text) = (tables::texts(&batch, "split")?, tables::texts(&batch, "text")?);
        for row in 0..batch.num_rows() {
            let Some(place) = splits.iter().position(|wanted| wanted.split('+').any(|one| one == split.value(row)))
            else {
                others.insert(split.value(row).to_owned());
                continue;
            };
            let (number, caption_id, image_id) = (first_row + row, caption_ids.value(row), image_ids.value(row));
            if let Some(earlier) = seen.insert(caption_id, number) {
                mistakes.add(
                    format_args!("row {number}"),
                    format_args!("caption_id {caption_id} stands in row {earlier} too"),
                );
            }
            let (of, image) = *numbers.entry(image_id).or_insert_with(|| {
                images[place].push(image_id);
                (place, images[place].len() - 1)
            });
            if of != place {
                let (here, before) = (splits[place], splits[of]);
                let message = format!("image_id {image_id} is in split `{here}` here and in `{before}` before");
                mistakes.add(format_args!("row {number}"), message);
                continue;
            }
            rows[place].push((image, caption_id, text.value(row).to_owned()));
        }
        first_row += batch.num_rows();
    }
    mistakes.finish()?;
    if let Some(place) = rows.iter().position(Vec::is_empty) {
        others.extend((0..N).filter(|&i| !rows[i].is_empty()).map(|i| splits[i].to_owned()));
        let others: Vec<String> = others.iter().map(|name| format!("`{name}`")).collect();
        let there = if others.is_empty() { "no rows at all".to_owned() } else { others.join(", ") };
        return Err(Error::data(format!("no captions of split `{}`; there are {there}", splits[place])));
    }
    let mut images = images.into_iter();
    Ok(rows.map(|rows| arrange(images.next().unwrap_or_default(), rows)))
}

fn arrange(image_ids: Vec<i64>, mut rows: Vec<(usize, i64, String)>) -> Corpus {
    rows.sort_by_key(|&(image, ..)| image);
    let first_caption = (0..=image_ids.len()).map(|image| rows.partition_point(|&(of, ..)| of < image)).collect();
    let mut corpus = Corpus { image_ids, first_caption, ..Corpus::default() };
    for (_, caption_id, text) in rows {
        corpus.caption_ids.push(caption_id);
        corpus.texts.push(text);
    }
    corpus
}
