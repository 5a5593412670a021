//! VSE∞: one vector of an image's regions and one of a caption's words by learned pooling.
//!
//! Chen, Hu, Wu, Jiang, Wang, "Learning the Best Pooling Strategy for Visual Semantic Embedding", CVPR 2021.
//!
//! ```text
//! regions: x ─► fc(x) + mlp(x) ─► pooling operator ─► L2 norm      mlp: linear → batch norm → ReLU → linear
//! words:   word vectors ─► GRU, both directions averaged ─► pooling operator ─► L2 norm
//! ```
//!
//! The score is the cosine of the two vectors.

use az::SaturatingAs;
use tch::{Kind, Tensor};

use crate::family::autograd::{Differentiable, StepBatch};
use crate::family::encode::{EncodedItems, fill_padding};
use crate::family::graph::{CaptionGru, Graph, l2_normalize};
use crate::family::image_rows::REGION_LAYER;
use crate::family::model::LocalBatch;
use crate::family::parameters::{ParameterInit, ParameterSpec, tensor_width};
use crate::family::published::{CheckpointLayout, CheckpointShapes, PUBLISHED_REGIONS};
use pairloom_base::error::Result;
use pairloom_kernels::text::vocabulary::UNKNOWN_ID;
use pairloom_spec::family::WORD_VECTORS;
use pairloom_spec::family::vse_infinity::{PublishedVseInfinitySettings, VseInfinitySettings};
use pairloom_spec::input_spec::InputSpec;
use pairloom_spec::precision::MatmulPrecision;

/// Prefixes of the parameters of the image side.
const MLP_LAYERS: [&str; 2] = ["img_enc.mlp.layers.0", "img_enc.mlp.layers.1"];
const MLP_BATCH_NORM: &str = "img_enc.mlp.bns.0";
const REGION_POOLING: &str = "img_enc.gpool";

/// Prefix of the parameters of the pooling operator of words.
const WORD_POOLING: &str = "txt_enc.gpool";

/// Word vectors and GRU of captions.
fn caption_gru(settings: &VseInfinitySettings) -> CaptionGru {
    CaptionGru { word: settings.word_dim, state: settings.embed_size, bidirectional: settings.bidirectional }
}

/// Perceptron beside the linear layer of regions. Batch statistics are those of all regions of the batch.
fn mlp(settings: &VseInfinitySettings, graph: &Graph<'_>, regions: &Tensor) -> Result<Tensor> {
    let hidden = graph.linear(MLP_LAYERS[0], regions)?;
    let hidden = graph.batch_norm_of_rows(MLP_BATCH_NORM, &hidden, settings.batch_norm)?;
    graph.linear(MLP_LAYERS[1], &hidden.relu())
}

impl Differentiable for VseInfinitySettings {
    const CHECKPOINT_LAYOUT: Option<CheckpointLayout<'static>> = Some(LAYOUT);

