//! CIDEr of a pair of an image and a caption, and its terms.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ngrams::ORDERS;
use super::vectors::{CaptionVector, CaptionVectors};

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
    pub fn new(vectors: CaptionVectors, form: CiderVariant, own: OwnCaption) -> Self {
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
