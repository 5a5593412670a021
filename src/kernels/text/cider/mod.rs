//! CIDEr and CIDEr-D: caption similarity by the cosine of tf-idf weighted n-grams.
//!
//! Vedantam, Zitnick and Parikh, "CIDEr: Consensus-based Image Description Evaluation", CVPR 2015.
//!
//! A caption is four sparse vectors, one for each n from 1 to 4. The weight of an n-gram g in caption h is
//! `h(g) = count · (ln N − ln max(1, df(g)))`, where N is the number of images and df(g) the number of images with g in
//! one of their captions. R are the references of image i (its captions), and Δ is the difference between the numbers
//! of bigrams of h and r:
//!
//! ```text
//! φ(i, h)  =  10/|R| Σ_r  1/4 Σ_n  Σ_g s(g) / (‖h_n‖ ‖r_n‖)
//!
//! CIDEr-D     s(g) = min(h(g), r(g)) · r(g) · exp(−Δ² / (2 · 6²))
//! CIDEr       s(g) = h(g) · r(g)
//! ```
//!
//! The factor 10 and the mean over n are those of the authors' code. The value that the COCO evaluation prints as
//! "CIDEr" is CIDEr-D. The cosines of a vector of norm 0 are 0. So φ is 0 for a caption without words, for an image
//! without references and in a corpus of one image, where every logarithm is 0.
//!
//! From captions to φ: [`NgramVocabulary`] counts the n-grams of a caption and gives them ids, [`DocumentFrequency`]
//! counts images, [`Idf`] is the weight of one occurrence, [`CaptionVectors`] holds the weighted captions (the table
//! `caption_ngrams`), and [`Cider`] compares them.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::index::InvertedIndex;
use self::vectors::ORDERS;
use crate::text::CaptionSimilarity;

pub use index::CiderScratch;
pub use vectors::{CaptionVector, CaptionVectors, DocumentFrequency, Idf, Ngram, NgramVocabulary};

mod vectors;
mod index;
#[cfg(test)]
mod tests;

/// Variant of the measure: CIDEr-D or CIDEr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CiderVariant {
    /// With clipping and a length penalty: the value of the COCO evaluation.
    CiderD,
    /// The cosine of equation 2 of the paper.
    Cider,
}

/// Use of a caption among the references of its own image: kept, or left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnCaption {
    /// The caption is one of the references.
    #[default]
    Keep,
    /// The caption is compared with the other references only.
    LeaveOut,
}

/// Computes CIDEr or CIDEr-D of any pair of an image and a caption.
#[derive(Debug)]
pub struct CiderScorer {
    pub(super) vectors: CaptionVectors,
    pub(super) variant: CiderVariant,
    pub(super) own: OwnCaption,
    /// The captions of image i are `captions[offsets[i]..offsets[i + 1]]`.
    offsets: Vec<usize>,
    captions: Vec<usize>,
    /// `1/‖c_n‖` of each caption; 0 if the norm is 0.
    pub(super) inverse_norms: Vec<[f64; ORDERS]>,
    /// The length penalty exp(−Δ²/(2·6²)) for Δ = 0, 1, …; beyond the end it is 0 in f64.
    gaussian: Vec<f64>,
}

/// Standard deviation of the length penalty, in bigrams.
const SIGMA: f64 = 6.0;

impl CiderScorer {
    fn new(vectors: CaptionVectors, form: CiderVariant, own: OwnCaption) -> Self {
        let images = (0..vectors.len()).map(|c| vectors.caption(c).image + 1).max().unwrap_or(0);
        let mut offsets = vec![0; images + 1];
        for caption in 0..vectors.len() {
            offsets[vectors.caption(caption).image + 1] += 1;
        }
        for image in 0..images {
            offsets[image + 1] += offsets[image];
        }
        let mut captions: Vec<usize> = (0..vectors.len()).collect();
        captions.sort_by_key(|&caption| vectors.caption(caption).image);
        let inverse_norms = (0..vectors.len()).map(|c| inverse_norms(vectors.caption(c))).collect();
        let gaussian = (0..).map(f64::from).map(|delta| (-delta * delta / (2.0 * SIGMA * SIGMA)).exp());
        let gaussian = gaussian.take_while(|&penalty| penalty > 0.0).collect();
        Self { vectors, variant: form, own, offsets, captions, inverse_norms, gaussian }
    }

    /// The references of an image: its captions.
    pub(super) fn references(&self, image: usize) -> &[usize] {
        &self.captions[self.offsets[image]..self.offsets[image + 1]]
    }

    /// The length penalty: the factor for a difference of `delta` bigrams.
    pub(super) fn penalty(&self, delta: u32) -> f64 {
        match self.variant {
            CiderVariant::CiderD => self.gaussian.get(delta as usize).copied().unwrap_or(0.0),
            CiderVariant::Cider => 1.0,
        }
    }

    /// The length of a caption, in bigrams, as in the authors' code.
    pub(super) fn length(&self, caption: usize) -> u32 {
        self.vectors.caption(caption).words.saturating_sub(1)
    }

