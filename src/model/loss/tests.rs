//! Properties of the objectives: identities, symmetries, and values that can be derived by hand.

use proptest::prelude::*;
use tch::{Device, Kind, Tensor};

use super::testing::{LossGoldenFile, numbers, square};
use super::*;
use pairloom_spec::loss::{
    BatchSpec, FormulaVariant, Loss, MemoryBankWeights, NegativeSampler, Objective, SemanticMargin,
};
use pairloom_spec::loss::{HalLoss, InfoNceLoss, KnnMarginLoss, MaxLoss, SumLoss};

fn loss_objective(loss: Loss) -> Objective {
    Objective { loss, semantic_margin: None }
}

fn hal_loss(variant: FormulaVariant) -> Loss {
    Loss::Hal(HalLoss { variant, ..HalLoss::default() })
}

fn semantic_objective(sampler: NegativeSampler, variant: FormulaVariant, temperature: f64) -> Objective {
    let settings = SemanticMargin { sampler, variant, temperature, keep_triplet: false, ..SemanticMargin::default() };
    Objective { loss: Loss::default(), semantic_margin: Some(settings) }
}

/// Losses of the golden file.
fn golden_losses() -> Vec<Loss> {
    let mut losses: Vec<Loss> = Vec::new();
    for case in LossGoldenFile::read().objectives {
        if case.semantic_margin.is_none() && !losses.contains(&case.loss) {
            losses.push(case.loss);
        }
    }
    losses
}

/// All losses, and semantic margins. The official variants are not symmetric and are optional.
fn objectives(with_official_margins: bool) -> Vec<Objective> {
    let mut all: Vec<Objective> = golden_losses().into_iter().map(loss_objective).collect();
    for sampler in [NegativeSampler::Nearest, NegativeSampler::Furthest] {
        all.push(semantic_objective(sampler, FormulaVariant::Paper, 3.0));
        if with_official_margins {
            all.push(semantic_objective(sampler, FormulaVariant::Official, 3.0));
        }
    }
    all
}

fn evaluate(objective: &Objective, scores: &Tensor, context: &ObjectiveContext<'_>) -> (f64, Vec<f64>) {
    let got = objective.evaluate(scores, context).expect("consistent inputs");
    (got.value, numbers(&got.d_scores))
}

fn nearly_equal(a: &(f64, Vec<f64>), b: &(f64, Vec<f64>)) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9 * (1.0 + b.abs());
    near(a.0, b.0) && a.1.len() == b.1.len() && a.1.iter().zip(&b.1).all(|(a, b)| near(*a, *b))
}

