//! What is known of the objectives without a reference: identities, symmetries, values of batches that can be worked out.

use proptest::prelude::*;
use tch::{Device, Kind, Tensor};

use super::hal::Hal;
use super::info_nce::InfoNce;
use super::knn_margin::KnnMargin;
use super::local_scaling::LocalScaling;
use super::max::Max;
use super::sum::Sum;
use super::testing::{Golden, numbers, square};
use super::*;

fn only(loss: Loss) -> Objective {
    Objective { loss, semantic_margin: None }
}

fn hal(variant: Variant) -> Loss {
    Loss::Hal(Hal { variant, ..Hal::default() })
}

fn margins(sampler: Sampler, variant: Variant, temperature: f64) -> Objective {
    let settings = SemanticMargin { sampler, variant, temperature, keep_triplet: false, ..SemanticMargin::default() };
    Objective { loss: Loss::default(), semantic_margin: Some(settings) }
}

/// Every loss with the settings of its golden cases.
fn losses() -> Vec<Loss> {
    let mut losses: Vec<Loss> = Vec::new();
    for case in Golden::read().objectives {
        if case.semantic_margin.is_none() && !losses.contains(&case.loss) {
            losses.push(case.loss);
        }
    }
    losses
}

/// The losses, and margins by meaning; those of the published code's variant are not symmetric.
fn objectives(with_official_margins: bool) -> Vec<Objective> {
    let mut all: Vec<Objective> = losses().into_iter().map(only).collect();
    for sampler in [Sampler::Nearest, Sampler::Furthest] {
        all.push(margins(sampler, Variant::Paper, 3.0));
        if with_official_margins {
            all.push(margins(sampler, Variant::Official, 3.0));
        }
    }
    all
}

fn evaluate(objective: &Objective, scores: &Tensor, context: &Context<'_>) -> (f64, Vec<f64>) {
    let got = objective.evaluate(scores, context).expect("inputs that fit");
    (got.value, numbers(&got.d_scores))
}

fn close(a: &(f64, Vec<f64>), b: &(f64, Vec<f64>)) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9 * (1.0 + b.abs());
    near(a.0, b.0) && a.1.len() == b.1.len() && a.1.iter().zip(&b.1).all(|(a, b)| near(*a, *b))
}

