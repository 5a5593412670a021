//! Every objective, as tensors and as reference, against PyTorch in double precision: `tests/golden/losses.py` wrote
//! `losses.json` from the formulas.

use serde::Deserialize;
use tch::{Kind, Tensor};

use super::*;
use crate::kernels::loss as kernels;

#[derive(Deserialize)]
struct Golden {
    seed: u64,
    objectives: Vec<Case>,
    batches: Vec<Numbers>,
}

#[derive(Deserialize)]
struct Case {
    loss: Loss,
    semantic_margin: Option<SemanticMargin>,
    bank: Option<Weights>,
}

#[derive(Deserialize)]
struct Weights {
    neighbours: usize,
    alpha: f64,
    beta: f64,
    epsilon_positive: f64,
    epsilon_negative: f64,
}

impl Case {
    fn bank(&self) -> Option<kernels::BankWeights> {
        self.bank.as_ref().map(|&Weights { neighbours, alpha, beta, epsilon_positive, epsilon_negative }| {
            kernels::BankWeights { neighbours, alpha, beta, epsilon_positive, epsilon_negative }
        })
    }
}

/// A batch, and for each objective its value, two products of the gradient, its squared norm, and its first entries.
#[derive(Deserialize)]
struct Numbers {
    n: usize,
    rows: usize,
    scale: f64,
    ties: bool,
    masked: bool,
    results: Vec<Vec<f64>>,
}