/// Random scores and relevance of two to nine pairs.
fn batches() -> impl Strategy<Value = (Tensor, Tensor)> {
    (2usize..10).prop_flat_map(|n| {
        let values = || prop::collection::vec(-1.0f64..1.0, n * n);
        (values(), values()).prop_map(|(scores, phi)| (square(&scores), square(&phi) * 3.0))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn knn_margin_is_max_for_one_neighbour_and_sum_for_all((scores, _) in batches(), margin in 0.0f64..0.5) {
        let value = |loss| evaluate(&loss_objective(loss), &scores, &ObjectiveContext::default());
        let all = usize::try_from(scores.size()[0] - 1).expect("two pairs or more");
        prop_assert_eq!(value(Loss::KnnMargin(KnnMarginLoss { margin, k: 1 })), value(Loss::Max(MaxLoss { margin })));
        let sum = value(Loss::Sum(SumLoss { margin }));
        for k in [all, 1000] {
            let got = value(Loss::KnnMargin(KnnMarginLoss { margin, k }));
            prop_assert!(nearly_equal(&got, &sum), "k = {}", k);
        }
    }

    /// A permutation of the pairs permutes the gradient and changes nothing else.
    #[test]
    fn the_order_of_the_pairs_does_not_matter((scores, phi) in batches(), seed in any::<u64>()) {
        let mut order: Vec<usize> = (0..usize::try_from(scores.size()[0]).expect("a small number")).collect();
        pairloom_kernels::random::Rng::new(seed, &[]).shuffle(&mut order);
        let order: Vec<i64> = order.into_iter().map(|at| i64::try_from(at).expect("a small number")).collect();
        let order = Tensor::from_slice(&order);
        let moved = |tensor: &Tensor| tensor.index_select(0, &order).index_select(1, &order);
        for objective in objectives(true) {
            let context = |relevance| ObjectiveContext { relevance: Some(relevance), ..ObjectiveContext::default() };
            let (value, gradient) = evaluate(&objective, &scores, &context(&phi));
            let expected = (value, numbers(&moved(&square(&gradient))));
            let got = evaluate(&objective, &moved(&scores), &context(&moved(&phi)));
            prop_assert!(nearly_equal(&got, &expected), "{:?}: {:?} and {:?}", objective, got, expected);
        }
    }

    /// Objectives are symmetric in images and captions.
    #[test]
    fn exchanging_images_and_captions_transposes_the_gradient((scores, phi) in batches(), rows in 3i64..40) {
        let n = scores.size()[0];
        tch::manual_seed(rows);
        let random = || Tensor::rand([n, rows], (Kind::Double, Device::Cpu)) - 0.5;
        let scores_of = |captions: &Tensor, images: &Tensor| MemoryBankScores {
            captions: captions.shallow_clone(),
            images: images.shallow_clone(),
        };
        let (captions, images) = (random(), random());
        let (memory_bank_scores, exchanged_scores) = (scores_of(&captions, &images), scores_of(&images, &captions));
        let weights = MemoryBankWeights { neighbours: 5, alpha: 4.0, ..MemoryBankWeights::default() };
        for objective in objectives(false) {
            let context = |bank| ObjectiveContext {
                memory_bank: Some((&weights, bank)),
                relevance: Some(&phi),
                ..ObjectiveContext::default()
            };
            let (value, gradient) = evaluate(&objective, &scores, &context(&memory_bank_scores));
            let expected = (value, numbers(&square(&gradient).tr()));
            let got = evaluate(&objective, &scores.tr(), &context(&exchanged_scores));
            prop_assert!(nearly_equal(&got, &expected), "{:?}: {:?} and {:?}", objective, got, expected);
        }
    }

    /// Masked places have no gradient, and their scores do not change the value.
    #[test]
    fn masked_pairs_have_no_effect((scores, phi) in batches(), other in -1.0f64..1.0) {
        let n = scores.size()[0];
        let masked = Tensor::zeros([n, n], (Kind::Bool, Device::Cpu));
        let _ = masked.narrow(0, 0, 1).narrow(1, 1, 1).fill_(1);
        let _ = masked.narrow(0, 1, 1).narrow(1, 0, 1).fill_(1);
        let changed = scores.where_self(&masked.logical_not(), &Tensor::from(other));
        for objective in objectives(true) {
            let context = ObjectiveContext { masked: Some(&masked), relevance: Some(&phi), ..ObjectiveContext::default() };
            let got = evaluate(&objective, &scores, &context);
            prop_assert_eq!(&got, &evaluate(&objective, &changed, &context), "{:?}", objective);
            prop_assert!(got.1[1] == 0.0 && got.1[usize::try_from(n).expect("small")] == 0.0, "{:?}", objective);
        }
    }

    /// Triplets of unscaled scores and softmax depend on differences of scores only.
    #[test]
    fn a_constant_added_to_all_scores_changes_no_comparison((scores, phi) in batches(), constant in -3.0f64..3.0) {
        let blind = objectives(true).into_iter().filter(|objective| {
            matches!(objective.loss, Loss::Sum(_) | Loss::Max(_) | Loss::KnnMargin(_) | Loss::InfoNce(_))
        });
        for objective in blind {
            let context = ObjectiveContext { relevance: Some(&phi), ..ObjectiveContext::default() };
            let got = evaluate(&objective, &(&scores + constant), &context);
            prop_assert!(nearly_equal(&got, &evaluate(&objective, &scores, &context)), "{:?}", objective);
            prop_assert!(got.1.iter().sum::<f64>().abs() < 1e-9);
        }
    }

    /// If all negatives have the same relevance, the margin is constant; if τ is large, it is 0.
    #[test]
    fn semantic_margins_with_equal_relevance_are_max((scores, phi) in batches(), margin in 0.0f64..1.0) {
        let n = scores.size()[0];
        let alike = Tensor::eye(n, (Kind::Double, Device::Cpu)) * margin * 3.0;
        for (relevance, temperature, margin, error) in [(&alike, 3.0, margin, 1e-9), (&phi, 1e12, 0.0, 1e-9)] {
            let context = ObjectiveContext { relevance: Some(relevance), ..ObjectiveContext::default() };
            let got = evaluate(&semantic_objective(NegativeSampler::Nearest, FormulaVariant::Paper, temperature), &scores, &context).0;
            let expected = evaluate(&loss_objective(Loss::Max(MaxLoss { margin })), &scores, &ObjectiveContext::default()).0;
            prop_assert!((got - expected).abs() < error * 1e2, "{} and {}", got, expected);
        }
    }

    #[test]
    fn values_in_f32_are_near_those_in_f64((scores, phi) in batches()) {
        for objective in objectives(true) {
            let context = ObjectiveContext { relevance: Some(&phi), ..ObjectiveContext::default() };
            // Both have the same scores, so the same negatives are the nearest.
            let single = scores.to_kind(Kind::Float);
            let got = objective.evaluate(&single, &context).expect("consistent inputs");
            let expected = objective.evaluate(&single.to_kind(Kind::Double), &context).expect("consistent inputs");
            prop_assert!((got.value - expected.value).abs() < 1e-4 * (1.0 + expected.value.abs()), "{:?}", objective);
        }
    }
}

fn equal_scores(n: i64, score: f64) -> Tensor {
    Tensor::full([n, n], score, (Kind::Double, Device::Cpu))
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn the_collapse_value_is_the_value_of_equal_scores() {
    for n in [1i64, 2, 5, 128] {
        for loss in golden_losses() {
            let expected = loss_objective(loss.clone()).collapse_value(usize::try_from(n).expect("a small number"));
            let Some(expected) = expected else { continue };
            for score in [-0.4, 0.0, 0.7] {
                let got =
                    evaluate(&loss_objective(loss.clone()), &equal_scores(n, score), &ObjectiveContext::default()).0;
                assert!((got - expected).abs() < 1e-9 * expected.max(1.0), "{loss:?}, {n}: {got} and {expected}");
            }
        }
        let (b, others) = (n as f64, (n - 1) as f64);
        let pairs = usize::try_from(n).expect("a small number");
        let near = |loss: Loss, expected: f64| {
            (loss_objective(loss).collapse_value(pairs).expect("defined") - expected).abs() < 1e-9
        };
        assert!(near(Loss::Sum(SumLoss { margin: 0.2 }), 2.0 * b * others * 0.2));
        assert!(near(Loss::Max(MaxLoss { margin: 0.2 }), 2.0 * b * others.min(1.0) * 0.2));
        assert!(near(Loss::InfoNce(InfoNceLoss { temperature: 0.1, learned: false }), b.ln()));
    }
    assert_eq!(loss_objective(hal_loss(FormulaVariant::Paper)).collapse_value(5), None);
    assert_eq!(semantic_objective(NegativeSampler::Random, FormulaVariant::Paper, 3.0).collapse_value(5), None);
}

/// Value of HAL if all scores are 0, with and without a memory bank, derived from the formulas.
#[test]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn value_of_hal_for_scores_of_zero() {
    let (gamma, epsilon) = (30.0f64, 0.3f64);
    for n in [1i64, 2, 7, 128] {
        let b = n as f64;
        let value = |variant, context: &ObjectiveContext<'_>| {
            evaluate(&loss_objective(hal_loss(variant)), &equal_scores(n, 0.0), context).0
        };
        let e = (-gamma * epsilon).exp();
        let paper = 2.0 / gamma * (1.0 + (b - 1.0) * e).ln();
        let official = 2.0 / gamma * (1.0 + b * e).ln();
        assert!((value(FormulaVariant::Paper, &ObjectiveContext::default()) - paper).abs() < 1e-14);
        assert!((value(FormulaVariant::Official, &ObjectiveContext::default()) - official).abs() < 1e-14);

        // A memory bank of four samples with score 0.05: every negative has the same weight.
        let row = || Tensor::full([n, 4], 0.05, (Kind::Double, Device::Cpu));
        let bank = MemoryBankScores { captions: row(), images: row() };
        let weights = MemoryBankWeights { neighbours: 3, ..MemoryBankWeights::default() };
        let context = ObjectiveContext { memory_bank: Some((&weights, &bank)), ..ObjectiveContext::default() };
        let with = |constant: f64, k: f64, term: f64, matching: f64| {
            let around = 2.0 * k * term.exp();
            let weight = around / (around + 2.0 * matching.exp());
            2.0 / gamma * (constant + (b - 1.0) * (gamma * weight * (0.0 - epsilon)).exp()).ln()
        };
        let paper = with(1.0, 3.0, 40.0 * (0.05 - 0.1), 40.0 * (0.0 - 0.2));
        let official = with(2.0, b.min(3.0), 40.0 * 0.05 - 0.1, 0.0);
        assert!((value(FormulaVariant::Paper, &context) - paper).abs() < 1e-12, "{n}");
        assert!((value(FormulaVariant::Official, &context) - official).abs() < 1e-12, "{n}");
    }
}

/// With the paper's settings the odds of neighbours against matching pairs are 54.6 times those of the scores alone; in
/// the published code 0.905 times for negatives, and equal for matching pairs.
#[test]
fn the_weights_of_the_published_code_differ_by_known_factors() {
    use super::hal::pair_weights;
    let n = 6;
    tch::manual_seed(1);
    let random = |width: i64| Tensor::rand([n, width], (Kind::Double, Device::Cpu)) * 0.5;
    let (scores, bank) = (random(n), MemoryBankScores { captions: random(9), images: random(9) });
    let settings = MemoryBankWeights { neighbours: 4, ..MemoryBankWeights::default() };
    let odds = |weights: &Tensor| weights / (1.0 - weights);
    let weights_of = |variant| pair_weights(&scores, &bank, &settings, variant);
    let (paper, official) = (weights_of(FormulaVariant::Paper), weights_of(FormulaVariant::Official));
    for (paper, official, expected) in [
        (&paper.negative, &official.negative, (-0.1f64).exp() / (40.0f64 * 0.1).exp()),
        (&paper.positive, &official.positive, 1.0 / (40.0f64 * 0.1).exp()),
    ] {
        let factors = numbers(&(odds(official) / odds(paper)));
        assert!(factors.iter().all(|factor| (factor / expected - 1.0).abs() < 1e-6), "{factors:?}, {expected}");
    }
    assert!(((40.0f64 * 0.1).exp() - 54.6).abs() < 0.01 && ((-0.1f64).exp() - 0.905).abs() < 0.001);
}

/// Exponents whose e^x overflows f32.
#[test]
fn large_temperatures_do_not_overflow() {
    let scores = Tensor::eye(4, (Kind::Float, Device::Cpu)) * 0.9;
    let bank = MemoryBankScores { captions: scores.narrow(0, 0, 4).copy(), images: scores.copy() };
    let weights = MemoryBankWeights { alpha: 500.0, beta: 500.0, neighbours: 2, ..MemoryBankWeights::default() };
    for variant in [FormulaVariant::Paper, FormulaVariant::Official] {
        let loss = Loss::Hal(HalLoss { gamma: 1000.0, epsilon: 0.0, variant, max: None });
        let context = ObjectiveContext { memory_bank: Some((&weights, &bank)), ..ObjectiveContext::default() };
        let got = loss_objective(loss).evaluate(&scores, &context).expect("consistent inputs");
        assert!(got.value.is_finite() && bool::try_from(got.d_scores.isfinite().all()).expect("a bool"));
    }
}

#[test]
fn a_score_that_is_not_finite_makes_the_value_not_finite() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for place in [(0, 0), (0, 2)] {
            let scores = equal_scores(4, 0.5);
            let _ = scores.narrow(0, place.0, 1).narrow(1, place.1, 1).fill_(bad);
            let phi = scores.zeros_like();
            let context = ObjectiveContext { relevance: Some(&phi), ..ObjectiveContext::default() };
            for objective in objectives(true) {
                assert!(!evaluate(&objective, &scores, &context).0.is_finite(), "{objective:?} and {bad}");
            }
        }
    }
}

