//! Rows of `caption_similarity`.

use std::ops::Range;
use std::sync::Mutex;

use arrow::array::RecordBatch;

use super::corpus::Corpus;
use crate::error::Result;
use crate::kernels::similarity::Similarity;
use crate::stage::{Cx, Mapped, Over};
use crate::tables;

/// Values of a part: what a crash can cost, and what is held a few times at once.
const PART_VALUES: usize = 2_000_000;

/// Which captions each row is about.
#[derive(Debug)]
pub(super) enum Rows {
    /// Every image, with all captions.
    Dense,
    /// Every image, with its best captions.
    Top(usize),
    /// These images, each with these captions.
    Pairs(Vec<(usize, Vec<usize>)>),
}

/// What every row says of how φ was made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label<'t> {
    pub measure: &'static str,
    pub tokenizer: &'t str,
}

/// Writes φ of the pairs of `rows`.
///
/// Memory: what `similarity` holds, and a few parts of two million values.
pub(super) fn write<S: Similarity>(
    cx: &mut Cx<'_>,
    corpus: &Corpus,
    similarity: &S,
    rows: &Rows,
    label: Label<'_>,
) -> Result<()> {
    let (count, values) = match rows {
        Rows::Dense => (corpus.image_ids.len(), corpus.caption_ids.len()),
        Rows::Top(m) => (corpus.image_ids.len(), *m),
        Rows::Pairs(pairs) => (pairs.len(), pairs.iter().map(|(_, captions)| captions.len()).max().unwrap_or(1)),
    };
    let size = (PART_VALUES / values.max(1)).clamp(1, 1024);
    // Threads come and go with blocks; what they work with stays.
    let idle: Mutex<Vec<S::Scratch>> = Mutex::default();
    cx.map(Over::Numbers(count), "caption_similarity", size, &|numbers| {
        let mut scratch = lock(&idle).pop().unwrap_or_default();
        let batch = block(corpus, similarity, rows, label, numbers.range.clone(), &mut scratch)?;
        lock(&idle).push(scratch);
        Ok(Mapped { batch, warnings: vec![] })
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn block<S: Similarity>(
    corpus: &Corpus,
    similarity: &S,
    rows: &Rows,
    label: Label<'_>,
    range: Range<usize>,
    scratch: &mut S::Scratch,
) -> Result<RecordBatch> {
    let n_rows = range.len();
    let (mut image_ids, mut caption_ids, mut values) = (Vec::with_capacity(n_rows), Vec::new(), Vec::new());
    let mut lengths = Vec::with_capacity(n_rows);
    for row in range {
        let before = values.len();
        let image = match rows {
            Rows::Dense => {
                values.resize(before + corpus.caption_ids.len(), 0.0);
                similarity.row(row, scratch, &mut values[before..]);
                caption_ids.extend_from_slice(&corpus.caption_ids);
                row
            }
            Rows::Top(m) => {
                for (caption, value) in similarity.top(row, *m, scratch) {
                    caption_ids.push(corpus.caption_ids[caption]);
                    values.push(single(value));
                }
                row
            }
            Rows::Pairs(pairs) => {
                let (image, captions) = &pairs[row];
                for &caption in captions {
                    caption_ids.push(corpus.caption_ids[caption]);
                    values.push(single(similarity.pair(*image, caption)));
                }
                *image
            }
        };
        image_ids.push(corpus.image_ids[image]);
        lengths.push(values.len() - before);
    }
    tables::caption_similarity::batch(image_ids, &lengths, caption_ids, values, label.measure, label.tokenizer)
}

#[expect(clippy::cast_possible_truncation, reason = "tables hold f32")]
fn single(value: f64) -> f32 {
    value as f32
}