/// What the program made from the same numbers.
struct Inputs {
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

impl Inputs {
    fn new(&Numbers { n, rows, scale, ties, masked, .. }: &Numbers) -> Self {
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

    /// With tensors of `kind`.
    fn evaluate(&self, case: &Case, kind: Kind, seed: u64, step: u64) -> (f64, Vec<f64>) {
        let size = |size: usize| i64::try_from(size).expect("a small number");
        let (n, rows) = (size(self.n), size(self.rows));
        let tensor = |values: &[f64], width: i64| Tensor::from_slice(values).view([n, width]).to_kind(kind);
        let masked = (!self.masked.is_empty()).then(|| Tensor::from_slice(&self.masked).view([n, n]));
        let relevance = tensor(&self.relevance, n);
        let scores = BankScores { captions: tensor(&self.to_captions, rows), images: tensor(&self.to_images, rows) };
        let weights = case.bank();
        let context = Context {
            masked: masked.as_ref(),
            bank: weights.as_ref().map(|weights| (weights, &scores)),
            relevance: case.semantic_margin.is_some().then_some(&relevance),
            seed,
            step,
        };
        let objective = Objective { loss: case.loss.clone(), semantic_margin: case.semantic_margin.clone() };
        let got = objective.evaluate(&tensor(&self.scores, n), &context).expect("inputs that fit");
        assert_eq!(got.d_scores.kind(), kind);
        (got.value, Vec::try_from(got.d_scores.to_kind(Kind::Double).flatten(0, -1)).expect("numbers"))
    }

    fn reference(&self, case: &Case, seed: u64, step: u64) -> kernels::Loss {
        let batch = kernels::Batch::with_mask(&self.scores, self.n, &self.masked);
        let loss = match case.loss {
            Loss::Sum { margin } => kernels::sum(&batch, margin),
            Loss::Max { margin } => kernels::max(&batch, margin),
            Loss::KnnMargin { margin, k } => kernels::knn_margin(&batch, margin, k),
            Loss::LocalScaling { margin, k, over, exponent } => {
                let over = if over == Over::Sum { kernels::Over::Sum } else { kernels::Over::Max };
                let exponent = match exponent {
                    Exponent::Detached => kernels::Exponent::Detached,
                    Exponent::Differentiated => kernels::Exponent::Differentiated,
                };
                kernels::local_scaling(&batch, margin, k, over, exponent)
            }
            Loss::Hal { gamma, epsilon, variant, max } => {
                let bank = kernels::Bank { captions: &self.to_captions, images: &self.to_images, rows: self.rows };
                let weights =
                    case.bank().map(|settings| kernels::bank_weights(&batch, &bank, &settings, plain(variant)));
                let loss = kernels::hal(&batch, gamma, epsilon, plain(variant), weights.as_ref());
                #[expect(clippy::cast_precision_loss, reason = "a small number")]
                match max {
                    Some(margin) => loss.plus(1.0 / self.n as f64, &kernels::max(&batch, margin)),
                    None => loss,
                }
            }
            Loss::InfoNce { temperature } => kernels::info_nce(&batch, temperature),
        };
        let Some(settings) = &case.semantic_margin else { return loss };
        let sampler = match settings.sampler {
            Sampler::Nearest => kernels::Sampler::Nearest,
            Sampler::Furthest => kernels::Sampler::Furthest,
            Sampler::Random => kernels::Sampler::Random,
        };
        let margins = kernels::SemanticMargin {
            temperature: settings.temperature,
            sampler,
            variant: plain(settings.variant),
            largest: settings.largest(),
        };
        let margins = kernels::semantic_margin(&batch, &self.relevance, &margins, seed, step);
        let nothing = kernels::Loss { value: 0.0, gradient: vec![0.0; self.n * self.n] };
        if settings.keep_triplet { loss } else { nothing }.plus(settings.weight, &margins)
    }
}

fn plain(variant: Variant) -> kernels::Variant {
    match variant {
        Variant::Paper => kernels::Variant::Paper,
        Variant::Official => kernels::Variant::Official,
    }
}

/// The largest error, of numbers above 1 as a part of them: of the value, and of what is said of the gradient.
fn errors(n: usize, value: f64, gradient: &[f64], wanted: &[f64]) -> (f64, f64) {
    let error = |got: f64, wanted: f64| (got - wanted).abs() / wanted.abs().max(1.0);
    let product = |part: usize| gradient.iter().zip(stream(n + part)).map(|(g, u)| g * u).sum::<f64>();
    let got = [product(4), product(5), gradient.iter().map(|g| g * g).sum()];
    let got = got.into_iter().chain(gradient.iter().copied().take(4));
    assert_eq!(wanted.len(), 4 + gradient.len().min(4));
    // What is not a number is the largest.
    let largest = got.zip(&wanted[1..]).map(|(got, wanted)| error(got, *wanted)).max_by(f64::total_cmp);
    (error(value, wanted[0]), largest.unwrap_or(0.0))
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../../tests/golden/losses.json")).expect("golden results")
}

fn compare(mut each: impl FnMut(&Inputs, &Case, u64, u64) -> (f64, Vec<f64>), value: f64, gradient: f64) {
    let golden = golden();
    assert!(golden.batches.len() >= 8 && golden.objectives.len() >= 25);
    for numbers in &golden.batches {
        let inputs = Inputs::new(numbers);
        for (step, (case, wanted)) in (0..).zip(golden.objectives.iter().zip(&numbers.results)) {
            let got = each(&inputs, case, golden.seed, step);
            let found = errors(numbers.n, got.0, &got.1, wanted);
            let which = format!("{:?} {:?}, {} pairs", case.loss, case.semantic_margin, numbers.n);
            assert!(found.0 <= value, "value of {which}: {} and {}", got.0, wanted[0]);
            assert!(found.1 <= gradient, "gradient of {which}: off by {}", found.1);
        }
    }
}

#[test]
fn references_agree_with_pytorch() {
    let reference = |inputs: &Inputs, case: &Case, seed, step| {
        let loss = inputs.reference(case, seed, step);
        (loss.value, loss.gradient)
    };
    compare(reference, 1e-10, 1e-8);
}

#[test]
fn tensors_agree_with_pytorch() {
    compare(|inputs, case, seed, step| inputs.evaluate(case, Kind::Double, seed, step), 1e-10, 1e-8);
}

/// All entries of the gradients, which the golden file does not have.
#[test]
fn tensors_agree_with_the_references_entry_by_entry() {
    let golden = golden();
    for numbers in &golden.batches {
        let inputs = Inputs::new(numbers);
        for (step, case) in (0..).zip(&golden.objectives) {
            let (value, gradient) = inputs.evaluate(case, Kind::Double, golden.seed, step);
            let wanted = inputs.reference(case, golden.seed, step);
            assert!((value - wanted.value).abs() <= 1e-10 * wanted.value.abs().max(1.0), "{:?}", case.loss);
            for (place, (got, wanted)) in gradient.iter().zip(&wanted.gradient).enumerate() {
                assert!((got - wanted).abs() <= 1e-8, "{:?}, {place}: {got} and {wanted}", case.loss);
            }
        }
    }
}
