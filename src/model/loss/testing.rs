//! Losses on plain numbers, differences against gradients, and the cases of `tests/golden/losses.json`, for tests.

use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use super::function::Batch;
use super::negatives::Negatives;
use super::{BankWeights, Loss, LossFunction, Objective, SemanticMargin};

/// Golden values that `tests/golden/losses.py` wrote.
#[derive(Deserialize)]
pub(super) struct Golden {
    pub seed: u64,
    /// The number of an objective is its step.
    pub objectives: Vec<Case>,
    pub batches: Vec<GoldenBatch>,
}

#[derive(Deserialize)]
pub(super) struct Case {
    pub loss: Loss,
    pub semantic_margin: Option<SemanticMargin>,
    pub bank: Option<BankWeights>,
}

/// A batch, and for each objective its value, two products of the gradient, its squared norm, and its first entries.
#[derive(Deserialize)]
pub(super) struct GoldenBatch {
    pub n: usize,
    pub rows: usize,
    pub scale: f64,
    pub ties: bool,
    pub masked: bool,
    pub results: Vec<Vec<f64>>,
}

impl Golden {
    pub(super) fn read() -> Self {
        serde_json::from_str(include_str!("../../../tests/golden/losses.json")).expect("golden results")
    }
}

impl Case {
    pub(super) fn objective(&self) -> Objective {
        Objective { loss: self.loss.clone(), semantic_margin: self.semantic_margin }
    }
}

/// `[n, n]` of n² numbers.
pub(super) fn square(values: &[f64]) -> Tensor {
    let n = i64::try_from(values.len().isqrt()).expect("a small number");
    Tensor::from_slice(values).view([n, n])
}

/// `[1, n]`.
pub(super) fn row(values: &[f64]) -> Tensor {
    Tensor::from_slice(values).unsqueeze(0)
}

/// Numbers of \[−1, 1), the same for the same seed.
pub(super) fn random(seed: i64, rows: i64, columns: i64) -> Tensor {
    tch::manual_seed(seed);
    Tensor::rand([rows, columns], (Kind::Double, Device::Cpu)) * 2.0 - 1.0
}

/// The values of a tensor of f64, row by row.
pub(super) fn numbers(tensor: &Tensor) -> Vec<f64> {
    Vec::try_from(tensor.contiguous().flatten(0, -1)).expect("f64 values")
}

/// Value and gradient on n² scores.
pub(super) fn evaluate(loss: &dyn LossFunction, scores: &[f64]) -> (f64, Vec<f64>) {
    evaluate_masked(loss, scores, &vec![false; scores.len()])
}

/// Value and gradient on n² scores, where some pairs are other captions of the same image.
pub(super) fn evaluate_masked(loss: &dyn LossFunction, scores: &[f64], masked: &[bool]) -> (f64, Vec<f64>) {
    let scores = square(scores);
    let negatives = Negatives::new(&scores, Some(&Tensor::from_slice(masked).view_as(&scores)));
    differentiate(&scores, |scores| loss.value(&Batch { scores, negatives: &negatives, bank: None }))
}

/// Value and gradient in the scores.
pub(super) fn differentiate(scores: &Tensor, value: impl Fn(&Tensor) -> Tensor) -> (f64, Vec<f64>) {
    let leaf = scores.copy().set_requires_grad(true);
    let value = value(&leaf) + (&leaf * 0.0).sum(Kind::Double);
    let gradient = Tensor::run_backward(&[&value], &[&leaf], false, false);
    (value.double_value(&[]), numbers(&gradient[0]))
}

/// Holds every entry of a gradient against the central difference of `value`.
pub(super) fn assert_central_differences(
    what: &str,
    scores: &Tensor,
    gradient: &[f64],
    value: impl Fn(&Tensor) -> f64,
) {
    let scores = numbers(scores);
    for (place, exact) in gradient.iter().enumerate() {
        let moved = |by: f64| {
            let mut scores = scores.clone();
            scores[place] += by;
            value(&square(&scores))
        };
        let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
        assert!((difference - exact).abs() < 1e-6 * exact.abs().max(1.0), "{what}, {place}: {difference} and {exact}");
    }
}