/// Scores of up to nine pairs that differ from each other, and relevance of the same pairs.
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
        let value = |loss| evaluate(&only(loss), &scores, &Context::default());
        let all = usize::try_from(scores.size()[0] - 1).expect("two pairs or more");
        prop_assert_eq!(value(Loss::KnnMargin(KnnMargin { margin, k: 1 })), value(Loss::Max(Max { margin })));
        let sum = value(Loss::Sum(Sum { margin }));
        for k in [all, 1000] {
            let got = value(Loss::KnnMargin(KnnMargin { margin, k }));
            prop_assert!(close(&got, &sum), "k = {}", k);
        }
    }

    /// Numbering the pairs otherwise changes nothing but the places of the gradient.
    #[test]
    fn the_order_of_the_pairs_does_not_matter((scores, phi) in batches(), seed in any::<u64>()) {
        let mut order: Vec<usize> = (0..usize::try_from(scores.size()[0]).expect("a small number")).collect();
        crate::kernels::sample::Sample::new(seed, &[]).shuffle(&mut order);
        let order: Vec<i64> = order.into_iter().map(|at| i64::try_from(at).expect("a small number")).collect();
        let order = Tensor::from_slice(&order);
        let moved = |tensor: &Tensor| tensor.index_select(0, &order).index_select(1, &order);
        for objective in objectives(true) {
            let context = |relevance| Context { relevance: Some(relevance), ..Context::default() };
            let (value, gradient) = evaluate(&objective, &scores, &context(&phi));
            let wanted = (value, numbers(&moved(&square(&gradient))));
            let got = evaluate(&objective, &moved(&scores), &context(&moved(&phi)));
            prop_assert!(close(&got, &wanted), "{:?}: {:?} and {:?}", objective, got, wanted);
        }
    }

    /// Images and captions play the same part.
    #[test]
    fn exchanging_images_and_captions_turns_the_gradient((scores, phi) in batches(), rows in 3i64..40) {
        let n = scores.size()[0];
        tch::manual_seed(rows);
        let random = || Tensor::rand([n, rows], (Kind::Double, Device::Cpu)) - 0.5;
        let scores_of = |captions: &Tensor, images: &Tensor| BankScores {
            captions: captions.shallow_clone(),
            images: images.shallow_clone(),
        };
        let (captions, images) = (random(), random());
        let (there, back) = (scores_of(&captions, &images), scores_of(&images, &captions));
        let weights = BankWeights { neighbours: 5, alpha: 4.0, ..BankWeights::default() };
        for objective in objectives(false) {
            let context = |bank| Context {
                bank: Some((&weights, bank)),
                relevance: Some(&phi),
                ..Context::default()
            };
            let (value, gradient) = evaluate(&objective, &scores, &context(&there));
            let wanted = (value, numbers(&square(&gradient).tr()));
            let got = evaluate(&objective, &scores.tr(), &context(&back));
            prop_assert!(close(&got, &wanted), "{:?}: {:?} and {:?}", objective, got, wanted);
        }
    }

    /// What is masked neither counts nor moves, whatever its score.
    #[test]
    fn masked_pairs_do_not_exist((scores, phi) in batches(), other in -1.0f64..1.0) {
        let n = scores.size()[0];
        let masked = Tensor::zeros([n, n], (Kind::Bool, Device::Cpu));
        let _ = masked.narrow(0, 0, 1).narrow(1, 1, 1).fill_(1);
        let _ = masked.narrow(0, 1, 1).narrow(1, 0, 1).fill_(1);
        let changed = scores.where_self(&masked.logical_not(), &Tensor::from(other));
        for objective in objectives(true) {
            let context = Context { masked: Some(&masked), relevance: Some(&phi), ..Context::default() };
            let got = evaluate(&objective, &scores, &context);
            prop_assert_eq!(&got, &evaluate(&objective, &changed, &context), "{:?}", objective);
            prop_assert!(got.1[1] == 0.0 && got.1[usize::try_from(n).expect("small")] == 0.0, "{:?}", objective);
        }
    }

    /// Objectives that compare scores do not see what is added to all of them: triplets of scores that are not scaled, and
    /// shares of them.
    #[test]
    fn a_constant_added_to_all_scores_changes_no_comparison((scores, phi) in batches(), constant in -3.0f64..3.0) {
        let blind = objectives(true).into_iter().filter(|objective| {
            matches!(objective.loss, Loss::Sum(_) | Loss::Max(_) | Loss::KnnMargin(_) | Loss::InfoNce(_))
        });
        for objective in blind {
            let context = Context { relevance: Some(&phi), ..Context::default() };
            let got = evaluate(&objective, &(&scores + constant), &context);
            prop_assert!(close(&got, &evaluate(&objective, &scores, &context)), "{:?}", objective);
            prop_assert!(got.1.iter().sum::<f64>().abs() < 1e-9);
        }
    }

    /// Where every negative says as much less as the others, the margin is a constant; where τ is large, it is 0.
    #[test]
    fn margins_by_meaning_become_the_margin_of_max((scores, phi) in batches(), margin in 0.0f64..1.0) {
        let n = scores.size()[0];
        let alike = Tensor::eye(n, (Kind::Double, Device::Cpu)) * margin * 3.0;
        for (relevance, temperature, margin, error) in [(&alike, 3.0, margin, 1e-9), (&phi, 1e12, 0.0, 1e-9)] {
            let context = Context { relevance: Some(relevance), ..Context::default() };
            let got = evaluate(&margins(Sampler::Nearest, Variant::Paper, temperature), &scores, &context).0;
            let wanted = evaluate(&only(Loss::Max(Max { margin })), &scores, &Context::default()).0;
            prop_assert!((got - wanted).abs() < error * 1e2, "{} and {}", got, wanted);
        }
    }

    #[test]
    fn f32_is_near_f64((scores, phi) in batches()) {
        for objective in objectives(true) {
            let context = Context { relevance: Some(&phi), ..Context::default() };
            // The same scores in both, so that the same negatives are the nearest.
            let single = scores.to_kind(Kind::Float);
            let got = objective.evaluate(&single, &context).expect("inputs that fit");
            let wanted = objective.evaluate(&single.to_kind(Kind::Double), &context).expect("inputs that fit");
            prop_assert!((got.value - wanted.value).abs() < 1e-4 * (1.0 + wanted.value.abs()), "{:?}", objective);
        }
    }
}