    /// The linear layer of regions, their perceptron and pooling operator; then word vectors, GRU and pooling operator
    /// of captions. Linear layers are Xavier with zero bias.
    fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(data.image)?, tensor_width(self.embed_size)?);
        let pooling = tensor_width(self.pooling_dim)?;
        let mut all = ParameterSpec::linear(REGION_LAYER, joint, image).to_vec();
        if self.region_mlp {
            let hidden = joint / 2;
            all.extend(ParameterSpec::linear(MLP_LAYERS[0], hidden, image));
            all.extend(ParameterSpec::batch_norm(MLP_BATCH_NORM, hidden));
            all.extend(ParameterSpec::linear(MLP_LAYERS[1], joint, hidden));
        }
        all.extend(pooling_specs(REGION_POOLING, pooling));
        all.extend(caption_gru(self).parameter_specs(data)?);
        all.extend(pooling_specs(WORD_POOLING, pooling));
        Ok(all)
    }

    fn published_settings(_: &PublishedVseInfinitySettings, shapes: &CheckpointShapes<'_>) -> Self {
        let pooling = ["img_enc.gpool.linear.weight", "txt_enc.gpool.linear.weight"];
        let pooling_dim = pooling.iter().find_map(|name| shapes.size(name, 1));
        Self {
            embed_size: shapes.joint_width(),
            word_dim: shapes.word_width(),
            bidirectional: shapes.is_bidirectional(),
            region_mlp: shapes.has_prefix("img_enc.mlp."),
            pooling_dim: pooling_dim.unwrap_or(1),
            ..Self::default()
        }
    }

    fn published_data(shapes: &CheckpointShapes<'_>, words: usize) -> InputSpec {
        let layers = ["img_enc.fc.weight", "img_enc.mlp.layers.0.weight"];
        let width = layers.iter().find_map(|name| shapes.size(name, 1)).unwrap_or(1);
        InputSpec::for_regions(PUBLISHED_REGIONS, width, words)
    }

    fn forward_images(&self, graph: &Graph<'_>, images: EncodedItems, batch: StepBatch<'_>) -> Result<EncodedItems> {
        let regions = match batch.filter(|_| self.size_augmentation > 0.0) {
            Some(batch) => drop_regions(&images, batch, self.size_augmentation),
            None => images,
        };
        let linear = graph.linear(REGION_LAYER, &regions.vectors)?;
        let vectors = if self.region_mlp { linear + mlp(self, graph, &regions.vectors)? } else { linear };
        let pooled = pool(graph, REGION_POOLING, &regions.with_vectors(vectors))?;
        Ok(EncodedItems::from_vectors(l2_normalize(&pooled, -1)))
    }

    fn forward_captions(&self, graph: &Graph<'_>, captions: &[&[i32]], batch: StepBatch<'_>) -> Result<EncodedItems> {
        let probability = self.size_augmentation;
        let changed = batch.filter(|_| probability > 0.0);
        let words = graph.get(WORD_VECTORS)?.size()[0].saturating_as::<usize>();
        let changed = changed.map(|batch| change_words(captions, batch, words, probability));
        let changed: Option<Vec<&[i32]>> = changed.as_ref().map(|all| all.iter().map(Vec::as_slice).collect());
        let states = graph.word_states(&caption_gru(self), changed.as_deref().unwrap_or(captions), None)?;
        Ok(EncodedItems::from_vectors(l2_normalize(&pool(graph, WORD_POOLING, &states)?, -1)))
    }
}

// Generalised pooling operator: learned weights of the sorted values of a set of vectors.
//
// ```text
// pooled_j = Σ_k θ_k · (k-th largest value of coordinate j)
// θ = softmax over k of (w · state_k) / 0.1      states: GRU in both directions, averaged, over position codes
// ```
//
// θ depends on the number of vectors only. Mean, maximum and the mean of the k largest are special cases.

/// Divisor of the logits of the weights.
const TEMPERATURE: f64 = 0.1;

/// Specifications of the parameters of a pooling operator `name`: a GRU of `width` in both directions and a linear layer
/// without bias, all U(±1/√width).
fn pooling_specs(name: &str, width: i64) -> Vec<ParameterSpec> {
    #[expect(clippy::cast_precision_loss, reason = "widths are below 2^31")]
    let init = ParameterInit::Uniform(1.0 / (width as f64).sqrt());
    let mut all = ParameterSpec::gru(&format!("{name}.gru"), "", width, width).to_vec();
    all.extend(ParameterSpec::gru(&format!("{name}.gru"), "_reverse", width, width));
    all.push(ParameterSpec::new(&format!("{name}.linear.weight"), &[1, width], init));
    all
}

