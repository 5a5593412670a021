//! Caption generator: an auxiliary loss that makes the regions describe what captions say.
//!
//! ```text
//! o, h = GRU over linear(regions)                                   encoder: its states and the last one
//! c = Σ_r softmax_r( w · tanh(A · [o_r, h]) ) · o_r                 attention to the regions
//! h ← GRU([vector of word t, c], h)      p = softmax(out · h)       decoder, given the words of the caption
//! loss = −weight · Σ over captions and t of ln p(word t + 1) / number of pairs
//! ```
//!
//! The published code also counts one position after `<end>`, where `<pad>` is to be predicted.

use az::SaturatingAs;
use tch::{Kind, Tensor};

use super::settings::VsrnSettings;
use crate::family::encoded_items::{EncodedItems, PaddedSets, fill_padding};
use crate::family::graph::Graph;
use crate::family::model::LocalBatch;
use crate::family::parameters::{ParameterInit, ParameterSpec, tensor_width};
use pairloom_base::error::Result;

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
pub(super) fn caption_specs(settings: &VsrnSettings, words: usize) -> Result<Vec<ParameterSpec>> {
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
///
/// # Errors
/// There are no such parameters.
pub(super) fn caption_loss(
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
    let [of_outputs, of_state] = [0, h].map(|start| weight.narrow(1, start, h).contiguous());
    // The part of the attention that does not depend on the state.
    let fixed = graph.matmul_transposed(&outputs.reshape([-1, h]), &of_outputs).view([n, -1, h])
        + graph.get(&format!("{ATTENTION}.bias"))?;
    let logit_weight = graph.get(ATTENTION_LOGITS)?.view([h]);
    let [w_ih, w_hh, b_ih, b_hh] = graph.gru_parameters(DECODER, "")?;
    let [of_word, of_context] = [(0, word), (word, h)].map(|(start, width)| w_ih.narrow(1, start, width).contiguous());
    // Masks of words, `[steps · n, word]`, and of contexts, `[n, steps, h]`.
    let masks = (settings.dropout > 0.0).then(|| {
        let counts = vec![steps; batch.captions.len()];
        let mask = batch.dropout_mask(WORD_DROPOUT, &counts, word + h, settings.dropout, &outputs);
        let mask = mask.view([n, steps, word + h]);
        let of_words = mask.narrow(2, 0, word).transpose(0, 1).reshape([steps * n, word]);
        (of_words, mask.narrow(2, word, h))
    });
    let vectors = masks.as_ref().map_or_else(|| vectors.shallow_clone(), |(of_words, _)| &vectors * of_words);
    // The part of the gates that does not depend on the state.
    let from_words = (graph.matmul_transposed(&vectors, &of_word) + b_ih).view([steps, n, 3 * h]);
    let mut state = first;
    let mut states = Vec::with_capacity(batch.captions.len());
    for step in 0..steps {
        let from_state = graph.matmul_transposed(&state, &of_state).unsqueeze(1);
        let logits = (&fixed + from_state).tanh().matmul(&logit_weight);
        let logits = fill_padding(logits, is_padding.as_ref(), f64::NEG_INFINITY);
        let context = logits.softmax(1, None::<Kind>).unsqueeze(1).bmm(&outputs).squeeze_dim(1);
        let context = match &masks {
            Some((_, of_contexts)) => context * of_contexts.select(1, step),
            None => context,
        };
        let inputs = from_words.get(step) + graph.matmul_transposed(&context, &of_context);
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

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::family::parameters::Parameters;
    use pairloom_spec::input_spec::InputSpec;

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