#[test]
fn inconsistent_inputs_are_refused() {
    let scores = equal_scores(3, 0.1);
    let error_of = |objective: &Objective, scores: &Tensor, context: &ObjectiveContext<'_>| {
        objective.evaluate(scores, context).expect_err("inconsistent inputs").to_string()
    };
    let max = loss_objective(Loss::default());
    assert!(error_of(&max, &scores.narrow(0, 0, 2), &ObjectiveContext::default()).contains("[2, 3]"));
    assert!(error_of(&max, &equal_scores(0, 0.1), &ObjectiveContext::default()).contains("[0, 0]"));
    let small = equal_scores(2, 0.0);
    let context = ObjectiveContext { masked: Some(&small), ..ObjectiveContext::default() };
    assert!(error_of(&max, &scores, &context).contains("a mask [2, 2]"));
    let semantic = semantic_objective(NegativeSampler::Nearest, FormulaVariant::Paper, 3.0);
    assert!(error_of(&semantic, &scores, &ObjectiveContext::default()).contains("needs the relevance"));
    let bank = MemoryBankScores { captions: small.copy(), images: scores.copy() };
    let weights = MemoryBankWeights::default();
    let context = ObjectiveContext { memory_bank: Some((&weights, &bank)), ..ObjectiveContext::default() };
    assert!(
        error_of(&loss_objective(hal_loss(FormulaVariant::Paper)), &scores, &context).contains("[2, 2] and [3, 3]")
    );
}

#[test]
fn settings_of_the_golden_file_have_no_problems() {
    let batches = BatchSpec { pairs: 128, never_positive: false, sums: false };
    let problems = golden_losses().into_iter().flat_map(|loss| loss_objective(loss).problems(batches));
    assert_eq!(problems.filter(|problem| !problem.is_warning()).count(), 0);
}
