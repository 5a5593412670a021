//! VSRN: reasoning over the regions of an image by graph convolutions and a GRU.
//!
//! Li, Zhang, Li, Li, Fu, "Visual Semantic Reasoning for Image-Text Matching", ICCV 2019.
//!
//! ```text
//! regions: linear → normalise → graph convolutions → normalise ─┬─► GRU over regions, last state ─► L2 norm
//! words:   word vectors → GRU, last state → L2 norm             └─► caption generator (training only)
//! ```
//!
//! The score is the cosine of the two vectors.

use az::SaturatingAs;
use tch::{Kind, Tensor};

use crate::family::autograd::{Differentiable, StepBatch};
use crate::family::encode::{EncodedItems, PaddedSets, fill_padding};
use crate::family::graph::{CaptionGru, Graph, l2_normalize};
use crate::family::image_rows::REGION_LAYER;
use crate::family::model::LocalBatch;
use crate::family::parameters::{ParameterInit, ParameterSpec, tensor_width};
use crate::family::published::{CheckpointLayout, CheckpointShapes};
use pairloom_base::error::Result;
use pairloom_spec::family::vsrn::{CAPTION_LOSS, PublishedVsrnSettings, RegionNormalization, VsrnSettings};
use pairloom_spec::input_spec::InputSpec;

/// Prefixes of the parameters of the image side.
const REGION_GRU: &str = "img_enc.img_rnn";
const OUTPUT_BATCH_NORM: &str = "img_enc.bn";

/// Word vectors and GRU of captions.
fn caption_gru(settings: &VsrnSettings) -> CaptionGru {
    CaptionGru { word: settings.word_dim, state: settings.embed_size, bidirectional: false }
}

impl Differentiable for VsrnSettings {
    const CHECKPOINT_LAYOUT: Option<CheckpointLayout<'static>> = Some(LAYOUT);

    /// The linear layer of regions (Xavier, zero bias), the graph convolutions and the GRU of regions; word vectors and
    /// GRU of captions; the caption generator.
    fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(data.image)?, tensor_width(self.embed_size)?);
        let mut all = ParameterSpec::linear(REGION_LAYER, joint, image).to_vec();
        let layers = 0..self.reasoning_layers;
        all.extend(layers.flat_map(|layer| region_reasoning_specs(layer, joint)));
        all.extend(ParameterSpec::gru(REGION_GRU, "", joint, joint));
        if self.output_batch_norm {
            all.extend(ParameterSpec::batch_norm(OUTPUT_BATCH_NORM, joint));
        }
        all.extend(caption_gru(self).parameter_specs(data)?);
        if self.has_caption_branch() {
            all.extend(caption_specs(self, data.words)?);
        }
        Ok(all)
    }

    fn published_settings(published: &PublishedVsrnSettings, shapes: &CheckpointShapes<'_>) -> Self {
        // Models for Flickr30k normalise the state of the GRU, and not the regions before the graph convolutions.
        let is_flickr = shapes.has_prefix("img_enc.bn.");
        Self {
            embed_size: shapes.joint_width(),
            word_dim: shapes.word_width(),
            reasoning_layers: shapes.largest_number("img_enc.Rs_GCN_").unwrap_or(0),
            normalization: published.normalization,
            normalize_input: !is_flickr,
            output_batch_norm: is_flickr,
            caption_weight: 0.0,
            ..Self::default()
        }
    }

    fn forward_images(&self, graph: &Graph<'_>, images: EncodedItems, batch: StepBatch<'_>) -> Result<EncodedItems> {
        let regions = images.with_vectors(graph.linear(REGION_LAYER, &images.vectors)?);
        let regions = reason(self, graph, regions)?;
        let mut vectors = graph.gru_states(REGION_GRU, 1, &regions, graph.precision())?.last_vectors();
        if let Some(batch) = batch.filter(|_| self.has_caption_branch()) {
            graph.add_loss(CAPTION_LOSS[0], caption_loss(self, graph, &regions, batch)?);
        }
        if self.output_batch_norm {
            vectors = graph.batch_norm_of_rows(OUTPUT_BATCH_NORM, &vectors, self.batch_norm)?;
        }
        Ok(EncodedItems::from_vectors(l2_normalize(&vectors, -1)))
    }

    fn forward_captions(&self, graph: &Graph<'_>, captions: &[&[i32]], _: StepBatch<'_>) -> Result<EncodedItems> {
        let states = graph.word_states(&caption_gru(self), captions, None)?;
        Ok(EncodedItems::from_vectors(l2_normalize(&states.last_vectors(), -1)))
    }
}