/// Pools each set of vectors into one, `[n, d]`.
///
/// # Errors
/// There are no parameters of such an operator.
fn pool(graph: &Graph<'_>, name: &str, sets: &EncodedItems) -> Result<Tensor> {
    let padded = sets.padded();
    let [n, longest, _] = padded.size();
    let mut sizes = padded.counts.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let weights = pooling_weights(graph, name, &sizes)?;
    let size_of_set: Vec<i64> =
        padded.counts.iter().map(|count| sizes.partition_point(|size| size < count).saturating_as::<i64>()).collect();
    let size_of_set = Tensor::from_slice(&size_of_set).to_device(weights.device());
    let weights = weights.index_select(0, &size_of_set).view([n, 1, longest]);
    let sorted = match &padded.is_padding {
        // Padding is last in the order and then counts as 0.
        Some(padding) => {
            let padding = padding.unsqueeze(2);
            let (sorted, _) = padded.vectors.masked_fill(&padding, f64::NEG_INFINITY).sort(1, true);
            sorted.masked_fill(&padding, 0.0)
        }
        None => padded.vectors.sort(1, true).0,
    };
    Ok(weights.bmm(&sorted).squeeze_dim(1))
}

/// Weights θ of sets of these sizes, `[sizes, longest]`, 0 after the size.
fn pooling_weights(graph: &Graph<'_>, name: &str, sizes: &[i64]) -> Result<Tensor> {
    let linear = graph.get(&format!("{name}.linear.weight"))?;
    let width = linear.size()[1];
    let codes = position_codes(sizes.iter().copied().max().unwrap_or(0), width, linear);
    let positions: Vec<i64> = sizes.iter().flat_map(|&size| 0..size).collect();
    let positions = Tensor::from_slice(&positions).to_device(linear.device());
    let codes = EncodedItems { vectors: codes.index_select(0, &positions), lengths: Some(sizes.to_vec()) };
    // The softmax is sharp, and this GRU is small, so its factors are not rounded to bf16 in mixed precision.
    let states = graph.gru_states(&format!("{name}.gru"), 2, &codes, MatmulPrecision::F32)?;
    let logits = states.vectors.matmul(&linear.tr()) / TEMPERATURE;
    let logits = states.with_vectors(logits).padded();
    let filled = fill_padding(logits.vectors.squeeze_dim(2), logits.is_padding.as_ref(), f64::NEG_INFINITY);
    Ok(filled.softmax(1, None::<Kind>))
}

/// Sinusoidal codes of the positions 0, 1, …: sin and cos of position / 10,000^(2i / width) in turn, `[count, width]`.
fn position_codes(count: i64, width: i64, like: &Tensor) -> Tensor {
    #[expect(clippy::cast_precision_loss, reason = "positions and widths are below 2^31")]
    let angle = |position: i64, pair: i64| position as f64 / 10_000f64.powf((2 * pair) as f64 / width as f64);
    let code = |position: i64| (0..width / 2).flat_map(move |pair| <[f64; 2]>::from(angle(position, pair).sin_cos()));
    let codes: Vec<f64> = (0..count).flat_map(code).collect();
    Tensor::from_slice(&codes).view([count, width]).to_device(like.device()).to_kind(like.kind())
}

/// Random stream of dropped regions.
const REGIONS: u64 = 0x7265_6769_6f6e;

/// Random stream of changed words.
const WORDS: u64 = 0x776f_7264_7331;

/// Drops each region of a batch with `probability`. An image whose regions would all be dropped keeps them.
fn drop_regions(regions: &EncodedItems, batch: &LocalBatch<'_>, probability: f64) -> EncodedItems {
    let (mut rows, mut lengths, mut start) = (Vec::new(), Vec::new(), 0);
    for (image, count) in regions.counts().into_iter().enumerate() {
        let mut rng = batch.rng(image, REGIONS);
        let mut kept: Vec<i64> = (start..start + count).filter(|_| rng.uniform() >= probability).collect();
        if kept.is_empty() {
            kept = (start..start + count).collect();
        }
        lengths.push(i64::try_from(kept.len()).unwrap_or(count));
        rows.extend(kept);
        start += count;
    }
    let rows = Tensor::from_slice(&rows).to_device(regions.vectors.device());
    EncodedItems { vectors: regions.vectors.index_select(0, &rows), lengths: Some(lengths) }
}

