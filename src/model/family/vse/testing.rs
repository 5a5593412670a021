//! Test helpers of VSE++.

use tch::{Device, Tensor};

use super::VseConfig;
use crate::collective::CollectiveGroup;
use crate::family::image_rows::ImageRows;
use crate::family::model::{LocalBatch, Model};
use crate::family::{encode, registry};
use crate::step::{LossAndGradients, PairBatch, StepOptions, StepResult, loss_and_gradients};
use crate::training_state::TrainingState;
use pairloom_base::error::Result;
use pairloom_base::runtime::CancelToken;
use pairloom_kernels::epoch::TrainingPair;
use pairloom_kernels::random::Rng;
use pairloom_spec::loss::Loss;

/// Creates a model with random parameters.
pub(super) fn create(config: &VseConfig, seed: u64) -> Box<dyn Model> {
    registry::ModelConfig::Vse(config.clone()).create(seed, Device::Cpu).expect("a model")
}

pub(super) fn model_with(config: &VseConfig, parameters: Vec<Tensor>) -> Result<Box<dyn Model>> {
    registry::ModelConfig::Vse(config.clone()).with_parameters(parameters)
}

pub(super) fn new_training(config: &VseConfig, model: Box<dyn Model>) -> TrainingState {
    TrainingState::new(registry::ModelConfig::Vse(config.clone()), model)
}

pub(super) fn embed_images(model: &dyn Model, images: &[f32]) -> Result<Tensor> {
    Ok(model.encode_images(&image_rows(model, images)?)?.vectors)
}

pub(super) fn image_rows<'b>(model: &dyn Model, images: &'b [f32]) -> Result<ImageRows<'b>> {
    ImageRows::new(images, model.input_spec().values_per_image(), &model.parameters().tensors()[0])
}

pub(super) fn embed_captions(model: &dyn Model, captions: &[&[i32]]) -> Result<Tensor> {
    Ok(encode::captions(model, captions, &CancelToken::new())?.vectors)
}

/// Embeds a batch as a training step does. Returns the embeddings of images and captions, and the gradients of the
/// parameters for the gradients in the embeddings that `upstream` returns.
pub(super) fn forward_and_backward(
    model: &dyn Model,
    images: &[f32],
    captions: &[&[i32]],
    upstream: impl FnOnce(&Tensor) -> [Tensor; 2],
) -> (Tensor, Tensor, Vec<Tensor>) {
    let images = image_rows(model, images).expect("rows");
    let local_batch =
        LocalBatch { images, captions, pairs: 0..captions.len(), global_size: captions.len(), seed_and_step: [0, 0] };
    let encoded = model.encode_batch(&local_batch).expect("embeddings");
    let (images, captions) = (encoded.images.vectors.copy(), encoded.captions.vectors.copy());
    let [d_images, d_captions] = upstream(&images);
    (images, captions, (encoded.backward)(&d_images, &d_captions).expect("gradients"))
}

/// Computes a loss on a batch and its gradients.
pub(super) fn compute_loss_and_gradients(
    model: &dyn Model,
    images: &[f32],
    captions: &[&[i32]],
    loss: Loss,
) -> Result<LossAndGradients> {
    let pairs = TrainingPair::unrelated(captions.len());
    let batch = PairBatch { images, captions, pairs: &pairs, relevance: None };
    loss_and_gradients(model, &[], &batch, &loss.into(), None, 0, &CollectiveGroup::single())
}

/// Makes one training step with a loss.
pub(super) fn training_step(
    training: &mut TrainingState,
    images: &[f32],
    captions: &[&[i32]],
    loss: Loss,
    rate: f64,
) -> Result<StepResult> {
    let pairs = TrainingPair::unrelated(captions.len());
    let batch = PairBatch { images, captions, pairs: &pairs, relevance: None };
    training.step(&batch, &StepOptions::from(loss), None, rate, 0, &CollectiveGroup::single())
}

pub(super) fn max_difference(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    (a - b).abs().max().double_value(&[])
}

pub(super) fn random_tensor(shape: &[i64], seed: u64) -> Tensor {
    let mut rng = Rng::new(seed, &[]);
    let values: Vec<f64> = (0..shape.iter().product()).map(|_: i64| rng.uniform() - 0.5).collect();
    Tensor::from_slice(&values).view(shape)
}