// Graph convolutions over the regions of an image.
//
// ```text
// v ← v + BN(W · (R · g(v)))      R = θ(v) · φ(v)ᵀ / N, for the N regions of an image
// ```
//
// θ, φ, g and W are linear layers, stored as convolutions of width 1. Weight and bias of the batch normalisation start
// at 0, so each convolution starts as the identity.

/// Name of a part of a layer. Layers count from 0 here, and from 1 in names.
fn part_name(layer: usize, part: &str) -> String {
    format!("img_enc.Rs_GCN_{}.{part}", layer + 1)
}

/// Specifications of the parameters of a layer for regions of `width`.
fn region_reasoning_specs(layer: usize, width: i64) -> Vec<ParameterSpec> {
    #[expect(clippy::cast_precision_loss, reason = "widths are below 2^31")]
    let init = ParameterInit::Uniform(1.0 / (width as f64).sqrt());
    let convolutions = ["g", "theta", "phi", "W.0"].map(|part| part_name(layer, part));
    let mut all: Vec<ParameterSpec> = convolutions
        .iter()
        .flat_map(|name| {
            let weight = ParameterSpec::new(&format!("{name}.weight"), &[width, width, 1], init);
            [weight, ParameterSpec::new(&format!("{name}.bias"), &[width], init)]
        })
        .collect();
    let [mut weight, bias, mean, variance] = ParameterSpec::batch_norm(&part_name(layer, "W.1"), width);
    weight.init = ParameterInit::Constant(0.0);
    all.extend([weight, bias, mean, variance]);
    all
}

/// Applies all graph convolutions to the regions of images, and normalises.
fn reason(settings: &VsrnSettings, graph: &Graph<'_>, regions: EncodedItems) -> Result<EncodedItems> {
    let mut regions = if settings.normalize_input { normalize(settings, regions) } else { regions };
    for layer in 0..settings.reasoning_layers {
        let v = &regions.vectors;
        let padded = |part: &str| -> Result<PaddedSets> {
            Ok(regions.with_vectors(convolution(graph, &part_name(layer, part), v)?).padded())
        };
        let (theta, phi, g) = (padded("theta")?, padded("phi")?, padded("g")?);
        let counts = g.lengths().view([-1, 1, 1]);
        let affinity = graph.matmul(&theta.vectors, &phi.vectors.transpose(1, 2)) / counts;
        let gathered = g.unpadded(&graph.matmul(&affinity, &g.vectors));
        let update = convolution(graph, &part_name(layer, "W.0"), &gathered)?;
        let update = graph.batch_norm_of_rows(&part_name(layer, "W.1"), &update, settings.batch_norm)?;
        regions = regions.with_vectors(v + update);
    }
    Ok(normalize(settings, regions))
}

fn normalize(settings: &VsrnSettings, regions: EncodedItems) -> EncodedItems {
    let vectors = match settings.normalization {
        RegionNormalization::Features => l2_normalize(&regions.vectors, -1),
        RegionNormalization::Regions => {
            let padded = regions.padded();
            padded.unpadded(&l2_normalize(&padded.vectors, 1))
        }
    };
    regions.with_vectors(vectors)
}

/// Convolution of width 1: a linear layer of each row.
fn convolution(graph: &Graph<'_>, name: &str, rows: &Tensor) -> Result<Tensor> {
    let weight = graph.get(&format!("{name}.weight"))?.squeeze_dim(2);
    Ok(graph.matmul_transposed(rows, &weight) + graph.get(&format!("{name}.bias"))?)
}

// Caption generator: an auxiliary loss that makes the regions describe what captions say.
//
// ```text
// o, h = GRU over linear(regions)                                   encoder: its states and the last one
// c = Σ_r softmax_r( w · tanh(A · [o_r, h]) ) · o_r                 attention to the regions
// h ← GRU([vector of word t, c], h)      p = softmax(out · h)       decoder, given the words of the caption
// loss = −weight · Σ over captions and t of ln p(word t + 1) / number of pairs
// ```
//
// The published code also counts one position after `<end>`, where `<pad>` is to be predicted.

/// Names of the parameters.
const INPUT: &str = "caption.vid2hid";
const ENCODER: &str = "caption.encoder";
const WORDS: &str = "caption.embed.weight";
const ATTENTION: &str = "caption.attention.0";
const ATTENTION_LOGITS: &str = "caption.attention.1.weight";
const DECODER: &str = "caption.decoder";
const OUTPUT: &str = "caption.out";

