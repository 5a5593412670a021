//! Late interaction: a family for tests.
//!
//! An image has one vector and a caption one vector for each word. A score is the log-mean-exp of the cosines of the
//! image with the words, so it is not the inner product of two vectors. libtorch finds the gradients.

use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::autograd::{AutogradModel, AuxiliaryLossTensors, Differentiable};
use super::contract::{Capabilities, Family, PublishedCheckpoint};
use super::encoded_items::EncodedItems;
use super::graph::Graph;
use super::input_spec::InputSpec;
use super::model::{LocalBatch, Model};
use super::parameters::{ParameterInit, ParameterSpec, Parameters, tensor_width};
use crate::error::{Error, Result};
use crate::model::setting_problems::SettingProblems;

/// Settings of a late-interaction model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LateInteractionSettings {
    /// Width of the vectors.
    pub width: usize,
    /// Weight of `word_norm`, the mean square of the word vectors before they are normalised.
    pub word_norm: f64,
    /// Weight of `image_spread`, the square of the mean vector of the images of a batch.
    pub image_spread: f64,
}

impl Default for LateInteractionSettings {
    fn default() -> Self {
        Self { width: 16, word_norm: 0.01, image_spread: 0.5 }
    }
}

/// Settings of published checkpoints. This family has no published checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unpublished {}

/// Description of a late-interaction model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LateInteractionConfig {
    #[serde(flatten)]
    pub data: InputSpec,
    #[serde(flatten)]
    pub settings: LateInteractionSettings,
}

const IMAGE: &str = "image.weight";
const WORDS: &str = "words.weight";
const TEMPERATURE: &str = "temperature";

impl Family for LateInteractionConfig {
    type Settings = LateInteractionSettings;
    type Published = Unpublished;

    fn capabilities(_: &LateInteractionSettings) -> Capabilities {
        let losses = vec!["word_norm", "image_spread"];
        Capabilities { word_vectors_parameter: Some(WORDS), auxiliary_losses: losses, ..Capabilities::default() }
    }

    fn problems(settings: &LateInteractionSettings) -> SettingProblems {
        let wrong = settings.width == 0;
        wrong.then(|| ("width".to_owned(), "got 0, wanted at least 1".to_owned())).into_iter().collect()
    }

    fn from_settings(settings: &LateInteractionSettings, data: InputSpec) -> Self {
        Self { data, settings: settings.clone() }
    }

    fn input_spec(&self) -> &InputSpec {
        &self.data
    }

    fn input_spec_mut(&mut self) -> &mut InputSpec {
        &mut self.data
    }

    fn parameter_specs(&self) -> Result<Vec<ParameterSpec>> {
        let (image, words, d) =
            (tensor_width(self.data.image)?, tensor_width(self.data.words)?, tensor_width(self.settings.width)?);
        Ok(vec![
            ParameterSpec::new(IMAGE, &[d, image], ParameterInit::Uniform(0.3)),
            ParameterSpec {
                trainable: !self.data.words_frozen,
                ..ParameterSpec::new(WORDS, &[words, d], ParameterInit::Uniform(0.3))
            },
            ParameterSpec::new(TEMPERATURE, &[1], ParameterInit::Constant(3.0)),
        ])
    }

    fn build(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
        Ok(Box::new(AutogradModel::new(self.clone(), parameters)))
    }

    fn read_published(_: &Unpublished, _: &[u8], _: usize) -> Result<PublishedCheckpoint<Self>> {
        Err(Error::data("nobody has published a model of this family"))
    }
}

fn normalize(rows: &Tensor) -> Tensor {
    rows / rows.norm_scalaropt_dim(2, [-1i64].as_slice(), true).clamp_min(1e-12)
}

impl Differentiable for LateInteractionConfig {
    fn forward_images(&self, graph: &Graph<'_>, features: &Tensor, _: Option<&LocalBatch<'_>>) -> Result<EncodedItems> {
        Ok(EncodedItems::from_vectors(normalize(&features.matmul(&graph.get(IMAGE)?.tr()))))
    }

    fn forward_captions(
        &self,
        graph: &Graph<'_>,
        captions: &[&[i32]],
        _: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let words = Tensor::from_slice(&captions.concat()).to_device(graph.parameters().device());
        let lengths = captions.iter().map(|words| words.len().saturating_as::<i64>()).collect();
        let vectors = normalize(&graph.get(WORDS)?.index_select(0, &words));
        Ok(EncodedItems { vectors, lengths: Some(lengths) })
    }

    fn forward_scores(&self, graph: &Graph<'_>, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor> {
        let padded = captions.padded();
        let (words, size) = (&padded.vectors, padded.size());
        let cosines = images.vectors.matmul(&words.view([-1, size[2]]).tr()).view([-1, size[0], size[1]]);
        let temperature = graph.get(TEMPERATURE)?;
        let lengths = padded.lengths().log();
        let exponents = cosines * temperature;
        let exponents = match &padded.is_padding {
            Some(padding) => exponents.masked_fill(padding, f64::NEG_INFINITY),
            None => exponents,
        };
        Ok((exponents.logsumexp(2, false) - lengths) / temperature)
    }

    fn local_losses(
        &self,
        graph: &Graph<'_>,
        batch: &LocalBatch<'_>,
        _: &EncodedItems,
        _: &EncodedItems,
    ) -> Result<AuxiliaryLossTensors> {
        let mut sum = Tensor::zeros([], (graph.parameters().kind(), graph.parameters().device()));
        for caption in batch.captions {
            let words = Tensor::from_slice(caption).to_device(graph.parameters().device());
            sum += graph.get(WORDS)?.index_select(0, &words).square().mean(None::<Kind>);
        }
        #[expect(clippy::cast_precision_loss, reason = "a batch has few pairs")]
        Ok(vec![("word_norm", sum * (self.settings.word_norm / batch.global_size as f64))])
    }

    fn local_loss_names(&self) -> &'static [&'static str] {
        &["word_norm"]
    }

    fn global_losses(&self, _: &Graph<'_>, images: &EncodedItems, _: &EncodedItems) -> Result<AuxiliaryLossTensors> {
        let mean = images.vectors.mean_dim([0i64].as_slice(), false, None);
        Ok(vec![("image_spread", mean.square().sum(None::<Kind>) * self.settings.image_spread)])
    }
}
