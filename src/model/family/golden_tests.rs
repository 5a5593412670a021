//! Comparison of the scores of every family, a loss, its gradients and the running statistics with PyTorch.

use std::collections::BTreeMap;

use az::SaturatingAs;
use serde::Deserialize;
use tch::{Kind, Tensor};

use super::encode;
use super::model::Model;
use super::registry::{DescribeModel, ModelConfig};
use crate::collective::CollectiveGroup;
use crate::step::{PairBatch, StepOptions, loss_and_gradients};
use pairloom_base::runtime::CancelToken;
use pairloom_kernels::epoch::TrainingPair;
use pairloom_spec::family::ModelSettings;
use pairloom_spec::input_spec::InputSpec;
use pairloom_spec::loss::{Loss, SumLoss};

#[derive(Deserialize)]
struct GoldenScores {
    width: usize,
    places: usize,
    words: usize,
    #[serde(default)]
    concepts: Option<usize>,
    margin: f64,
    captions: Vec<Vec<i32>>,
    images: Vec<f32>,
    /// Parameters of the cases that have none of their own.
    #[serde(default)]
    parameters: BTreeMap<String, NamedValues>,
    cases: Vec<GoldenScoresCase>,
}

#[derive(Deserialize)]
struct GoldenScoresCase {
    settings: serde_json::Value,
    #[serde(default)]
    parameters: BTreeMap<String, NamedValues>,
    scores: Vec<f64>,
    /// Attention of image i and caption i, `[words, regions]`; empty for a model without.
    #[serde(default)]
    attention: Vec<Vec<f64>>,
    #[serde(default)]
    auxiliary: BTreeMap<String, f64>,
    loss: f64,
    gradients: BTreeMap<String, NamedValues>,
    #[serde(default)]
    buffers: BTreeMap<String, NamedValues>,
}

#[derive(Deserialize)]
struct NamedValues {
    shape: Vec<i64>,
    values: Vec<f64>,
}

impl NamedValues {
    fn tensor(&self, kind: Kind) -> Tensor {
        Tensor::from_slice(&self.values).view(self.shape.as_slice()).to_kind(kind)
    }
}

/// Largest differences of a model from PyTorch: of scores in f64 and f32, and of gradients in f64.
#[derive(Debug, Default)]
struct ParityDistances {
    scores: [f64; 2],
    gradients: f64,
}

impl ParityDistances {
    fn maximum(&self, other: &Self) -> Self {
        let scores = [0, 1].map(|kind| self.scores[kind].max(other.scores[kind]));
        Self { scores, gradients: self.gradients.max(other.gradients) }
    }
}

impl GoldenScores {
    fn config(&self, family: &str, case: &GoldenScoresCase) -> ModelConfig {
        let settings: ModelSettings =
            serde_json::from_value(serde_json::json!({ family: case.settings })).expect("settings");
        assert_eq!(settings.problems(), []);
        let data = InputSpec::for_regions(self.places, self.width, self.words);
        settings.config(InputSpec { concepts: self.concepts, ..data })
    }

    fn parameters<'c>(&'c self, case: &'c GoldenScoresCase) -> &'c BTreeMap<String, NamedValues> {
        if case.parameters.is_empty() { &self.parameters } else { &case.parameters }
    }

