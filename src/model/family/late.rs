//! A family for tests: late interaction. One vector an image, one a word; a score is the log-mean-exp of the cosines of the
//! image with the words, so that it is no inner product of two vectors. libtorch finds the gradients.

use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::autograd::{Differentiable, LossTensors};
use super::contract::{Capabilities, Checkpoint, Family, Problems};
use super::data::Data;
use super::encoded::Encoded;
use super::model::{Model, Share};
use super::parameters::{Init, Parameter, Parameters, width};
use crate::error::{Error, Result};

/// Settings of a training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Width of the vectors.
    pub width: usize,
    /// Weight of `word_norm`, the mean square of the word vectors before they are normalised.
    pub word_norm: f64,
    /// Weight of `image_spread`, the square of the mean vector of the images of a batch.
    pub image_spread: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { width: 16, word_norm: 0.01, image_spread: 0.5 }
    }
}

/// There are no published checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unpublished {}

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    #[serde(flatten)]
    pub data: Data,
    #[serde(flatten)]
    pub settings: Settings,
}

const IMAGE: &str = "image.weight";
const WORDS: &str = "words.weight";
const TEMPERATURE: &str = "temperature";

impl Family for Config {
    type Settings = Settings;
    type Published = Unpublished;

    fn capabilities(_: &Settings) -> Capabilities {
        let losses = vec!["word_norm", "image_spread"];
        Capabilities { ranks: true, word_vectors: Some(WORDS), losses, ..Capabilities::default() }
    }

    fn problems(settings: &Settings) -> Problems {
        let wrong = settings.width == 0;
        wrong.then(|| ("width".to_owned(), "got 0, wanted at least 1".to_owned())).into_iter().collect()
    }

    fn of(settings: &Settings, data: Data) -> Self {
        Self { data, settings: settings.clone() }
    }

    fn data(&self) -> &Data {
        &self.data
    }

    fn data_mut(&mut self) -> &mut Data {
        &mut self.data
    }

    fn parameters(&self) -> Result<Vec<Parameter>> {
        let (image, words, d) = (width(self.data.image)?, width(self.data.words)?, width(self.settings.width)?);
        Ok(vec![
            Parameter::new(IMAGE, &[d, image], Init::Uniform(0.3)),
            Parameter { trained: !self.data.words_frozen, ..Parameter::new(WORDS, &[words, d], Init::Uniform(0.3)) },
            Parameter::new(TEMPERATURE, &[1], Init::Constant(3.0)),
        ])
    }

    fn model(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
        Ok(Box::new(Late { config: self.clone(), parameters }))
    }

    fn published(_: &Unpublished, _: &[u8], _: usize) -> Result<Checkpoint<Self>> {
        Err(Error::data("nobody has published a model of this family"))
    }
}

#[derive(Debug)]
struct Late {
    config: Config,
    parameters: Parameters,
}

fn unit(rows: &Tensor) -> Tensor {
    rows / rows.norm_scalaropt_dim(2, [-1i64].as_slice(), true).clamp_min(1e-12)
}

impl Differentiable for Late {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn data(&self) -> &Data {
        &self.config.data
    }

    fn images(&self, parameters: &Parameters, features: &Tensor, _: Option<&Share<'_>>) -> Result<Encoded> {
        Ok(Encoded::one_each(unit(&features.matmul(&parameters.get(IMAGE)?.tr()))))
    }

    fn captions(&self, parameters: &Parameters, captions: &[&[i32]], _: Option<&Share<'_>>) -> Result<Encoded> {
        let words = Tensor::from_slice(&captions.concat()).to_device(parameters.device());
        let lengths = captions.iter().map(|words| words.len().saturating_as::<i64>()).collect();
        let vectors = unit(&parameters.get(WORDS)?.index_select(0, &words));
        Ok(Encoded { vectors, lengths: Some(lengths) })
    }

    fn scores(&self, parameters: &Parameters, images: &Encoded, captions: &Encoded) -> Result<Tensor> {
        let (words, there) = captions.padded();
        let size = words.size();
        let cosines = images.vectors.matmul(&words.view([-1, size[2]]).tr()).view([-1, size[0], size[1]]);
        let temperature = parameters.get(TEMPERATURE)?;
        let lengths = there.sum_dim_intlist(1i64, false, words.kind()).log();
        let exponents = (cosines * temperature).masked_fill(&there.logical_not(), f64::NEG_INFINITY);
        Ok((exponents.logsumexp(2, false) - lengths) / temperature)
    }

    fn share_losses(
        &self,
        parameters: &Parameters,
        share: &Share<'_>,
        _: &Encoded,
        _: &Encoded,
    ) -> Result<LossTensors> {
        let mut sum = Tensor::zeros([], (parameters.kind(), parameters.device()));
        for caption in share.captions {
            let words = Tensor::from_slice(caption).to_device(parameters.device());
            sum += parameters.get(WORDS)?.index_select(0, &words).square().mean(None::<Kind>);
        }
        #[expect(clippy::cast_precision_loss, reason = "a batch has few pairs")]
        Ok(vec![("word_norm", sum * (self.config.settings.word_norm / share.of as f64))])
    }

    fn share_loss_names(&self) -> &'static [&'static str] {
        &["word_norm"]
    }

    fn batch_losses(&self, _: &Parameters, images: &Encoded, _: &Encoded) -> Result<LossTensors> {
        let mean = images.vectors.mean_dim([0i64].as_slice(), false, None);
        Ok(vec![("image_spread", mean.square().sum(None::<Kind>) * self.config.settings.image_spread)])
    }
}