/// Changes each word of a batch with `probability`: half of the changed words become `<unk>`, which stands for the mask
/// token of the published code; a tenth becomes a random one of `words` words; the rest is dropped. `<start>` and
/// `<end>` are words. A caption whose words would all be dropped stays as it is.
fn change_words(captions: &[&[i32]], batch: &LocalBatch<'_>, words: usize, probability: f64) -> Vec<Vec<i32>> {
    let change = |(number, caption): (usize, &&[i32])| {
        let mut rng = batch.rng(number, WORDS);
        let mut changed = Vec::with_capacity(caption.len());
        for &word in *caption {
            let draw = rng.uniform() / probability;
            if draw >= 1.0 {
                changed.push(word);
            } else if draw < 0.5 {
                changed.push(UNKNOWN_ID);
            } else if draw < 0.6 {
                changed.push(i32::try_from(rng.uniform_below(words)).unwrap_or(UNKNOWN_ID));
            }
        }
        if changed.is_empty() { caption.to_vec() } else { changed }
    };
    captions.iter().enumerate().map(change).collect()
}

/// Layout of the checkpoints. A model with a CNN has its encoder of regions in a part of its own. The second batch
/// normalisation of the perceptron is stored, but not used.
const LAYOUT: CheckpointLayout<'static> = CheckpointLayout {
    wanted: "expected a model of VSE∞ on regions or grids, with a GRU for captions; one with BERT is not read",
    renamed: &[("img_enc.image_encoder.", "img_enc.")],
    unused: &["img_enc.mlp.bns.1."],
};

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::family::image_rows::ImageRows;

    fn batch(like: &Tensor, pairs: std::ops::Range<usize>) -> LocalBatch<'static> {
        let images = ImageRows::new(&[], 1, like).expect("no images");
        LocalBatch { images, captions: &[], pairs, global_size: 100, seed_and_step: [3, 5] }
    }

    #[test]
    fn a_fifth_of_the_regions_is_dropped() {
        let like = Tensor::zeros([1], (Kind::Float, Device::Cpu));
        let vectors = Tensor::arange(3600, (Kind::Float, Device::Cpu)).view([3600, 1]);
        let regions = EncodedItems { vectors, lengths: Some(vec![36; 100]) };
        let kept = drop_regions(&regions, &batch(&like, 0..100), 0.2);
        // 2,880 with a standard deviation of 24.
        assert!((2780..2980).contains(&kept.vectors.size()[0]), "{:?}", kept.vectors.size());
        let counts = kept.counts();
        let first = Vec::<f32>::try_from(kept.slice(0..1).vectors.view(-1)).expect("f32");
        assert!(first.iter().all(|&row| row < 36.0) && counts.iter().all(|&count| count <= 36));
        // Image 70 alone is as in the batch.
        let alone = drop_regions(&regions.slice(70..71), &batch(&like, 70..71), 0.2);
        assert_eq!(alone.vectors, kept.slice(70..71).vectors);
        let one =
            EncodedItems { vectors: Tensor::ones([50, 1], (Kind::Float, Device::Cpu)), lengths: Some(vec![1; 50]) };
        assert_eq!(drop_regions(&one, &batch(&like, 0..50), 0.9).lengths, Some(vec![1; 50]));
    }

    #[test]
    fn words_are_masked_replaced_and_dropped() {
        let like = Tensor::zeros([1], (Kind::Float, Device::Cpu));
        let caption: Vec<i32> = (100..200).collect();
        let captions: Vec<&[i32]> = vec![&caption; 100];
        let changed = change_words(&captions, &batch(&like, 0..100), 50, 0.2);
        let count = |is: fn(i32) -> bool| changed.iter().flatten().filter(|&&word| is(word)).count();
        let (masked, random) = (count(|word| word == UNKNOWN_ID), count(|word| word < 50 && word != UNKNOWN_ID));
        let dropped = 10_000 - changed.iter().map(Vec::len).sum::<usize>();
        // Of 10,000 words 1,000 masked, 200 replaced and 800 dropped; the standard deviation is at most 30.
        assert!((900..1100).contains(&masked) && (140..260).contains(&random), "{masked} {random}");
        assert!((700..900).contains(&dropped), "{dropped}");
        assert_ne!(changed[0], changed[1]);
        assert_eq!(change_words(&[&[7]], &batch(&like, 0..1), 50, 1e-12), [[7]]);
    }
}
