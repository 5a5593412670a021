//! The block of a mini-batch, from the vectors of its captions alone.

use super::measure::{Pairs, order, scale};

/// φ of every one of `images` with every one of `captions`, row-major.
///
/// # Cost
/// The n-grams of the block's captions are sorted once; every n-gram of every reference is looked up in them.
pub fn block(pairs: &Pairs, images: &[usize], captions: &[usize]) -> Vec<f32> {
    let mut entries: Vec<(u32, usize, f64, f64)> = Vec::new();
    for (place, &index) in captions.iter().enumerate() {
        let caption = pairs.vectors.caption(index);
        for ((&number, &n), &weight) in caption.ngrams.iter().zip(caption.orders).zip(caption.weights) {
            if weight > 0.0 {
                entries.push((number, place, weight, pairs.inverse_norms[index][order(n)]));
            }
        }
    }
    entries.sort_unstable_by_key(|&(number, place, ..)| (number, place));
    let lengths: Vec<u32> = captions.iter().map(|&caption| pairs.length(caption)).collect();

    let mut values = Vec::with_capacity(images.len() * captions.len());
    let mut sums = vec![0.0; captions.len()];
    let mut penalties = vec![0.0; captions.len()];
    for &image in images {
        sums.fill(0.0);
        let references = pairs.references(image);
        for &reference in references {
            let length = pairs.length(reference);
            for (penalty, other) in penalties.iter_mut().zip(&lengths) {
                *penalty = pairs.penalty(length.abs_diff(*other));
            }
            let caption = pairs.vectors.caption(reference);
            for ((&number, &n), &weight) in caption.ngrams.iter().zip(caption.orders).zip(caption.weights) {
                let inverse = pairs.inverse_norms[reference][order(n)];
                let start = entries.partition_point(|entry| entry.0 < number);
                for &(_, place, own, norm) in entries[start..].iter().take_while(|entry| entry.0 == number) {
                    sums[place] += pairs.product(own, weight) * inverse * norm * penalties[place];
                }
            }
        }
        let scale = scale(references.len());
        for (&sum, &caption) in sums.iter().zip(captions) {
            let value = if pairs.leaves_out(image, caption) { pairs.pair(image, caption) } else { sum * scale };
            values.push(single(value));
        }
    }
    values
}

#[expect(clippy::cast_possible_truncation, reason = "similarities are kept in single precision")]
fn single(value: f64) -> f32 {
    value as f32
}