    fn model(config: &ModelConfig, parameters: &BTreeMap<String, NamedValues>, kind: Kind) -> Box<dyn Model> {
        let specs = config.parameter_specs().expect("widths");
        let mut names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        let mut expected: Vec<&str> = parameters.keys().map(String::as_str).collect();
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected);
        let tensors = specs.iter().map(|spec| parameters[&spec.name].tensor(kind)).collect();
        config.with_parameters(tensors).expect("a model")
    }

    fn check(&self, family: &str, case: &GoldenScoresCase) -> ParityDistances {
        let mut largest = ParityDistances::default();
        let (config, settings, cancel) = (self.config(family, case), &case.settings, CancelToken::new());
        let parameters = self.parameters(case);
        let captions: Vec<&[i32]> = self.captions.iter().map(Vec::as_slice).collect();
        for (index, (kind, most)) in [(Kind::Double, 1e-12), (Kind::Float, 5e-6)].into_iter().enumerate() {
            let model = Self::model(&config, parameters, kind);
            let images = encode::images(&*model, &self.images, self.width * self.places, &cancel).expect("images");
            let captions = encode::captions(&*model, &captions, &cancel).expect("captions");
            let scores = model.scores(&images, &captions).expect("scores");
            let distance = distance(&scores, &case.scores);
            assert!(distance < most, "{family} {settings}: scores in {kind:?} differ by {distance}");
            largest.scores[index] = distance;
            let pairs = (0..self.captions.len()).filter_map(|pair| {
                model.word_attention(&images.slice(pair..pair + 1), &captions.slice(pair..pair + 1))
            });
            let found: Vec<Tensor> = pairs.map(|attention| attention.weights).collect();
            assert_eq!(found.len(), case.attention.len(), "{family} {settings}");
            for (got, expected) in found.iter().zip(&case.attention) {
                let distance = self::distance(got, expected);
                assert!(distance < most, "{family} {settings}: attention in {kind:?} differs by {distance}");
            }
        }
        let model = Self::model(&config, parameters, Kind::Double);
        let pairs = TrainingPair::unrelated(self.captions.len());
        let batch = PairBatch { images: &self.images, captions: &captions, pairs: &pairs, relevance: None };
        let options = StepOptions::from(Loss::Sum(SumLoss { margin: self.margin }));
        let found =
            loss_and_gradients(&*model, &[], &batch, &options, None, 0, &CollectiveGroup::single()).expect("gradients");
        let auxiliary: BTreeMap<String, f64> =
            found.auxiliary.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(auxiliary.len(), case.auxiliary.len(), "{auxiliary:?}");
        for (name, expected) in &case.auxiliary {
            assert!((auxiliary[name] - expected).abs() < 1e-11, "{family} {settings} `{name}`: {auxiliary:?}");
        }
        let total = found.loss + auxiliary.values().sum::<f64>();
        assert!((total - case.loss).abs() < 1e-11, "{family} {settings}: {total} and {}", case.loss);
        let trainable = model.parameters().trainable();
        assert_eq!(trainable.len(), case.gradients.len());
        for ((name, _), got) in trainable.iter().zip(&found.parameters) {
            let distance = distance(got, &case.gradients[name].values);
            assert!(distance < 1e-11, "{family} {settings}: gradients of `{name}` differ by {distance}");
            largest.gradients = largest.gradients.max(distance);
        }
        let names = model.parameters().names();
        let buffers = found.buffers.iter().map(|(&index, value)| (&names[index], value));
        let mut updated = 0;
        for (name, got) in buffers {
            let distance = distance(got, &case.buffers[name].values);
            assert!(distance < 1e-12, "{family} {settings}: `{name}` differs by {distance}");
            updated += 1;
        }
        let fixed = case.buffers.iter().filter(|(name, value)| parameters[*name].values == value.values);
        assert_eq!(updated + fixed.count(), case.buffers.len(), "{family} {settings}: running statistics");
        largest
    }
}

fn distance(got: &Tensor, expected: &[f64]) -> f64 {
    assert_eq!(got.numel(), expected.len());
    (got.to_kind(Kind::Double).reshape([-1]) - Tensor::from_slice(expected)).abs().max().double_value(&[])
}

fn check_all(family: &str, text: &str, cases: usize) {
    let golden: GoldenScores = serde_json::from_str(text).expect("golden scores");
    assert_eq!(golden.cases.len(), cases);
    assert_eq!(golden.images.len(), golden.captions.len() * golden.places.saturating_as::<usize>() * golden.width);
    // SGR and SAF are two modules of one family.
    let mut all: BTreeMap<&str, ParityDistances> = BTreeMap::new();
    for case in &golden.cases {
        let found = golden.check(family, case);
        let model = all.entry(case.settings["module"].as_str().unwrap_or(family)).or_default();
        *model = model.maximum(&found);
    }
    for (model, ParityDistances { scores: [f64s, f32s], gradients }) in all {
        println!("{model}: scores differ by {f64s:.1e} in f64 and {f32s:.1e} in f32, gradients by {gradients:.1e}");
    }
}