/// Random streams of dropout.
const REGION_DROPOUT: u64 = 0x0076_7372_6e00;
const WORD_DROPOUT: u64 = REGION_DROPOUT + 1;

/// Specifications of the parameters, for regions of width `embed_size` and a vocabulary of `words` words. The weight
/// of the first layer is normal with variance 2/(input + output) (Xavier), as in the published code.
fn caption_specs(settings: &VsrnSettings, words: usize) -> Result<Vec<ParameterSpec>> {
    let (joint, h) = (tensor_width(settings.embed_size)?, tensor_width(settings.caption_dim)?);
    let (word, words) = (tensor_width(settings.caption_word_dim)?, tensor_width(words)?);
    let mut all = ParameterSpec::linear(INPUT, h, joint).to_vec();
    #[expect(clippy::cast_precision_loss, reason = "widths are below 2^31")]
    let deviation = (2.0 / (h + joint) as f64).sqrt();
    all[0].init = ParameterInit::Normal(deviation);
    all.extend(ParameterSpec::gru(ENCODER, "", h, h));
    all.push(ParameterSpec::new(WORDS, &[words, word], ParameterInit::Uniform(0.1)));
    all.extend(ParameterSpec::linear(ATTENTION, h, 2 * h));
    let [logits, _] = ParameterSpec::linear(ATTENTION_LOGITS.trim_end_matches(".weight"), 1, h);
    all.push(logits);
    all.extend(ParameterSpec::gru(DECODER, "", word + h, h));
    all.extend(ParameterSpec::linear(OUTPUT, words, h));
    Ok(all)
}

/// Loss of the captions of a local batch, a scalar.
fn caption_loss(
    settings: &VsrnSettings,
    graph: &Graph<'_>,
    regions: &EncodedItems,
    batch: &LocalBatch<'_>,
) -> Result<Tensor> {
    let mut inputs = regions.with_vectors(graph.linear(INPUT, &regions.vectors)?);
    let width = inputs.vectors.size()[1];
    if settings.dropout > 0.0 {
        let mask = batch.dropout_mask(REGION_DROPOUT, &regions.counts(), width, settings.dropout, &inputs.vectors);
        inputs = inputs.with_vectors(&inputs.vectors * mask);
    }
    let outputs = graph.gru_states(ENCODER, 1, &inputs, graph.precision())?;
    let states = decode(settings, graph, &outputs, batch)?;
    // Rows of states before words that are in the caption, and those words.
    let (mut rows, mut next) = (Vec::new(), Vec::new());
    let n = batch.captions.len();
    for (caption, words) in batch.captions.iter().enumerate() {
        for (step, word) in words.iter().skip(1).enumerate() {
            rows.push((step * n + caption).saturating_as::<i64>());
            next.push(i64::from(*word));
        }
    }
    let device = states.device();
    let [rows, next] = [rows, next].map(|index| Tensor::from_slice(&index).to_device(device));
    let likelihoods = graph.linear(OUTPUT, &states.index_select(0, &rows))?.log_softmax(1, None::<Kind>);
    let sum = likelihoods.gather(1, &next.unsqueeze(1), false).sum(None::<Kind>);
    #[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53 pairs")]
    let factor = -settings.caption_weight / batch.global_size as f64;
    Ok(sum * factor)
}