fn equal_scores(n: i64, score: f64) -> Tensor {
    Tensor::full([n, n], score, (Kind::Double, Device::Cpu))
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn the_collapse_value_is_what_equal_scores_cost() {
    for n in [1i64, 2, 5, 128] {
        for loss in losses() {
            let wanted = only(loss.clone()).collapsed(usize::try_from(n).expect("a small number"));
            let Some(wanted) = wanted else { continue };
            for score in [-0.4, 0.0, 0.7] {
                let got = evaluate(&only(loss.clone()), &equal_scores(n, score), &Context::default()).0;
                assert!((got - wanted).abs() < 1e-9 * wanted.max(1.0), "{loss:?}, {n}: {got} and {wanted}");
            }
        }
        let (b, others) = (n as f64, (n - 1) as f64);
        let pairs = usize::try_from(n).expect("a small number");
        let near = |loss: Loss, wanted: f64| (only(loss).collapsed(pairs).expect("defined") - wanted).abs() < 1e-9;
        assert!(near(Loss::Sum(Sum { margin: 0.2 }), 2.0 * b * others * 0.2));
        assert!(near(Loss::Max(Max { margin: 0.2 }), 2.0 * b * others.min(1.0) * 0.2));
        assert!(near(Loss::InfoNce(InfoNce { temperature: 0.1 }), b.ln()));
    }
    assert_eq!(only(hal(Variant::Paper)).collapsed(5), None);
    assert_eq!(margins(Sampler::Random, Variant::Paper, 3.0).collapsed(5), None);
}

/// Scores of 0, with bank and without: the values that follow from the formulas.
#[test]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn hal_of_scores_of_zero() {
    let (gamma, epsilon) = (30.0f64, 0.3f64);
    for n in [1i64, 2, 7, 128] {
        let b = n as f64;
        let value = |variant, context: &Context<'_>| evaluate(&only(hal(variant)), &equal_scores(n, 0.0), context).0;
        let e = (-gamma * epsilon).exp();
        let paper = 2.0 / gamma * (1.0 + (b - 1.0) * e).ln();
        let official = 2.0 / gamma * (1.0 + b * e).ln();
        assert!((value(Variant::Paper, &Context::default()) - paper).abs() < 1e-14);
        assert!((value(Variant::Official, &Context::default()) - official).abs() < 1e-14);

        // A bank whose four rows all have score 0.05: every negative has the same weight.
        let row = || Tensor::full([n, 4], 0.05, (Kind::Double, Device::Cpu));
        let bank = BankScores { captions: row(), images: row() };
        let weights = BankWeights { neighbours: 3, ..BankWeights::default() };
        let context = Context { bank: Some((&weights, &bank)), ..Context::default() };
        let with = |constant: f64, k: f64, term: f64, matching: f64| {
            let around = 2.0 * k * term.exp();
            let weight = around / (around + 2.0 * matching.exp());
            2.0 / gamma * (constant + (b - 1.0) * (gamma * weight * (0.0 - epsilon)).exp()).ln()
        };
        let paper = with(1.0, 3.0, 40.0 * (0.05 - 0.1), 40.0 * (0.0 - 0.2));
        let official = with(2.0, b.min(3.0), 40.0 * 0.05 - 0.1, 0.0);
        assert!((value(Variant::Paper, &context) - paper).abs() < 1e-12, "{n}");
        assert!((value(Variant::Official, &context) - official).abs() < 1e-12, "{n}");
    }
}

/// With the papers' settings the odds of the bank's rows against matching pairs are 54.6 times what the scores say, in the
/// published code 0.905 times for negatives and once for matching pairs.
#[test]
fn the_published_weights_are_off_by_known_factors() {
    use super::bank_weights::bank_weights;
    let n = 6;
    tch::manual_seed(1);
    let random = |width: i64| Tensor::rand([n, width], (Kind::Double, Device::Cpu)) * 0.5;
    let (scores, bank) = (random(n), BankScores { captions: random(9), images: random(9) });
    let settings = BankWeights { neighbours: 4, ..BankWeights::default() };
    let odds = |weights: &Tensor| weights / (1.0 - weights);
    let of = |variant| bank_weights(&scores, &bank, &settings, variant);
    let (paper, official) = (of(Variant::Paper), of(Variant::Official));
    for (paper, official, wanted) in [
        (&paper.negative, &official.negative, (-0.1f64).exp() / (40.0f64 * 0.1).exp()),
        (&paper.positive, &official.positive, 1.0 / (40.0f64 * 0.1).exp()),
    ] {
        let factors = numbers(&(odds(official) / odds(paper)));
        assert!(factors.iter().all(|factor| (factor / wanted - 1.0).abs() < 1e-6), "{factors:?}, {wanted}");
    }
    assert!(((40.0f64 * 0.1).exp() - 54.6).abs() < 0.01 && ((-0.1f64).exp() - 0.905).abs() < 0.001);
}

