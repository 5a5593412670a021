//! Comparison of the model, its gradients and its optimiser with PyTorch.

use std::collections::HashMap;

use serde::Deserialize;
use tch::Tensor;

use super::VseConfig;
use super::testing::{
    compute_loss_and_gradients, embed_captions, embed_images, forward_and_backward, max_difference, model_with,
    new_training,
};
use crate::family::model::Model;
use pairloom_spec::loss::{Loss, MaxLoss};

#[derive(Deserialize)]
struct GoldenTensor {
    shape: Vec<i64>,
    values: Vec<f64>,
}

#[derive(Deserialize)]
struct VseGoldenFile {
    features: Vec<f32>,
    captions: Vec<Vec<i32>>,
    margin: f64,
    clip: f64,
    rate: f64,
    cases: Vec<VseGoldenCase>,
}

#[derive(Deserialize)]
struct VseGoldenCase {
    #[serde(rename = "form")]
    config: VseConfig,
    before: HashMap<String, GoldenTensor>,
    images: Vec<f64>,
    texts: Vec<f64>,
    gradients: HashMap<String, GoldenTensor>,
    losses: Vec<f64>,
    norms: Vec<f64>,
    after: HashMap<String, GoldenTensor>,
}

impl VseGoldenCase {
    fn model(&self) -> Box<dyn Model> {
        let expected = self.config.parameter_specs().expect("widths");
        let parameters = expected.iter().map(|parameter| self.before[&parameter.name].tensor()).collect();
        model_with(&self.config, parameters).expect("shapes fit")
    }
}

impl GoldenTensor {
    fn tensor(&self) -> Tensor {
        Tensor::from_slice(&self.values).view(self.shape.as_slice())
    }
}

/// `tests/golden/vse.py` computed the golden file with `torch.nn.GRU`, `torch.optim.Adam` and `clip_grad_norm_` in f64.
#[test]
fn all_variants_with_gradients_clipping_and_adam_agree_with_pytorch() {
    let golden: VseGoldenFile =
        serde_json::from_str(include_str!("../../../../tests/golden/vse.json")).expect("golden models");
    let captions: Vec<&[i32]> = golden.captions.iter().map(Vec::as_slice).collect();
    assert_eq!(golden.cases.len(), 9);
    for case in &golden.cases {
        let config = &case.config;
        let vse = case.model();
        let (images, texts, _) =
            forward_and_backward(&*vse, &golden.features, &captions, |like| [like.copy(), like.copy()]);
        assert!(max_difference(&images.view(-1), &Tensor::from_slice(&case.images)) < 1e-12, "{config:?}");
        assert!(max_difference(&texts.view(-1), &Tensor::from_slice(&case.texts)) < 1e-12, "{config:?}");
        assert_eq!(embed_captions(&*vse, &captions).expect("captions"), texts);
        // Images that are not normalised for the loss are normalised for search.
        let found = embed_images(&*vse, &golden.features).expect("images");
        assert!(max_difference(&found, &(&images / images.norm_scalaropt_dim(2, [1i64].as_slice(), true))) < 1e-12);

        let mut training = new_training(config, vse);
        let trained = training.model().parameters().trainable();
        assert_eq!(trained.len(), case.gradients.len());
        for (i, (expected, norm)) in case.losses.iter().zip(&case.norms).enumerate() {
            let loss = Loss::Max(MaxLoss { margin: golden.margin });
            let step =
                compute_loss_and_gradients(training.model(), &golden.features, &captions, loss).expect("gradients");
            assert!((step.loss - expected).abs() < 1e-10, "{config:?}, step {i}: {} and {expected}", step.loss);
            if i == 0 {
                for (got, (name, _)) in step.parameters.iter().zip(&trained) {
                    let expected = case.gradients[name].tensor();
                    assert!(
                        max_difference(got, &expected) < 1e-12,
                        "{config:?}, gradient of `{name}`:\n{got}\n{expected}"
                    );
                }
            }
            let got = training.apply_gradients(&step.parameters, golden.clip, golden.rate, 0.0);
            assert!((got - norm).abs() < 1e-10, "{config:?}, norm {i}: {got} and {norm}");
        }
        for (got, name) in training.model().parameters().tensors().iter().zip(training.model().parameters().names()) {
            let expected = case.after[&name].tensor();
            assert!(
                max_difference(got, &expected) < 1e-9,
                "{config:?}, `{name}` after five steps: {}",
                max_difference(got, &expected)
            );
        }
    }
}
