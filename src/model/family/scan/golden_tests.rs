//! Comparison of scores, a loss and its gradients with PyTorch.

use std::collections::HashMap;

use serde::Deserialize;
use tch::{Kind, Tensor};

use super::config::ScanConfig;
use super::settings::ScanSettings;
use crate::model::collective::CollectiveGroup;
use crate::model::family::contract::Family;
use crate::model::family::encode;
use crate::model::family::input_spec::InputSpec;
use crate::model::family::model::Model;
use crate::model::family::registry::ModelConfig;
use crate::model::loss::Loss;
use crate::model::loss::sum::SumLoss;
use crate::model::memory_bank::TrainingPair;
use crate::model::step::{PairBatch, StepOptions, loss_and_gradients};
use crate::runtime::CancelToken;

#[derive(Deserialize)]
struct ScanGoldenFile {
    width: usize,
    places: usize,
    words: usize,
    margin: f64,
    captions: Vec<Vec<i32>>,
    images: Vec<f32>,
    parameters: HashMap<String, NamedValues>,
    cases: Vec<ScanGoldenCase>,
}

#[derive(Deserialize)]
struct ScanGoldenCase {
    settings: ScanSettings,
    scores: Vec<f64>,
    loss: f64,
    gradients: HashMap<String, NamedValues>,
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

impl ScanGoldenFile {
    fn read() -> Self {
        serde_json::from_str(include_str!("../../../../tests/golden/scan.json")).expect("golden scores")
    }

    fn model(&self, case: &ScanGoldenCase, kind: Kind) -> Box<dyn Model> {
        let data = InputSpec { regions: Some(self.places), ..InputSpec::for_features(self.width, self.words) };
        let config = ScanConfig::from_settings(&case.settings, data);
        let specs = config.parameter_specs().expect("widths");
        assert_eq!(specs.len(), self.parameters.len());
        let parameters = specs.iter().map(|spec| self.parameters[&spec.name].tensor(kind)).collect();
        ModelConfig::Scan(config).with_parameters(parameters).expect("a model")
    }

    fn captions(&self) -> Vec<&[i32]> {
        self.captions.iter().map(Vec::as_slice).collect()
    }
}

fn distance(got: &Tensor, wanted: &[f64]) -> f64 {
    (got.to_kind(Kind::Double).view(-1) - Tensor::from_slice(wanted)).abs().max().double_value(&[])
}

/// `tests/golden/scan.py` forms the attended vectors, one pair at a time.
#[test]
fn scores_and_gradients_of_all_forms_agree_with_pytorch() {
    let golden = ScanGoldenFile::read();
    assert_eq!(golden.cases.len(), 16);
    for case in &golden.cases {
        let settings = &case.settings;
        for (kind, most) in [(Kind::Double, 1e-12), (Kind::Float, 2e-6)] {
            let model = golden.model(case, kind);
            let width = golden.width * golden.places;
            let images = encode::images(&*model, &golden.images, width, &CancelToken::new()).expect("images");
            let captions = encode::captions(&*model, &golden.captions(), &CancelToken::new()).expect("captions");
            assert_eq!(images.lengths, Some(vec![4, 3, 1, 4, 2]));
            let scores = model.scores(&images, &captions).expect("scores");
            assert!(distance(&scores, &case.scores) < most, "{settings:?} {}", distance(&scores, &case.scores));
        }
        let model = golden.model(case, Kind::Double);
        let (pairs, captions) = (TrainingPair::unrelated(5), golden.captions());
        let batch = PairBatch { images: &golden.images, captions: &captions, pairs: &pairs, relevance: None };
        let options = StepOptions::from(Loss::Sum(SumLoss { margin: golden.margin }));
        let found =
            loss_and_gradients(&*model, &batch, &options, None, 0, &CollectiveGroup::single()).expect("gradients");
        assert!((found.loss - case.loss).abs() < 1e-11, "{settings:?}: {} and {}", found.loss, case.loss);
        for ((name, _), got) in model.parameters().trainable().iter().zip(&found.parameters) {
            let wanted = &case.gradients[name].values;
            assert!(distance(got, wanted) < 1e-11, "{settings:?} `{name}`: {}", distance(got, wanted));
        }
    }
}