/// `tests/golden/scan.py` forms the attended vectors, one pair at a time.
#[test]
fn scan_agrees_with_pytorch() {
    check_all("scan", include_str!("../../../tests/golden/scan.json"), 16);
}

/// `tests/golden/region_models.py` computes one image, caption or pair at a time.
#[test]
fn vse_infinity_agrees_with_pytorch() {
    check_all("vse_infinity", include_str!("../../../tests/golden/vse_infinity.json"), 4);
}

#[test]
fn sgr_and_saf_agree_with_pytorch() {
    check_all("sgraf", include_str!("../../../tests/golden/sgraf.json"), 3);
}

#[test]
fn vsrn_agrees_with_pytorch() {
    check_all("vsrn", include_str!("../../../tests/golden/vsrn.json"), 4);
}

#[test]
fn cvse_agrees_with_pytorch() {
    check_all("cvse", include_str!("../../../tests/golden/cvse.json"), 4);
}

/// Scores with w = 1 are the cosines of consensus vectors: with stored statistics and the same labels they have the value
/// of the loss `consensus` that PyTorch computed in training. Those with another w are between both.
#[test]
fn consensus_scores_are_added_to_those_of_cvse_by_their_weight() {
    let text = include_str!("../../../tests/golden/cvse_image_labels.json");
    let golden: GoldenScores = serde_json::from_str(text).expect("golden scores");
    let case = golden.cases.iter().find(|case| case.settings["batch_norm"] == "frozen").expect("a case");
    let captions: Vec<&[i32]> = golden.captions.iter().map(Vec::as_slice).collect();
    let scores = |weight: f64| -> Vec<f64> {
        let mut settings = case.settings.clone();
        settings["consensus_score_weight"] = weight.into();
        let model: ModelSettings = serde_json::from_value(serde_json::json!({ "cvse": settings })).expect("settings");
        let data = InputSpec::for_regions(golden.places, golden.width, golden.words);
        let config = model.config(InputSpec { concepts: golden.concepts, ..data });
        let model = GoldenScores::model(&config, golden.parameters(case), Kind::Double);
        let cancel = CancelToken::new();
        let images = encode::images(&*model, &golden.images, golden.width * golden.places, &cancel).expect("images");
        let captions = encode::captions(&*model, &captions, &cancel).expect("captions");
        let own = |side: &Tensor| (side * side).sum_dim_intlist(1i64, false, None::<Kind>);
        assert!((own(&images.vectors) - 1.0).abs().max().double_value(&[]) < 1e-12, "unit vectors");
        let scores = model.scores(&images, &captions).expect("scores");
        let products = images.vectors.matmul(&captions.vectors.tr());
        assert!((&scores - products).abs().max().double_value(&[]) < 1e-14, "the score is that of `embed`");
        Vec::try_from(scores.reshape([-1])).expect("f64")
    };
    let (fused, consensus, published) = (scores(0.0), scores(1.0), scores(0.05));
    assert!(fused.iter().zip(&case.scores).all(|(got, expected)| (got - expected).abs() < 1e-12));
    for ((fused, consensus), got) in fused.iter().zip(&consensus).zip(published) {
        assert!((0.95 * fused + 0.05 * consensus - got).abs() < 1e-12);
    }
    let n = captions.len();
    let at = |row: usize, column: usize| consensus[row * n + column];
    let others = |own: usize| (0..n).filter(move |&other| other != own);
    let hardest = |own: usize, score: &dyn Fn(usize) -> f64| {
        others(own).map(|j| 0.2 + score(j) - at(own, own)).fold(0.0, f64::max)
    };
    let loss: f64 = (0..n).map(|own| hardest(own, &|j| at(own, j)) + hardest(own, &|i| at(i, own))).sum();
    let expected = case.auxiliary["consensus"] / case.settings["consensus_weight"].as_f64().expect("a weight");
    assert!((loss - expected).abs() < 1e-11, "{loss} and {expected}");
}

#[test]
fn cvse_with_labels_of_images_agrees_with_pytorch() {
    check_all("cvse", include_str!("../../../tests/golden/cvse_image_labels.json"), 2);
}
