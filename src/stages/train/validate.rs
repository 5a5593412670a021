//! How a model does on the validation split: recall by nearest neighbour.

use super::pairs::Pairs;
use crate::error::Result;
use crate::model::vse::Vse;
use crate::stage::Cx;

/// Recalls in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Recalls {
    /// Image to text at 1, 5, 10: the share of images of which one caption is that near.
    pub i2t: [f64; 3],
    /// Text to image at 1, 5, 10.
    pub t2i: [f64; 3],
}

impl Recalls {
    /// Sum of the six.
    pub fn rsum(&self) -> f64 {
        self.i2t.iter().chain(&self.t2i).sum()
    }
}

/// Embeds the validation split and ranks it in both directions; images in the order of their first caption.
///
/// # Errors
/// The run was cancelled.
pub(super) fn validate(vse: &Vse, pairs: &Pairs, cx: &Cx<'_>) -> Result<Recalls> {
    let mut images: Vec<usize> = Vec::new();
    let mut image_of = Vec::with_capacity(pairs.val.len());
    let mut place = std::collections::HashMap::new();
    for pair in &pairs.val {
        image_of.push(*place.entry(pair.image).or_insert_with(|| {
            images.push(pair.image);
            images.len() - 1
        }));
    }
    let features: Vec<f32> = images.iter().flat_map(|&image| pairs.feature(image)).copied().collect();
    let words: Vec<&[i64]> = pairs.val.iter().map(|pair| pair.words.as_slice()).collect();
    let (images, captions) = (vse.images(&features)?, vse.captions(&words)?);
    cx.proceed()?;
    let width = vse.widths().joint;
    let i2t = recalls(&images, &captions, width, |image, caption| image_of[caption] == image);
    cx.proceed()?;
    let t2i = recalls(&captions, &images, width, |caption, image| image_of[caption] == image);
    Ok(Recalls { i2t, t2i })
}

/// The share of queries, in percent, with a matching item among the nearest 1, 5 and 10.
fn recalls(queries: &[f32], items: &[f32], width: usize, matches: impl Fn(usize, usize) -> bool) -> [f64; 3] {
    let mut hits = [0.0; 3];
    let count = queries.len() / width;
    for (q, query) in queries.chunks_exact(width).enumerate() {
        let scores: Vec<f32> =
            items.chunks_exact(width).map(|item| query.iter().zip(item).map(|(a, b)| a * b).sum()).collect();
        let rank = (0..scores.len())
            .filter(|&item| matches(q, item))
            .map(|item| {
                scores[..item].iter().filter(|s| **s >= scores[item]).count()
                    + scores[item..].iter().filter(|s| **s > scores[item]).count()
            })
            .min();
        for (hit, k) in hits.iter_mut().zip([1, 5, 10]) {
            *hit += f64::from(rank.is_some_and(|rank| rank < k));
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "queries are far below 2^53")]
    hits.map(|hit| 100.0 * hit / count.max(1) as f64)
}