    /// s(g) for weights h(g) and r(g), without the length penalty.
    pub(super) fn product(&self, h: f64, r: f64) -> f64 {
        match self.variant {
            CiderVariant::CiderD => h.min(r) * r,
            CiderVariant::Cider => h * r,
        }
    }

    /// True if `caption` is left out of the references of `image`.
    pub(super) fn leaves_out(&self, image: usize, caption: usize) -> bool {
        self.own == OwnCaption::LeaveOut && self.vectors.caption(caption).image == image
    }

    /// Number of images.
    pub(super) fn image_count(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of captions.
    pub(super) fn caption_count(&self) -> usize {
        self.vectors.len()
    }

    /// φ of an image and a caption.
    pub(super) fn pair(&self, image: usize, caption: usize) -> f64 {
        let without = self.leaves_out(image, caption);
        let (mut sum, mut count) = (0.0, 0);
        for &reference in self.references(image).iter().filter(|&&r| !(without && r == caption)) {
            sum += self.sentence(caption, reference);
            count += 1;
        }
        sum * scale(count)
    }

    /// The sum over n of the cosines of captions h and r, times the length penalty.
    fn sentence(&self, h: usize, r: usize) -> f64 {
        let (hypothesis, reference) = (self.vectors.caption(h), self.vectors.caption(r));
        let mut sums = [0.0; ORDERS];
        let (mut i, mut j) = (0, 0);
        while i < hypothesis.ngrams.len() && j < reference.ngrams.len() {
            let (a, b) = (hypothesis.ngrams[i], reference.ngrams[j]);
            if a == b {
                sums[order_index(hypothesis.orders[i])] += self.product(hypothesis.weights[i], reference.weights[j]);
            }
            i += usize::from(a <= b);
            j += usize::from(b <= a);
        }
        let cosines = (0..ORDERS).map(|n| sums[n] * (self.inverse_norms[h][n] * self.inverse_norms[r][n]));
        cosines.sum::<f64>() * self.penalty(self.length(h).abs_diff(self.length(r)))
    }
}

/// Index of order n = 1 to 4, from 0.
pub(super) fn order_index(order: i8) -> usize {
    usize::try_from(order - 1).expect("an order is at least 1")
}

/// 10/(4|R|), the factor of the sum over references, n and n-grams; 0 without references.
pub(super) fn scale(references: usize) -> f64 {
    let references = u32::try_from(references).expect("an image has fewer than 2^32 captions");
    if references == 0 { 0.0 } else { 10.0 / 4.0 / f64::from(references) }
}

fn inverse_norms(caption: CaptionVector<'_>) -> [f64; ORDERS] {
    let mut squares = [0.0; ORDERS];
    for (&n, &weight) in caption.orders.iter().zip(caption.weights) {
        squares[order_index(n)] += weight * weight;
    }
    squares.map(|square: f64| if square > 0.0 { 1.0 / square.sqrt() } else { 0.0 })
}

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

/// CIDEr or CIDEr-D of every image with every caption.
#[derive(Debug)]
pub struct Cider {
    scorer: CiderScorer,
    index: OnceLock<InvertedIndex>,
}

impl Cider {
    /// Compares the captions of `vectors`. The number of images is their largest index plus 1; φ of an image without
    /// captions is 0.
    ///
    /// # Cost
    /// One pass over the n-grams. [`CaptionSimilarity::row`] and [`CaptionSimilarity::top_captions`] need an inverted
    /// index, built by the first call: 4 bytes an n-gram of a caption and about 40 bytes a distinct n-gram, and 16 more
    /// bytes an n-gram of a caption while it is built. A row reads the posting lists of the image's n-grams once. A
    /// block needs no index.
    #[must_use]
    pub fn new(vectors: CaptionVectors, variant: CiderVariant, own_caption: OwnCaption) -> Self {
        Self { scorer: CiderScorer::new(vectors, variant, own_caption), index: OnceLock::new() }
    }

    /// The weighted captions.
    #[must_use]
    pub fn vectors(&self) -> &CaptionVectors {
        &self.scorer.vectors
    }

    /// True if φ is 0 for every image and caption because the weight of every n-gram is 0, as in a corpus of one image.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.scorer.inverse_norms.iter().flatten().all(|&inverse| inverse == 0.0)
    }

    fn index(&self) -> &InvertedIndex {
        self.index.get_or_init(|| InvertedIndex::new(&self.scorer))
    }
}

impl CaptionSimilarity for Cider {
    type Scratch = CiderScratch;

    fn image_count(&self) -> usize {
        self.scorer.image_count()
    }

    fn caption_count(&self) -> usize {
        self.scorer.caption_count()
    }

    fn pair(&self, image: usize, caption: usize) -> f64 {
        self.scorer.pair(image, caption)
    }

    fn row(&self, image: usize, scratch: &mut CiderScratch, values: &mut [f32]) {
        self.index().row(&self.scorer, image, scratch, values);
    }

    fn top_captions(&self, image: usize, m: usize, scratch: &mut CiderScratch) -> Vec<(usize, f64)> {
        self.index().top_captions(&self.scorer, image, m, scratch)
    }

    fn block(&self, images: &[usize], captions: &[usize]) -> Vec<f32> {
        score_block(&self.scorer, images, captions)
    }
}
