//! Objectives on tensors: scores of a batch in, one number out, gradient by libtorch.
//!
//! `scores` is `[n, n]`, image by caption, with the matching pairs on the diagonal. Each file has a plain twin in
//! [`kernels::loss`](crate::kernels::loss), which it is tested against.

pub mod sum;
pub mod max;

pub use max::max;
pub use sum::sum;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

/// The objective of a training. `margin` is 0.2 in all papers.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Loss {
    /// Every negative of the batch counts (UVS, "SUM").
    Sum {
        /// Margin α.
        #[serde(default = "margin")]
        margin: f64,
    },
    /// The hardest negative of the batch counts (VSE++, "MAX").
    Max {
        /// Margin α.
        #[serde(default = "margin")]
        margin: f64,
    },
}

impl Default for Loss {
    fn default() -> Self {
        Self::Max { margin: margin() }
    }
}

fn margin() -> f64 {
    0.2
}

impl Loss {
    /// Its value on the scores of a batch, a tensor of no dimensions that can be differentiated.
    pub fn value(&self, scores: &Tensor) -> Tensor {
        match self {
            Self::Sum { margin } => sum(scores, *margin),
            Self::Max { margin } => max(scores, *margin),
        }
    }

    /// Its value on a batch of `pairs` pairs where all scores are equal: the model tells nothing from anything.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53 pairs")]
    pub fn collapsed(&self, pairs: usize) -> f64 {
        let (pairs, others) = (pairs as f64, pairs.saturating_sub(1) as f64);
        match self {
            Self::Sum { margin } => 2.0 * pairs * others * margin,
            Self::Max { margin } => 2.0 * pairs * others.min(1.0) * margin,
        }
    }

    /// What is wrong with it, if anything.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let (Self::Sum { margin } | Self::Max { margin }) = self;
        (!margin.is_finite() || *margin < 0.0).then(|| format!("a margin of {margin}, wanted 0 or more"))
    }
}

/// The scores with −∞ in place of the matching pairs.
fn negatives(scores: &Tensor) -> Tensor {
    let matching = Tensor::eye(scores.size()[0], (Kind::Bool, scores.device()));
    scores.masked_fill(&matching, f64::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use tch::Tensor;

    use crate::kernels;
    use crate::kernels::sample::Sample;

    type OnTensors = fn(&Tensor, f64) -> Tensor;
    type Reference = fn(&[f64], usize, f64) -> kernels::loss::Loss;

    fn value_and_gradient(loss: OnTensors, scores: &[f64], n: usize, margin: f64) -> (f64, Vec<f64>) {
        let size = i64::try_from(n).expect("a small number");
        let scores = Tensor::from_slice(scores).view([size, size]).set_requires_grad(true);
        let value = loss(&scores, margin);
        let gradient = Tensor::run_backward(&[&value], &[&scores], false, false).remove(0);
        (value.double_value(&[]), Vec::try_from(gradient.flatten(0, -1)).expect("f64 values"))
    }

    fn close(a: &[f64], b: &[f64]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-10)
    }

    #[test]
    fn tensors_agree_with_the_references() {
        let pairs: [(OnTensors, Reference); 2] = [(super::sum, kernels::loss::sum), (super::max, kernels::loss::max)];
        for (n, seed) in [(1, 0), (2, 1), (3, 2), (7, 3), (32, 4), (128, 5)] {
            let mut sample = Sample::new(seed, &[]);
            let scores: Vec<f64> = (0..n * n).map(|_| 2.0 * sample.unit() - 1.0).collect();
            for (on_tensors, reference) in pairs {
                let (value, gradient) = value_and_gradient(on_tensors, &scores, n, 0.2);
                let wanted = reference(&scores, n, 0.2);
                assert!((value - wanted.value).abs() < 1e-10 * wanted.value.max(1.0), "{n}: {value}, {wanted:?}");
                assert!(close(&gradient, &wanted.gradient), "{n}: gradients differ");
            }
        }
    }

    #[derive(Deserialize)]
    struct Case {
        n: usize,
        margin: f64,
        scores: Vec<f64>,
        sum: (f64, Vec<f64>),
        max: (f64, Vec<f64>),
    }

    /// `tests/golden/losses.py` wrote these with PyTorch, from the formulas of the papers.
    #[test]
    fn both_agree_with_pytorch() {
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("../../../tests/golden/losses.json")).expect("golden cases");
        assert!(cases.len() >= 4);
        for case in cases {
            for (on_tensors, reference, (value, gradient)) in [
                (super::sum as OnTensors, kernels::loss::sum as Reference, &case.sum),
                (super::max, kernels::loss::max, &case.max),
            ] {
                let got = value_and_gradient(on_tensors, &case.scores, case.n, case.margin);
                assert!((got.0 - value).abs() < 1e-10 && close(&got.1, gradient), "tensors: {got:?}");
                let got = reference(&case.scores, case.n, case.margin);
                assert!((got.value - value).abs() < 1e-10 && close(&got.gradient, gradient), "reference: {got:?}");
            }
        }
    }

    #[test]
    fn the_collapse_value_is_what_equal_scores_cost() {
        for n in [1i64, 2, 5, 128] {
            let scores = Tensor::full([n, n], 0.7, (tch::Kind::Double, tch::Device::Cpu));
            for loss in [super::Loss::Sum { margin: 0.2 }, super::Loss::Max { margin: 0.3 }] {
                let wanted = loss.collapsed(usize::try_from(n).expect("a small number"));
                assert!((loss.value(&scores).double_value(&[]) - wanted).abs() < 1e-9 * wanted.max(1.0));
            }
        }
    }

    #[test]
    fn a_single_pair_costs_nothing_and_moves_nothing() {
        for loss in [super::sum as OnTensors, super::max] {
            assert_eq!(value_and_gradient(loss, &[0.3], 1, 0.2), (0.0, vec![0.0]));
        }
    }
}
