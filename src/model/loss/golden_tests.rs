//! Comparison of every loss with PyTorch in double precision, and of its gradient with central differences.
//! `tests/golden/losses.py` wrote `losses.json` from the formulas.

use std::collections::BTreeSet;

use tch::{Kind, Tensor};

use super::testing::{LossGoldenBatch, LossGoldenCase, LossGoldenFile, assert_central_differences, numbers, random};
use super::*;
use pairloom_spec::loss::{DensityGradient, LocalScalingLoss, Loss};

/// Inputs of the objectives, computed from the same random numbers as in `losses.py`.
struct LossGoldenInputs {
    n: usize,
    rows: usize,
    scores: Vec<f64>,
    to_captions: Vec<f64>,
    to_images: Vec<f64>,
    relevance: Vec<f64>,
    masked: Vec<bool>,
}

fn stream(seed: usize) -> impl Iterator<Item = f64> {
    let mut state = u32::try_from(seed).expect("a small number");
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state) / 4_294_967_296.0
    })
}

impl LossGoldenInputs {
    fn new(&LossGoldenBatch { n, rows, scale, ties, masked, .. }: &LossGoldenBatch) -> Self {
        let grid = |u: f64| if ties { (u * 8.0).floor() / 8.0 } else { u };
        let near = |place: usize| if place / n == place % n { 0.25 } else { 0.0 };
        let bank = |seed: usize, step: usize, modulus: usize| {
            let value = |(place, u): (usize, f64)| {
                let hidden = (place / rows * step + place % rows).is_multiple_of(modulus);
                if hidden { f64::NEG_INFINITY } else { scale * (u - 0.5) }
            };
            stream(seed).take(n * rows).enumerate().map(value).collect()
        };
        let images = (3 * n).div_ceil(4);
        let same = |place: usize| place / n != place % n && place / n % images == place % n % images;
        Self {
            n,
            rows,
            scores: stream(n).take(n * n).enumerate().map(|(at, u)| scale * (grid(u) - 0.5 + near(at))).collect(),
            to_captions: bank(n + 1, 7, 13),
            to_images: bank(n + 2, 5, 11),
            relevance: stream(n + 3).take(n * n).enumerate().map(|(at, u)| 3.0 * u + 8.0 * near(at)).collect(),
            masked: if masked { (0..n * n).map(same).collect() } else { Vec::new() },
        }
    }

    /// Evaluates an objective on tensors of `kind`: its value, and its derivatives in the scores and in the learned scalars
    /// of the loss, at their initial values.
    fn evaluate(&self, case: &LossGoldenCase, kind: Kind, seed: u64, step: u64) -> (f64, Vec<f64>, Vec<f64>) {
        let size = |size: usize| i64::try_from(size).expect("a small number");
        let (n, rows) = (size(self.n), size(self.rows));
        let tensor = |values: &[f64], width: i64| Tensor::from_slice(values).view([n, width]).to_kind(kind);
        let masked = (!self.masked.is_empty()).then(|| Tensor::from_slice(&self.masked).view([n, n]));
        let relevance = tensor(&self.relevance, n);
        let scores =
            MemoryBankScores { captions: tensor(&self.to_captions, rows), images: tensor(&self.to_images, rows) };
        let scalars = case.objective().learned_scalars();
        let scalars: Vec<Tensor> =
            scalars.iter().map(|scalar| Tensor::from_slice(&[scalar.initial]).to_kind(kind)).collect();
        let context = ObjectiveContext {
            masked: masked.as_ref(),
            memory_bank: case.bank.as_ref().map(|weights| (weights, &scores)),
            relevance: case.semantic_margin.is_some().then_some(&relevance),
            scalars: &scalars,
            seed,
            step,
        };
        let got = case.objective().evaluate(&tensor(&self.scores, n), &context).expect("consistent inputs");
        assert_eq!(got.d_scores.kind(), kind);
        let scalar_gradients = got.d_scalars.iter().map(|derivative| derivative.double_value(&[0])).collect();
        (
            got.value,
            Vec::try_from(got.d_scores.to_kind(Kind::Double).flatten(0, -1)).expect("numbers"),
            scalar_gradients,
        )
    }
}

