//! The scores of a batch, who competes with whom in it, and what an objective gives.

/// The scores of a batch of matching pairs.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'s> {
    /// `n × n` row-major: `scores[i·n + j]` of image `i` and caption `j`; the matching pairs are on the diagonal.
    pub scores: &'s [f64],
    /// Pairs, `n`.
    pub pairs: usize,
    /// Like `scores`: true where caption `j` is no negative of image `i`, because it is another caption of the same
    /// image. Empty where there is no such pair. The diagonal is never a negative, whatever stands there.
    pub masked: &'s [bool],
}

/// The value of an objective and its gradient in the scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// Value for the whole batch.
    pub value: f64,
    /// Its derivative in every score, `n × n` row-major.
    pub gradient: Vec<f64>,
}

/// Which of two that differ: the formulas of a paper, or what its published code computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// The formulas.
    Paper,
    /// The code.
    Official,
}

/// One image or caption of the batch as a query.
#[derive(Debug)]
pub(super) struct Anchor {
    /// Number of its pair.
    pub pair: usize,
    /// Place in the scores of its matching pair.
    pub matching: usize,
    /// Places in the scores of its negatives, in ascending order.
    pub negatives: Vec<usize>,
}

impl<'s> Batch<'s> {
    /// A batch in which every pair that does not match is a negative.
    ///
    /// # Panics
    /// `scores` is not `pairs × pairs`.
    #[must_use]
    pub fn new(scores: &'s [f64], pairs: usize) -> Self {
        Self::with_mask(scores, pairs, &[])
    }

    /// A batch in which the pairs of `masked` are no negatives.
    ///
    /// # Panics
    /// `scores` or `masked` is not `pairs × pairs`.
    #[must_use]
    pub fn with_mask(scores: &'s [f64], pairs: usize, masked: &'s [bool]) -> Self {
        assert_eq!(scores.len(), pairs * pairs, "scores of {pairs} pairs");
        assert!(masked.is_empty() || masked.len() == scores.len(), "a mask of {pairs} pairs");
        Self { scores, pairs, masked }
    }

    /// Score of the matching pair `pair`.
    pub(super) fn matching(&self, pair: usize) -> f64 {
        self.scores[pair * self.pairs + pair]
    }

    /// Whether the image and caption at a place are another caption of the same image.
    pub(super) fn is_masked(&self, place: usize) -> bool {
        self.masked.get(place).copied().unwrap_or(false)
    }

    /// All images as queries.
    pub(super) fn images(&self) -> impl Iterator<Item = Anchor> {
        (0..self.pairs).map(|pair| self.anchor(pair, |other| pair * self.pairs + other))
    }

    /// All captions as queries.
    pub(super) fn captions(&self) -> impl Iterator<Item = Anchor> {
        (0..self.pairs).map(|pair| self.anchor(pair, |other| other * self.pairs + pair))
    }

    fn anchor(&self, pair: usize, place: impl Fn(usize) -> usize) -> Anchor {
        let others = (0..self.pairs).filter(|other| *other != pair).map(&place);
        Anchor { pair, matching: place(pair), negatives: others.filter(|place| !self.is_masked(*place)).collect() }
    }

    /// The objective with a margin over the negatives that `pick` leaves of each query.
    pub(super) fn triplets(&self, margin: f64, pick: impl Fn(Vec<usize>) -> Vec<usize>) -> Loss {
        let mut loss = Loss::zero(self.pairs);
        for anchor in self.images().chain(self.captions()) {
            for negative in pick(anchor.negatives) {
                loss.hinge(self.scores, margin, negative, anchor.matching);
            }
        }
        loss
    }
}

impl Loss {
    /// Nothing lost, nothing to move.
    pub(super) fn zero(pairs: usize) -> Self {
        Self { value: 0.0, gradient: vec![0.0; pairs * pairs] }
    }

    /// Adds \[margin + score of `negative` − score of `matching`\]₊.
    pub(super) fn hinge(&mut self, scores: &[f64], margin: f64, negative: usize, matching: usize) {
        let violation = margin + scores[negative] - scores[matching];
        if violation > 0.0 {
            self.value += violation;
            self.gradient[negative] += 1.0;
            self.gradient[matching] -= 1.0;
        }
    }

    /// Adds `weight` times another objective on the same scores.
    #[must_use]
    pub fn plus(mut self, weight: f64, other: &Self) -> Self {
        self.value += weight * other.value;
        self.gradient.iter_mut().zip(&other.gradient).for_each(|(into, from)| *into += weight * from);
        self
    }
}

/// The `k` of `places` with the highest value, highest first; of equal values the lower place; all of them where there are
/// fewer.
pub(super) fn nearest(mut places: Vec<usize>, k: usize, value: impl Fn(usize) -> f64) -> Vec<usize> {
    places.sort_by(|&a, &b| value(b).total_cmp(&value(a)).then(a.cmp(&b)));
    places.truncate(k);
    places
}

/// ln Σ eˣ without overflow; −∞ for no terms.
pub(super) fn log_sum_exp(terms: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = terms.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + terms.map(|x| (x - largest).exp()).sum::<f64>().ln()
}
