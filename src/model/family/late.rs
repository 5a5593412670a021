//! Late interaction: a family for tests.
//!
//! An image has one vector and a caption one vector for each word. A score is the log-mean-exp of the cosines of the
//! image with the words, so it is not the inner product of two vectors. libtorch finds the gradients.

use az::SaturatingAs;
use tch::{Kind, Tensor};

use super::autograd::{Differentiable, StepBatch};
use super::encode::{EncodedItems, fill_padding};
use super::graph::{AuxiliaryLossTensors, Graph};
use super::model::{GlobalLossContext, LocalBatch};
use super::parameters::{ParameterInit, ParameterSpec, tensor_width};
use super::published::{CheckpointLayout, CheckpointShapes};
use pairloom_base::error::Result;
use pairloom_spec::family::late::{LateInteractionSettings, Unpublished, WORDS};
use pairloom_spec::input_spec::InputSpec;

const IMAGE: &str = "image.weight";
const TEMPERATURE: &str = "temperature";

fn normalize(rows: &Tensor) -> Tensor {
    rows / rows.norm_scalaropt_dim(2, [-1i64].as_slice(), true).clamp_min(1e-12)
}

/// Weighted mean square of the word vectors of a local batch.
fn word_norm(settings: &LateInteractionSettings, graph: &Graph<'_>, batch: &LocalBatch<'_>) -> Result<Tensor> {
    let mut sum = Tensor::zeros([], (graph.parameters().kind(), graph.parameters().device()));
    for caption in batch.captions {
        let words = Tensor::from_slice(caption).to_device(graph.parameters().device());
        sum += graph.get(WORDS)?.index_select(0, &words).square().mean(None::<Kind>);
    }
    #[expect(clippy::cast_precision_loss, reason = "a batch has few pairs")]
    Ok(sum * (settings.word_norm / batch.global_size as f64))
}

impl Differentiable for LateInteractionSettings {
    const CHECKPOINT_LAYOUT: Option<CheckpointLayout<'static>> = None;

    fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>> {
        let (image, words, d) = (tensor_width(data.image)?, tensor_width(data.words)?, tensor_width(self.width)?);
        Ok(vec![
            ParameterSpec::new(IMAGE, &[d, image], ParameterInit::Uniform(0.3)),
            ParameterSpec {
                trainable: !data.words_frozen,
                ..ParameterSpec::new(WORDS, &[words, d], ParameterInit::Uniform(0.3))
            },
            ParameterSpec::new(TEMPERATURE, &[1], ParameterInit::Constant(3.0)),
        ])
    }

    fn published_settings(_: &Unpublished, _: &CheckpointShapes<'_>) -> Self {
        Self::default()
    }

    fn forward_images(&self, graph: &Graph<'_>, images: EncodedItems, _: StepBatch<'_>) -> Result<EncodedItems> {
        Ok(EncodedItems::from_vectors(normalize(&images.vectors.matmul(&graph.get(IMAGE)?.tr()))))
    }

    fn forward_captions(&self, graph: &Graph<'_>, captions: &[&[i32]], batch: StepBatch<'_>) -> Result<EncodedItems> {
        if let Some(batch) = batch {
            graph.add_loss("word_norm", word_norm(self, graph, batch)?);
        }
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
        let exponents = fill_padding(exponents, padded.is_padding.as_ref(), f64::NEG_INFINITY);
        Ok((exponents.logsumexp(2, false) - lengths) / temperature)
    }

    fn global_losses(
        &self,
        _: &Graph<'_>,
        images: &EncodedItems,
        _: &EncodedItems,
        _: GlobalLossContext<'_>,
    ) -> Result<AuxiliaryLossTensors> {
        let mean = images.vectors.mean_dim([0i64].as_slice(), false, None);
        Ok(vec![("image_spread", mean.square().sum(None::<Kind>) * self.image_spread)])
    }
}