/// Weights beyond what e^x can hold in f32.
#[test]
fn large_temperatures_do_not_overflow() {
    let scores = Tensor::eye(4, (Kind::Float, Device::Cpu)) * 0.9;
    let bank = BankScores { captions: scores.narrow(0, 0, 4).copy(), images: scores.copy() };
    let weights = BankWeights { alpha: 500.0, beta: 500.0, neighbours: 2, ..BankWeights::default() };
    for variant in [Variant::Paper, Variant::Official] {
        let loss = Loss::Hal(Hal { gamma: 1000.0, epsilon: 0.0, variant, max: None });
        let context = Context { bank: Some((&weights, &bank)), ..Context::default() };
        let got = only(loss).evaluate(&scores, &context).expect("inputs that fit");
        assert!(got.value.is_finite() && bool::try_from(got.d_scores.isfinite().all()).expect("a bool"));
    }
}

#[test]
fn a_score_that_is_not_finite_is_seen() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for place in [(0, 0), (0, 2)] {
            let scores = equal_scores(4, 0.5);
            let _ = scores.narrow(0, place.0, 1).narrow(1, place.1, 1).fill_(bad);
            let phi = scores.zeros_like();
            let context = Context { relevance: Some(&phi), ..Context::default() };
            for objective in objectives(true) {
                assert!(!evaluate(&objective, &scores, &context).0.is_finite(), "{objective:?} and {bad}");
            }
        }
    }
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let scores = equal_scores(3, 0.1);
    let refused = |objective: &Objective, scores: &Tensor, context: &Context<'_>| {
        objective.evaluate(scores, context).expect_err("it does not fit").to_string()
    };
    let max = only(Loss::default());
    assert!(refused(&max, &scores.narrow(0, 0, 2), &Context::default()).contains("[2, 3]"));
    assert!(refused(&max, &equal_scores(0, 0.1), &Context::default()).contains("[0, 0]"));
    let small = equal_scores(2, 0.0);
    let context = Context { masked: Some(&small), ..Context::default() };
    assert!(refused(&max, &scores, &context).contains("a mask [2, 2]"));
    let by_meaning = margins(Sampler::Nearest, Variant::Paper, 3.0);
    assert!(refused(&by_meaning, &scores, &Context::default()).contains("without the relevance"));
    let bank = BankScores { captions: small.copy(), images: scores.copy() };
    let weights = BankWeights::default();
    let context = Context { bank: Some((&weights, &bank)), ..Context::default() };
    assert!(refused(&only(hal(Variant::Paper)), &scores, &context).contains("[2, 2] and [3, 3]"));
}

#[test]
fn settings_have_the_defaults_of_the_papers() {
    let read = |text: &str| serde_json::from_str::<Loss>(text).expect("a loss");
    assert_eq!(read(r#"{"sum":{}}"#), Loss::Sum(Sum { margin: 0.2 }));
    assert_eq!(read(r#"{"knn_margin":{}}"#), Loss::KnnMargin(KnnMargin::default()));
    assert_eq!(read(r#"{"local_scaling":{}}"#), Loss::LocalScaling(LocalScaling::default()));
    assert_eq!(read(r#"{"hal":{}}"#), hal(Variant::Paper));
    assert_eq!(read(r#"{"info_nce":{}}"#), Loss::InfoNce(InfoNce { temperature: 0.07 }));
    assert!(serde_json::from_str::<Loss>(r#"{"max":{"marign":0.2}}"#).is_err());
    assert_eq!(serde_json::from_str::<SemanticMargin>("{}").expect("margins"), SemanticMargin::default());
}

#[test]
fn settings_that_cannot_work_are_named() {
    let named = |objective: &Objective, pairs| -> Vec<String> {
        let batches = BatchSpec { pairs, never_positive: false };
        objective.problems(batches).into_iter().map(|(setting, message)| format!("{setting}: {message}")).collect()
    };
    assert!(losses().into_iter().all(|loss| named(&only(loss), 128).is_empty()));
    assert_eq!(
        named(&only(Loss::KnnMargin(KnnMargin { margin: -1.0, k: 8 })), 8),
        [
            "loss.knn_margin.margin: got -1, wanted 0 or more",
            "loss.knn_margin.k: got 8, wanted at most 7: the negatives of each in a batch of 8"
        ]
    );
    let mut beside = margins(Sampler::Nearest, Variant::Paper, 0.0);
    beside.loss = hal(Variant::Paper);
    assert_eq!(named(&beside, 8), ["semantic_margin.temperature: got 0, wanted a number above 0"]);
    beside.semantic_margin = Some(SemanticMargin::default());
    assert!(named(&beside, 8)[0].starts_with("semantic_margin: got it beside `hal`"));
}
