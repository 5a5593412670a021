//! CIDEr of the images and captions of a mini-batch, without the inverted index.

use super::scorer::{CiderScorer, order_index, scale};

/// φ of all of `images` with all of `captions`.
///
/// # Shapes
/// result: `[images.len(), captions.len()]`, row-major
///
/// # Cost
/// The n-grams of `captions` are sorted once; each n-gram of each reference is looked up by binary search.
pub fn score_block(scorer: &CiderScorer, images: &[usize], captions: &[usize]) -> Vec<f32> {
    let mut entries: Vec<(u32, usize, f64, f64)> = Vec::new();
    for (position, &index) in captions.iter().enumerate() {
        let caption = scorer.vectors.caption(index);
        for ((&id, &n), &weight) in caption.ngrams.iter().zip(caption.orders).zip(caption.weights) {
            if weight > 0.0 {
                entries.push((id, position, weight, scorer.inverse_norms[index][order_index(n)]));
            }
        }
    }
    entries.sort_unstable_by_key(|&(id, position, ..)| (id, position));
    let lengths: Vec<u32> = captions.iter().map(|&caption| scorer.length(caption)).collect();

    let mut values = Vec::with_capacity(images.len() * captions.len());
    let mut sums = vec![0.0; captions.len()];
    let mut penalties = vec![0.0; captions.len()];
    for &image in images {
        sums.fill(0.0);
        let references = scorer.references(image);
        for &reference in references {
            let length = scorer.length(reference);
            for (penalty, other) in penalties.iter_mut().zip(&lengths) {
                *penalty = scorer.penalty(length.abs_diff(*other));
            }
            let caption = scorer.vectors.caption(reference);
            for ((&id, &n), &weight) in caption.ngrams.iter().zip(caption.orders).zip(caption.weights) {
                let inverse = scorer.inverse_norms[reference][order_index(n)];
                let start = entries.partition_point(|entry| entry.0 < id);
                for &(_, position, caption_weight, norm) in entries[start..].iter().take_while(|entry| entry.0 == id) {
                    sums[position] += scorer.product(caption_weight, weight) * inverse * norm * penalties[position];
                }
            }
        }
        let scale = scale(references.len());
        for (&sum, &caption) in sums.iter().zip(captions) {
            let value = if scorer.leaves_out(image, caption) { scorer.pair(image, caption) } else { sum * scale };
            values.push(to_f32(value));
        }
    }
    values
}

#[expect(clippy::cast_possible_truncation, reason = "similarities are stored as f32")]
fn to_f32(value: f64) -> f32 {
    value as f32
}
