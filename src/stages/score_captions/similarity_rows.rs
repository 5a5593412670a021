//! Writer of `caption_similarity`.

use std::ops::Range;
use std::sync::Mutex;

use arrow::array::RecordBatch;

use super::split_captions::SplitCaptions;
use pairloom_base::error::Result;
use pairloom_base::runtime::CancelToken;
use pairloom_kernels::caption_similarity::CaptionSimilarity;
use pairloom_stage::{MapInput, MapOutput, StageContext};
use pairloom_tables as tables;

/// Maximum number of values of a part. A crash costs at most one part of work, and a few parts are in memory at once.
const PART_VALUES: usize = 2_000_000;

/// Pairs that are scored.
#[derive(Debug)]
pub(super) enum SelectedPairs {
    /// Every image with all captions.
    Dense,
    /// Every image with this number of captions of the largest φ.
    Top(usize),
    /// Given images, each with the given captions.
    Pairs(Vec<(usize, Vec<usize>)>),
}

/// Measure and tokeniser of φ, which every row names.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeasureInfo<'t> {
    pub measure: &'static str,
    pub tokenizer: &'t str,
}

/// Writes φ of the selected pairs.
///
/// Memory: `similarity`, and a few parts of two million values.
pub(super) fn write_similarities<S: CaptionSimilarity>(
    cx: &mut StageContext<'_>,
    corpus: &SplitCaptions,
    similarity: &S,
    selected: &SelectedPairs,
    info: MeasureInfo<'_>,
) -> Result<()> {
    let (count, values) = match selected {
        SelectedPairs::Dense => (corpus.image_ids.len(), corpus.caption_ids.len()),
        SelectedPairs::Top(m) => (corpus.image_ids.len(), *m),
        SelectedPairs::Pairs(pairs) => {
            (pairs.len(), pairs.iter().map(|(_, captions)| captions.len()).max().unwrap_or(1))
        }
    };
    let size = (PART_VALUES / values.max(1)).clamp(1, 1024);
    let cancel = cx.cancel().clone();
    // Scratch memory is reused by later blocks, on any thread.
    let idle: Mutex<Vec<S::Scratch>> = Mutex::default();
    cx.map(MapInput::Range(count), "caption_similarity", size, &|numbers| {
        let mut scratch = lock(&idle).pop().unwrap_or_default();
        let range = numbers.range.clone();
        let batch = similarity_batch(corpus, similarity, selected, info, range, &mut scratch, &cancel)?;
        lock(&idle).push(scratch);
        Ok(MapOutput::new(batch))
    })?;
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn similarity_batch<S: CaptionSimilarity>(
    corpus: &SplitCaptions,
    similarity: &S,
    selected: &SelectedPairs,
    info: MeasureInfo<'_>,
    range: Range<usize>,
    scratch: &mut S::Scratch,
    cancel: &CancelToken,
) -> Result<RecordBatch> {
    let n_rows = range.len();
    let (mut image_ids, mut caption_ids, mut values) = (Vec::with_capacity(n_rows), Vec::new(), Vec::new());
    let mut lengths = Vec::with_capacity(n_rows);
    for row in range {
        cancel.check()?;
        let before = values.len();
        let image = match selected {
            SelectedPairs::Dense => {
                values.resize(before + corpus.caption_ids.len(), 0.0);
                similarity.row(row, scratch, &mut values[before..]);
                caption_ids.extend_from_slice(&corpus.caption_ids);
                row
            }
            SelectedPairs::Top(m) => {
                for (caption, value) in similarity.top_captions(row, *m, scratch) {
                    caption_ids.push(corpus.caption_ids[caption]);
                    values.push(to_f32(value));
                }
                row
            }
            SelectedPairs::Pairs(pairs) => {
                let (image, captions) = &pairs[row];
                for &caption in captions {
                    caption_ids.push(corpus.caption_ids[caption]);
                    values.push(to_f32(similarity.pair(*image, caption)));
                }
                *image
            }
        };
        image_ids.push(corpus.image_ids[image]);
        lengths.push(values.len() - before);
    }
    tables::caption_similarity::batch(image_ids, &lengths, caption_ids, values, info.measure, info.tokenizer)
}

#[expect(clippy::cast_possible_truncation, reason = "tables hold f32")]
fn to_f32(value: f64) -> f32 {
    value as f32
}
