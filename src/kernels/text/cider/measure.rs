//! φ of a pair, and what it is made of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ngrams::ORDERS;
use super::vectors::{Caption, Vectors};

/// Which of the two measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Clipped, and less for captions of different lengths: what the COCO evaluation computes.
    CiderD,
    /// The plain cosine of the paper's equation 2.
    Cider,
}

/// The place of a caption among the references of its own image: kept, or left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnCaption {
    /// It is one of them.
    #[default]
    Keep,
    /// It is compared with the others only.
    LeaveOut,
}

/// CIDEr or CIDEr-D of any pair of an image and a caption.
#[derive(Debug)]
pub struct Pairs {
    pub(super) vectors: Vectors,
    pub(super) form: Form,
    pub(super) own: OwnCaption,
    /// Captions by image: those of image i are `captions[offsets[i]..offsets[i + 1]]`.
    offsets: Vec<usize>,
    captions: Vec<usize>,
    /// `1/‖c_n‖` of each caption, 0 where the norm is.
    pub(super) inverse_norms: Vec<[f64; ORDERS]>,
    /// exp(−Δ²/(2·6²)) for Δ = 0, 1, …; beyond the end it is 0 even in f64.
    gaussian: Vec<f64>,
}

/// Standard deviation of the length penalty, in bigrams.
const SIGMA: f64 = 6.0;

impl Pairs {
    pub fn new(vectors: Vectors, form: Form, own: OwnCaption) -> Self {
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
        Self { vectors, form, own, offsets, captions, inverse_norms, gaussian }
    }

    /// The references of an image: its captions.
    pub(super) fn references(&self, image: usize) -> &[usize] {
        &self.captions[self.offsets[image]..self.offsets[image + 1]]
    }

    /// The factor of a caption whose number of bigrams differs by `delta`.
    pub(super) fn penalty(&self, delta: u32) -> f64 {
        match self.form {
            Form::CiderD => self.gaussian.get(delta as usize).copied().unwrap_or(0.0),
            Form::Cider => 1.0,
        }
    }

    /// Number of bigrams of a caption, which is how the authors' code measures its length.
    pub(super) fn length(&self, caption: usize) -> u32 {
        self.vectors.caption(caption).words.saturating_sub(1)
    }

    /// s(g) for weights h(g) and r(g), without the penalty.
    pub(super) fn product(&self, h: f64, r: f64) -> f64 {
        match self.form {
            Form::CiderD => h.min(r) * r,
            Form::Cider => h * r,
        }
    }

    /// Whether `caption` is to be left out of the references of `image`.
    pub(super) fn leaves_out(&self, image: usize, caption: usize) -> bool {
        self.own == OwnCaption::LeaveOut && self.vectors.caption(caption).image == image
    }

    /// How many images there are.
    pub(super) fn images(&self) -> usize {
        self.offsets.len() - 1
    }

    /// How many captions there are.
    pub(super) fn captions(&self) -> usize {
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

    /// The sum over n of the cosines of caption h with caption r, penalised.
    fn sentence(&self, h: usize, r: usize) -> f64 {
        let (hypothesis, reference) = (self.vectors.caption(h), self.vectors.caption(r));
        let mut sums = [0.0; ORDERS];
        let (mut i, mut j) = (0, 0);
        while i < hypothesis.ngrams.len() && j < reference.ngrams.len() {
            let (a, b) = (hypothesis.ngrams[i], reference.ngrams[j]);
            if a == b {
                sums[order(hypothesis.orders[i])] += self.product(hypothesis.weights[i], reference.weights[j]);
            }
            i += usize::from(a <= b);
            j += usize::from(b <= a);
        }
        let cosines = (0..ORDERS).map(|n| sums[n] * (self.inverse_norms[h][n] * self.inverse_norms[r][n]));
        cosines.sum::<f64>() * self.penalty(self.length(h).abs_diff(self.length(r)))
    }
}

/// The place of an order, 1 to 4, among the four.
pub(super) fn order(order: i8) -> usize {
    usize::try_from(order - 1).expect("an order is at least 1")
}

/// 10/(4|R|): what the sum over references, n and n-grams is multiplied with; 0 without references.
pub(super) fn scale(references: usize) -> f64 {
    let references = u32::try_from(references).expect("an image has fewer than 2^32 captions");
    if references == 0 { 0.0 } else { 10.0 / 4.0 / f64::from(references) }
}

fn inverse_norms(caption: Caption<'_>) -> [f64; ORDERS] {
    let mut squares = [0.0; ORDERS];
    for (&n, &weight) in caption.orders.iter().zip(caption.weights) {
        squares[order(n)] += weight * weight;
    }
    squares.map(|square: f64| if square > 0.0 { 1.0 / square.sqrt() } else { 0.0 })
}
