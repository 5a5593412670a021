//! Test helpers of losses: values and gradients on plain numbers, central differences, the file
//! `tests/golden/losses.json`.

use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use super::objective::{LossInput, Negatives};
use super::{EvaluateObjective, LossFunction, ObjectiveContext};
use pairloom_spec::loss::{Loss, MemoryBankWeights, Objective, SemanticMargin};

/// Golden file `losses.json`, written by `tests/golden/losses.py`.
#[derive(Deserialize)]
pub(super) struct LossGoldenFile {
    pub seed: u64,
    /// Objectives; the index of an objective is its step.
    pub objectives: Vec<LossGoldenCase>,
    pub batches: Vec<LossGoldenBatch>,
}

#[derive(Deserialize)]
pub(super) struct LossGoldenCase {
    pub loss: Loss,
    pub semantic_margin: Option<SemanticMargin>,
    pub bank: Option<MemoryBankWeights>,
}

/// Batch of a golden file. Each objective has its value, two inner products of the gradient, the squared norm of the
/// gradient, and its first entries.
#[derive(Deserialize)]
pub(super) struct LossGoldenBatch {
    pub n: usize,
    pub rows: usize,
    pub scale: f64,
    pub ties: bool,
    pub masked: bool,
    pub results: Vec<Vec<f64>>,
}

impl LossGoldenFile {
    pub(super) fn read() -> Self {
        serde_json::from_str(include_str!("../../../tests/golden/losses.json")).expect("golden results")
    }
}

impl LossGoldenCase {
    pub(super) fn objective(&self) -> Objective {
        Objective { loss: self.loss.clone(), semantic_margin: self.semantic_margin }
    }
}

/// Tensor `[n, n]` of n² numbers.
pub(super) fn square(values: &[f64]) -> Tensor {
    let n = i64::try_from(values.len().isqrt()).expect("a small number");
    Tensor::from_slice(values).view([n, n])
}

/// Tensor `[1, n]`.
pub(super) fn row(values: &[f64]) -> Tensor {
    Tensor::from_slice(values).unsqueeze(0)
}

/// Random numbers in \[−1, 1), a function of the seed.
pub(super) fn random(seed: i64, rows: i64, columns: i64) -> Tensor {
    tch::manual_seed(seed);
    Tensor::rand([rows, columns], (Kind::Double, Device::Cpu)) * 2.0 - 1.0
}

/// Values of a tensor of f64, row-major.
pub(super) fn numbers(tensor: &Tensor) -> Vec<f64> {
    Vec::try_from(tensor.contiguous().flatten(0, -1)).expect("f64 values")
}

/// Value and gradient on n² scores.
pub(super) fn evaluate(loss: &dyn LossFunction, scores: &[f64]) -> (f64, Vec<f64>) {
    evaluate_masked(loss, scores, &vec![false; scores.len()])
}

/// Value and gradient on n² scores. Scores with `masked` true are no negatives.
pub(super) fn evaluate_masked(loss: &dyn LossFunction, scores: &[f64], masked: &[bool]) -> (f64, Vec<f64>) {
    let scores = square(scores);
    let negatives = Negatives::new(&scores, Some(&Tensor::from_slice(masked).view_as(&scores)));
    differentiate(&scores, |scores| {
        loss.value(&LossInput { scores, negatives: &negatives, memory_bank: None, scalars: &[] })
    })
}

/// Derivatives of an objective with learned scalars at their initial values, on n² scores: in the scores, and in the
/// scalars.
pub(super) fn learned_gradients(loss: Loss, scores: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let objective = Objective { loss, semantic_margin: None };
    let scalars = objective.learned_scalars();
    let scalars: Vec<Tensor> = scalars.iter().map(|scalar| Tensor::from_slice(&[scalar.initial])).collect();
    let context = ObjectiveContext { scalars: &scalars, ..ObjectiveContext::default() };
    let found = objective.evaluate(&square(scores), &context).expect("consistent inputs");
    (numbers(&found.d_scores), found.d_scalars.iter().flat_map(numbers).collect())
}

/// Value and gradient in the scores.
pub(super) fn differentiate(scores: &Tensor, value: impl Fn(&Tensor) -> Tensor) -> (f64, Vec<f64>) {
    let leaf = scores.copy().set_requires_grad(true);
    let value = value(&leaf) + (&leaf * 0.0).sum(Kind::Double);
    let gradient = Tensor::run_backward(&[&value], &[&leaf], false, false);
    (value.double_value(&[]), numbers(&gradient[0]))
}

/// Asserts that every entry of a gradient equals the central difference of `value`.
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