/// Error of the value, and largest error of the numbers that describe the gradient; relative for numbers above 1.
fn errors(n: usize, (value, gradient, scalar_gradients): (f64, &[f64], &[f64]), expected: &[f64]) -> (f64, f64) {
    let error = |got: f64, expected: f64| (got - expected).abs() / expected.abs().max(1.0);
    let product = |part: usize| gradient.iter().zip(stream(n + part)).map(|(g, u)| g * u).sum::<f64>();
    let got = [product(4), product(5), gradient.iter().map(|g| g * g).sum()];
    let got = got.into_iter().chain(gradient.iter().copied().take(4)).chain(scalar_gradients.iter().copied());
    assert_eq!(expected.len(), 4 + gradient.len().min(4) + scalar_gradients.len());
    // `total_cmp` orders NaN last, so NaN is the largest error.
    let largest = got.zip(&expected[1..]).map(|(got, expected)| error(got, *expected)).max_by(f64::total_cmp);
    (error(value, expected[0]), largest.unwrap_or(0.0))
}

#[test]
fn losses_agree_with_pytorch() {
    let golden = LossGoldenFile::read();
    assert!(golden.batches.len() >= 8 && golden.objectives.len() >= 25);
    assert!(golden.objectives.iter().filter(|case| !case.objective().learned_scalars().is_empty()).count() >= 2);
    for numbers in &golden.batches {
        let inputs = LossGoldenInputs::new(numbers);
        for (step, (case, expected)) in (0..).zip(golden.objectives.iter().zip(&numbers.results)) {
            let got = inputs.evaluate(case, Kind::Double, golden.seed, step);
            let (value, gradient) = errors(numbers.n, (got.0, &got.1, &got.2), expected);
            let which = format!("{:?} {:?}, {} pairs", case.loss, case.semantic_margin, numbers.n);
            assert!(value <= 1e-10, "value of {which}: {} and {}", got.0, expected[0]);
            assert!(gradient <= 1e-8, "gradient of {which}: off by {gradient}");
        }
    }
}

/// Without a case in the golden file a loss would not be checked.
#[test]
fn every_loss_has_a_golden_case() {
    let schema = schemars::schema_for!(Loss).to_value();
    let listed = schema["oneOf"].as_array().expect("losses").iter();
    let listed: BTreeSet<&str> = listed.map(|loss| loss["required"][0].as_str().expect("a name")).collect();
    let golden = LossGoldenFile::read();
    assert_eq!(listed, golden.objectives.iter().map(|case| case.loss.name()).collect());
}

/// Every entry of the gradient, because the golden file has only some. Losses with a memory bank or a detached density
/// are left out, because their gradient is not the derivative of the value.
#[test]
fn gradients_are_central_differences() {
    let n = 6;
    let (scores, relevance) = (random(3, n, n), random(4, n, n));
    let masked = Tensor::zeros([n, n], (Kind::Bool, tch::Device::Cpu));
    let _ = masked.narrow(0, 0, 1).narrow(1, 1, 1).fill_(1);
    let _ = masked.narrow(0, 1, 1).narrow(1, 0, 1).fill_(1);
    let detached =
        |loss: &Loss| matches!(loss, Loss::LocalScaling(LocalScalingLoss { density: DensityGradient::Detached, .. }));
    let golden = LossGoldenFile::read();
    let is_learned = |case: &&LossGoldenCase| !case.objective().learned_scalars().is_empty();
    let fixed = golden.objectives.iter().filter(|case| !is_learned(case));
    for case in fixed.filter(|case| case.bank.is_none() && !detached(&case.loss)) {
        for masked in [None, Some(&masked)] {
            let context = ObjectiveContext { masked, relevance: Some(&relevance), ..ObjectiveContext::default() };
            let evaluate = |scores: &Tensor| case.objective().evaluate(scores, &context).expect("consistent inputs");
            let exact = numbers(&evaluate(&scores).d_scores);
            assert!(exact.iter().any(|slope| *slope != 0.0), "{:?} is flat", case.objective());
            let what = format!("{:?}", case.objective());
            assert_central_differences(&what, &scores, &exact, |scores| evaluate(scores).value);
        }
    }
}