/// States of the decoder after every word but the last, step by step, `[steps · n, h]`. Captions that have ended go
/// on with `<pad>`. It starts from the last of the encoder's states `outputs`.
fn decode(
    settings: &VsrnSettings,
    graph: &Graph<'_>,
    outputs: &EncodedItems,
    batch: &LocalBatch<'_>,
) -> Result<Tensor> {
    let first = outputs.last_vectors();
    let PaddedSets { vectors: outputs, is_padding, .. } = outputs.padded();
    let (n, h) = (outputs.size()[0], outputs.size()[2]);
    let steps = batch.captions.iter().map(|words| words.len()).max().unwrap_or(1).saturating_sub(1);
    if steps == 0 {
        return Ok(Tensor::zeros([0, h], (outputs.kind(), outputs.device())));
    }
    let words: Vec<i64> = (0..steps)
        .flat_map(|step| batch.captions.iter().map(move |words| words.get(step).map_or(0, |&word| i64::from(word))))
        .collect();
    let vectors = graph.get(WORDS)?;
    let vectors = vectors.index_select(0, &Tensor::from_slice(&words).to_device(vectors.device()));
    let (steps, word) = (steps.saturating_as::<i64>(), vectors.size()[1]);
    let weight = graph.get(&format!("{ATTENTION}.weight"))?;
    let [output_weight, state_weight] = [0, h].map(|start| weight.narrow(1, start, h).contiguous());
    // The part of the attention that does not depend on the state.
    let fixed = graph.matmul_transposed(&outputs.reshape([-1, h]), &output_weight).view([n, -1, h])
        + graph.get(&format!("{ATTENTION}.bias"))?;
    let logit_weight = graph.get(ATTENTION_LOGITS)?.view([h]);
    let [w_ih, w_hh, b_ih, b_hh] = graph.gru_parameters(DECODER, "")?;
    let [word_weight, context_weight] =
        [(0, word), (word, h)].map(|(start, width)| w_ih.narrow(1, start, width).contiguous());
    // Masks of words, `[steps · n, word]`, and of contexts, `[n, steps, h]`.
    let masks = (settings.dropout > 0.0).then(|| {
        let counts = vec![steps; batch.captions.len()];
        let mask = batch.dropout_mask(WORD_DROPOUT, &counts, word + h, settings.dropout, &outputs);
        let mask = mask.view([n, steps, word + h]);
        let word_mask = mask.narrow(2, 0, word).transpose(0, 1).reshape([steps * n, word]);
        (word_mask, mask.narrow(2, word, h))
    });
    let vectors = masks.as_ref().map_or_else(|| vectors.shallow_clone(), |(word_mask, _)| &vectors * word_mask);
    // The part of the gates that does not depend on the state.
    let from_words = (graph.matmul_transposed(&vectors, &word_weight) + b_ih).view([steps, n, 3 * h]);
    let mut state = first;
    let mut states = Vec::with_capacity(batch.captions.len());
    for step in 0..steps {
        let from_state = graph.matmul_transposed(&state, &state_weight).unsqueeze(1);
        let logits = (&fixed + from_state).tanh().matmul(&logit_weight);
        let logits = fill_padding(logits, is_padding.as_ref(), f64::NEG_INFINITY);
        let context = logits.softmax(1, None::<Kind>).unsqueeze(1).bmm(&outputs).squeeze_dim(1);
        let context = match &masks {
            Some((_, context_masks)) => context * context_masks.select(1, step),
            None => context,
        };
        let inputs = from_words.get(step) + graph.matmul_transposed(&context, &context_weight);
        let recurrent = graph.matmul_transposed(&state, w_hh) + b_hh;
        state = gru_state(&inputs, &recurrent, &state);
        states.push(state.shallow_clone());
    }
    Ok(Tensor::cat(&states, 0))
}

/// Next state of a GRU, `[n, h]`, from the products of its input and of its state with their weights, `[n, 3h]` each.
fn gru_state(inputs: &Tensor, recurrent: &Tensor, state: &Tensor) -> Tensor {
    let h = state.size()[1];
    let gates = (inputs.narrow(1, 0, 2 * h) + recurrent.narrow(1, 0, 2 * h)).sigmoid();
    let [reset, update] = [0, h].map(|start| gates.narrow(1, start, h));
    let candidate = inputs.narrow(1, 2 * h, h).addcmul(&reset, &recurrent.narrow(1, 2 * h, h)).tanh();
    candidate.lerp_tensor(state, &update)
}

/// Layout of the checkpoints. They have no caption generator.
const LAYOUT: CheckpointLayout<'static> = CheckpointLayout {
    wanted: "expected a model of VSRN: a linear layer, graph convolutions and a GRU for regions, and a GRU for captions",
    renamed: &[],
    unused: &[],
};

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::family::parameters::Parameters;

    /// √(2/(60 + 40)) = 0.1414. A uniform distribution of this deviation would end at 0.2449; 8.3 % of a normal one are
    /// beyond.
    #[test]
    fn the_first_layer_is_normal() {
        let settings = VsrnSettings { embed_size: 60, caption_dim: 40, ..VsrnSettings::default() };
        let specs = caption_specs(&settings, 7).expect("widths");
        let drawn = Parameters::random(specs, &InputSpec::for_regions(1, 1, 7), 3, Device::Cpu).expect("parameters");
        let weight = drawn.get("caption.vid2hid.weight").expect("a weight");
        assert_eq!(weight.size(), [40, 60]);
        let (mean, deviation) = (weight.mean(Kind::Double).double_value(&[]), weight.std(true).double_value(&[]));
        assert!(mean.abs() < 0.01 && (deviation - 0.1414).abs() < 0.006, "{mean} {deviation}");
        let beyond = weight.abs().gt(0.2449).to_kind(Kind::Double).mean(Kind::Double).double_value(&[]);
        assert!((beyond - 0.083).abs() < 0.02, "{beyond}");
    }
}
