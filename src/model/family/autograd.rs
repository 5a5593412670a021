//! Models that libtorch differentiates: the trait of their families, and training and scoring in blocks of captions of
//! similar length.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use az::SaturatingAs;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::attention::WordAttention;
use super::encode::EncodedItems;
use super::graph::{AuxiliaryLossTensors, Graph};
use super::image_rows::{ImageRows, region_sets};
use super::model::{
    AuxiliaryLosses, EncodedBatch, Family, GlobalLossContext, LocalBatch, Model, PublishedCheckpoint, ScoreGradients,
    ScoredBatch, VECTOR_SCORE_BLOCK,
};
use super::parameters::{BufferRecorder, ParameterSpec, Parameters};
use super::published::{CheckpointLayout, CheckpointShapes, PUBLISHED_REGIONS, read_checkpoint};
use crate::safetensors_file::libtorch_error;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::text::vocabulary::{END_ID, START_ID};
use pairloom_spec::family::FamilySettings;
use pairloom_spec::input_spec::{ImageInput, InputSpec};
use pairloom_spec::precision::MatmulPrecision;
use pairloom_spec::similarity::EmbeddingSimilarity;

/// Model that libtorch differentiates.
#[derive(Debug)]
pub struct AutogradModel<S> {
    config: AutogradConfig<S>,
    parameters: Parameters,
    precision: MatmulPrecision,
    /// Limit of the values of a batch of scores in one tensor, up to which their graphs are kept.
    kept_values: i64,
}

impl<S: Differentiable> AutogradModel<S> {
    /// Creates the model with parameters that fit their specifications.
    #[must_use]
    pub fn new(config: AutogradConfig<S>, parameters: Parameters) -> Self {
        Self { config, parameters, precision: MatmulPrecision::default(), kept_values: KEPT_VALUES }
    }

    /// Computation without gradient.
    fn plain_graph(&self) -> Graph<'_> {
        Graph::without_gradient(&self.parameters, self.precision)
    }

    fn blocks(&self, images: &EncodedItems, captions: &EncodedItems) -> ScoreBlocks {
        ScoreBlocks::new(captions, self.config.settings.values_per_word(images), S::BLOCK_VALUES)
    }

    /// Feature vectors, regions or CNN features of images, with these parameters.
    fn image_vectors(&self, parameters: &Parameters, images: Tensor) -> Result<EncodedItems> {
        let vectors = parameters.image_features(images, &self.config.data)?;
        match self.config.data.image_input() {
            ImageInput::Features => Ok(EncodedItems::from_vectors(vectors)),
            ImageInput::Regions => region_sets(&vectors, self.config.data.image),
        }
    }

    /// Encodes an empty local batch: no vectors, of the width that an image and a caption have in a training step.
    fn encode_empty_batch(&self, batch: &LocalBatch<'_>) -> Result<EncodedBatch<'_>> {
        let width = batch.images.tensor().size()[1].saturating_as::<usize>();
        let (pixels, captions) = (vec![1.0; width], [[START_ID, END_ID].as_slice()]);
        let (images, captions) = tch::no_grad(|| -> Result<_> {
            let images = ImageRows::new(&pixels, width, &self.parameters.tensors()[0])?;
            let one = LocalBatch { images, captions: &captions, pairs: 0..1, global_size: 1, ..*batch };
            let (settings, graph) = (&self.config.settings, self.plain_graph());
            let images = self.image_vectors(&self.parameters, one.images.tensor().shallow_clone())?;
            let images = settings.forward_images(&graph, images, Some(&one))?;
            let captions = settings.forward_captions(&graph, &captions, Some(&one))?;
            Ok((images.slice(0..0), captions.slice(0..0)))
        })?;
        let losses = self.config.settings.capabilities().local_losses.iter().map(|&name| (name, 0.0)).collect();
        let trainable = self.parameters.trainable();
        let backward =
            move |_: &Tensor, _: &Tensor| Ok(trainable.iter().map(|(_, tensor)| tensor.zeros_like()).collect());
        Ok(EncodedBatch { images, captions, losses, buffers: BTreeMap::new(), backward: Box::new(backward) })
    }
}

impl<S: Differentiable> Model for AutogradModel<S> {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn input_spec(&self) -> &InputSpec {
        &self.config.data
    }

    fn similarity(&self) -> Option<EmbeddingSimilarity> {
        self.config.settings.capabilities().similarity
    }

    fn max_regions(&self) -> Option<usize> {
        self.config.data.regions.filter(|_| self.config.settings.capabilities().fixed_places)
    }

    fn reads_image_words(&self) -> bool {
        self.config.settings.capabilities().image_words
    }

    fn score_block(&self) -> [usize; 2] {
        let is_of_vectors = self.config.settings.capabilities().similarity.is_some();
        if is_of_vectors { VECTOR_SCORE_BLOCK } else { S::SCORE_BLOCK }
    }

    fn set_precision(&mut self, precision: MatmulPrecision) -> Result<()> {
        self.precision = precision;
        Ok(())
    }

    fn encode_images(&self, images: &ImageRows<'_>) -> Result<EncodedItems> {
        tch::no_grad(|| {
            let images = self.image_vectors(&self.parameters, images.tensor().shallow_clone())?;
            self.config.settings.forward_images(&self.plain_graph(), images, None)
        })
    }

    fn encode_captions(&self, captions: &[&[i32]]) -> Result<EncodedItems> {
        tch::no_grad(|| self.config.settings.forward_captions(&self.plain_graph(), captions, None))
    }

    fn scores(&self, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor> {
        let graph = self.plain_graph();
        let score = |block: &EncodedItems| self.config.settings.forward_scores(&graph, images, block);
        tch::no_grad(|| self.blocks(images, captions).score(captions, score))
    }

    fn word_attention(&self, image: &EncodedItems, caption: &EncodedItems) -> Option<WordAttention> {
        tch::no_grad(|| self.config.settings.word_attention(&self.plain_graph(), image, caption))
    }

    fn encode_batch<'m>(&'m self, batch: &'m LocalBatch<'m>) -> Result<EncodedBatch<'m>> {
        if batch.pairs.is_empty() {
            return self.encode_empty_batch(batch);
        }
        let settings = &self.config.settings;
        let leaves = self.parameters.detached_leaves(&self.config.data)?;
        let buffers = BufferRecorder::default();
        let (images, captions, losses) = tch::with_grad(|| -> Result<_> {
            let graph = Graph::with_gradient(&leaves, self.precision, Some(&buffers));
            let images = self.image_vectors(&leaves, batch.images.tensor().shallow_clone())?;
            let images = settings.forward_images(&graph, images, Some(batch))?;
            let captions = settings.forward_captions(&graph, batch.captions, Some(batch))?;
            Ok((images, captions, graph.into_losses()))
        })?;
        let values = loss_values(&losses);
        let (detached_images, detached_captions) = (detached(&images), detached(&captions));
        let backward = move |d_images: &Tensor, d_captions: &Tensor| {
            let outputs = [(&images.vectors, d_images), (&captions.vectors, d_captions)];
            let leaves_needed: Vec<Tensor> = leaves.trainable().into_iter().map(|(_, leaf)| leaf).collect();
            gradients(&outputs, &losses, &leaves_needed)
        };
        Ok(EncodedBatch {
            images: detached_images,
            captions: detached_captions,
            losses: values,
            buffers: buffers.into_inner(),
            backward: Box::new(backward),
        })
    }

    fn score_batch<'m>(
        &'m self,
        images: &'m EncodedItems,
        captions: &'m EncodedItems,
        context: GlobalLossContext<'_>,
    ) -> Result<ScoredBatch<'m>> {
        let leaves = self.parameters.detached_leaves(&self.config.data)?;
        let leaf = |side: &EncodedItems| side.with_vectors(side.vectors.detach().set_requires_grad(true));
        let (images, captions) = (leaf(images), leaf(captions));
        let (settings, precision, blocks) = (&self.config.settings, self.precision, self.blocks(&images, &captions));
        let buffers = BufferRecorder::default();
        let graph = Graph::with_gradient(&leaves, precision, Some(&buffers));
        let losses = tch::with_grad(|| settings.global_losses(&graph, &images, &captions, context))?;
        let score = || blocks.score(&captions, |block| settings.forward_scores(&graph, &images, block));
        let keeps_graphs = blocks.keeps_graphs(self.kept_values);
        let scores = if keeps_graphs { tch::with_grad(score) } else { tch::no_grad(score) }?;
        let (detached_scores, values) = (scores.detach(), loss_values(&losses));
        drop(graph);
        let buffers = buffers.into_inner();
        let backward = move |d_scores: &Tensor, own: Range<usize>| {
            let mut expected = vec![images.vectors.shallow_clone(), captions.vectors.shallow_clone()];
            expected.extend(leaves.trainable().into_iter().map(|(_, leaf)| leaf));
            let mut found = if keeps_graphs {
                gradients(&[(&scores, d_scores)], &losses, &expected)?
            } else {
                let mut sums = gradients(&[], &losses, &expected)?;
                for block in blocks.captions() {
                    // The running statistics were updated in the forward pass.
                    let graph = Graph::with_gradient(&leaves, precision, None);
                    let columns: Vec<i64> = block.iter().map(|&caption| caption.saturating_as::<i64>()).collect();
                    let columns = Tensor::from_slice(&columns).to_device(d_scores.device());
                    let d_block = d_scores.index_select(1, &columns);
                    let rows = if settings.scores_pairs_alone() {
                        rows_with_gradient(&d_block)?
                    } else {
                        (0..images.len()).collect()
                    };
                    if rows.is_empty() {
                        continue;
                    }
                    let (scores, d_block) = if rows.len() == images.len() {
                        let score = || settings.forward_scores(&graph, &images, &captions.select(block));
                        (tch::with_grad(score)?, d_block)
                    } else {
                        let score = || settings.forward_scores(&graph, &images.select(&rows), &captions.select(block));
                        (tch::with_grad(score)?, EncodedItems::from_vectors(d_block).select(&rows).vectors)
                    };
                    let more = defined_gradients(&[(&scores, &d_block)], &[], &expected)?;
                    let more = sums.iter_mut().zip(more).filter_map(|(sum, more)| Some((sum, more?)));
                    tch::no_grad(|| more.for_each(|(sum, more)| drop(sum.g_add_(&more))));
                }
                sums
            };
            let parameters = found.split_off(2);
            let part = |side: &EncodedItems, gradient: &Tensor| {
                let rows = side.row_range(own.clone());
                gradient.narrow(0, rows.start, rows.end - rows.start)
            };
            let (images, captions) = (part(&images, &found[0]), part(&captions, &found[1]));
            Ok(ScoreGradients { images, captions, parameters: Some(parameters) })
        };
        Ok(ScoredBatch { scores: detached_scores, losses: values, buffers, backward: Box::new(backward) })
    }
}

/// Rows of `d` that are not zero. Losses of the hardest negatives have no gradient in the scores of most pairs.
fn rows_with_gradient(d: &Tensor) -> Result<Vec<usize>> {
    let rows = d.ne(0.0).any_dim(1, false).nonzero().squeeze_dim(1);
    let rows = Vec::<i64>::try_from(rows).map_err(|error| Error::internal(error.to_string()))?;
    Ok(rows.into_iter().map(SaturatingAs::saturating_as).collect())
}

fn detached(side: &EncodedItems) -> EncodedItems {
    side.with_vectors(side.vectors.detach())
}

fn loss_values(losses: &[(&'static str, Tensor)]) -> AuxiliaryLosses {
    losses.iter().map(|(name, value)| (*name, value.double_value(&[]))).collect()
}

/// Gradients in `leaves` of Σ ⟨tensor, gradient⟩ over `outputs` plus all `losses`; zeros for a tensor that neither
/// depends on.
fn gradients(
    outputs: &[(&Tensor, &Tensor)],
    losses: &[(&'static str, Tensor)],
    leaves: &[Tensor],
) -> Result<Vec<Tensor>> {
    let found = defined_gradients(outputs, losses, leaves)?.into_iter().zip(leaves);
    Ok(found.map(|(found, like)| found.map_or_else(|| like.zeros_like(), |found| found.contiguous())).collect())
}

/// As [`gradients`]; `None` for a tensor that neither depends on.
fn defined_gradients(
    outputs: &[(&Tensor, &Tensor)],
    losses: &[(&'static str, Tensor)],
    leaves: &[Tensor],
) -> Result<Vec<Option<Tensor>>> {
    let products = outputs.iter().map(|(tensor, gradient)| (*tensor * *gradient).sum(None::<Kind>));
    let value = products.chain(losses.iter().map(|(_, loss)| loss.shallow_clone())).reduce(|a, b| a + b);
    let Some(value) = value else { return Ok(leaves.iter().map(|_| None).collect()) };
    let found = Tensor::f_run_backward(&[value], leaves, false, false).map_err(|error| libtorch_error(&error))?;
    Ok(found.into_iter().map(|found| found.defined().then_some(found)).collect())
}

/// Description of a model that libtorch differentiates, without its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AutogradConfig<S> {
    /// Description of the data that the model is for.
    #[serde(flatten)]
    pub data: InputSpec,
    /// Settings of the model.
    #[serde(flatten)]
    pub settings: S,
}

/// Local batch of a training step; `None` outside of one.
pub type StepBatch<'b> = Option<&'b LocalBatch<'b>>;

/// Settings of a family whose forward computation libtorch differentiates.
/// [`AutogradModel`] makes a model of them.
pub trait Differentiable: FamilySettings + PartialEq + Send + 'static {
    /// Layout of published checkpoints; `None` if there are none.
    const CHECKPOINT_LAYOUT: Option<CheckpointLayout<'static>>;

    /// Numbers of images and captions that a thread scores together in a scoring of many pairs, if their scores do not
    /// follow from one vector each. With few, the tensors of a block fit the processor's cache.
    const SCORE_BLOCK: [usize; 2] = [8, 32];

    /// Largest number of values of one tensor of the scores of a training step, which are computed in blocks of captions.
    const BLOCK_VALUES: i64 = BLOCK_VALUES;

    /// True if a score in a training step depends on its image and caption alone, not on statistics of the batch.
    fn scores_pairs_alone(&self) -> bool {
        true
    }

    /// Specifications of the parameters, in an order that never changes, without those of the CNN.
    ///
    /// # Errors
    /// A width that no tensor can have.
    fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>>;

    /// Settings of a published model.
    fn published_settings(published: &Self::Published, shapes: &CheckpointShapes<'_>) -> Self;

    /// Description of the data of a published model, whose vocabulary has `words` words.
    fn published_data(shapes: &CheckpointShapes<'_>, words: usize) -> InputSpec {
        InputSpec::for_regions(PUBLISHED_REGIONS, shapes.image_width(), words)
    }

    /// Number of values that the score of `images` with one word needs in one tensor. It bounds the blocks of
    /// captions that are scored together.
    fn values_per_word(&self, _images: &EncodedItems) -> i64 {
        1
    }

    /// Encodes images: their feature vectors, their regions, or the L2-normalised CNN features of raw images. In a
    /// training step `batch` is given; its seed determines random draws.
    ///
    /// # Errors
    /// Images that the model cannot read.
    fn forward_images(&self, graph: &Graph<'_>, images: EncodedItems, batch: StepBatch<'_>) -> Result<EncodedItems>;

    /// Encodes captions, given as token ids.
    fn forward_captions(&self, graph: &Graph<'_>, captions: &[&[i32]], batch: StepBatch<'_>) -> Result<EncodedItems>;

    /// Scores images with captions, `[n, m]`: the inner products of their vectors, unless a family does otherwise.
    fn forward_scores(&self, graph: &Graph<'_>, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor> {
        Ok(graph.matmul_transposed(&images.vectors, &captions.vectors))
    }

    /// Attention between the words of one caption and the regions of one image; `None` if the score has no such
    /// attention.
    fn word_attention(
        &self,
        _graph: &Graph<'_>,
        _image: &EncodedItems,
        _caption: &EncodedItems,
    ) -> Option<WordAttention> {
        None
    }

    /// Auxiliary losses of the global batch; image i and caption i are a pair.
    fn global_losses(
        &self,
        _graph: &Graph<'_>,
        _images: &EncodedItems,
        _captions: &EncodedItems,
        _context: GlobalLossContext<'_>,
    ) -> Result<AuxiliaryLossTensors> {
        Ok(Vec::new())
    }
}

impl<S: Differentiable> Family for AutogradConfig<S> {
    type Settings = S;

    fn from_settings(settings: &S, data: InputSpec) -> Self {
        Self { data, settings: settings.clone() }
    }

    fn input_spec(&self) -> &InputSpec {
        &self.data
    }

    fn input_spec_mut(&mut self) -> &mut InputSpec {
        &mut self.data
    }

    fn parameter_specs(&self) -> Result<Vec<ParameterSpec>> {
        self.settings.parameter_specs(&self.data)
    }

    fn build(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
        Ok(Box::new(AutogradModel::new(self.clone(), parameters)))
    }

    fn read_published(published: &S::Published, checkpoint: &[u8], words: usize) -> Result<PublishedCheckpoint<Self>> {
        let layout = S::CHECKPOINT_LAYOUT.ok_or_else(|| Error::data("nobody has published a model of this family"))?;
        read_checkpoint(checkpoint, words, &layout, |shapes| Self {
            data: S::published_data(shapes, words),
            settings: S::published_settings(published, shapes),
        })
    }
}

/// Largest number of values of a block in one tensor, unless a family says otherwise: 16 MiB of f32.
pub(super) const BLOCK_VALUES: i64 = 1 << 22;

/// Limit of the values of all blocks together, in one tensor. Up to it, the graphs of all blocks are kept until the
/// backward pass: about a dozen such tensors for cross attention, 0.8 GiB. Beyond it, each block is computed again there.
pub(super) const KEPT_VALUES: i64 = 1 << 24;

/// Captions in the order of their lengths, in blocks.
#[derive(Debug)]
pub(super) struct ScoreBlocks {
    /// Captions from long to short, as published data loaders sort a batch.
    order: Vec<usize>,
    /// Ranges of `order`.
    ranges: Vec<Range<usize>>,
    /// Number of values of all blocks in one tensor.
    values: i64,
}

impl ScoreBlocks {
    /// Cuts captions into blocks of at most `block_values` values. `values_per_word` is the number of values that the score
    /// of all images with one word needs in one tensor. Captions of one vector each are one block.
    pub fn new(captions: &EncodedItems, values_per_word: i64, block_values: i64) -> Self {
        let Some(lengths) = &captions.lengths else {
            let all = 0..captions.len();
            return Self { order: all.clone().collect(), ranges: vec![all], values: 0 };
        };
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        order.sort_by_key(|&caption| Reverse(lengths[caption]));
        let mut blocks = Self { order, ranges: Vec::new(), values: 0 };
        let (mut start, mut words) = (0, 0);
        for end in 0..blocks.order.len() {
            let length = lengths[blocks.order[end]];
            let padded = lengths[blocks.order[start]] * (end + 1 - start).saturating_as::<i64>();
            // At most a quarter of padding, and at most the largest number of values.
            let is_full = padded * 4 > (words + length) * 5 || padded.saturating_mul(values_per_word) > block_values;
            if is_full && end > start {
                blocks.push(start..end, lengths, values_per_word);
                (start, words) = (end, 0);
            }
            words += length;
        }
        blocks.push(start..blocks.order.len(), lengths, values_per_word);
        blocks
    }

    fn push(&mut self, range: Range<usize>, lengths: &[i64], values_per_word: i64) {
        let longest = range.clone().map(|at| lengths[self.order[at]]).max().unwrap_or(0);
        let words = longest * range.len().saturating_as::<i64>();
        self.values = self.values.saturating_add(words.saturating_mul(values_per_word));
        self.ranges.push(range);
    }

    /// True if the graphs of all blocks may be kept at the same time, with at most so many values in one tensor.
    pub fn keeps_graphs(&self, most_values: i64) -> bool {
        self.ranges.len() == 1 || self.values <= most_values
    }

    /// Captions of every block.
    pub fn captions(&self) -> impl Iterator<Item = &[usize]> {
        self.ranges.iter().map(|range| &self.order[range.clone()])
    }

    /// Scores all captions, `[n, m]`, with `score` for each block.
    ///
    /// # Errors
    /// Errors of `score`.
    pub fn score(&self, captions: &EncodedItems, score: impl Fn(&EncodedItems) -> Result<Tensor>) -> Result<Tensor> {
        let is_sorted = self.order.is_sorted();
        let copy = (!is_sorted).then(|| captions.select(&self.order));
        let sorted = copy.as_ref().unwrap_or(captions);
        let blocks = self.ranges.iter().map(|range| score(&sorted.slice(range.clone())));
        let mut blocks = blocks.collect::<Result<Vec<_>>>()?;
        let blocks = if blocks.len() == 1 { blocks.remove(0) } else { Tensor::cat(&blocks, 1) };
        if is_sorted {
            return Ok(blocks);
        }
        let mut places = vec![0i64; self.order.len()];
        self.order.iter().zip(0..).for_each(|(&caption, place)| places[caption] = place);
        Ok(blocks.index_select(1, &Tensor::from_slice(&places).to_device(blocks.device())))
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::collective::CollectiveGroup;
    use crate::step::{LossAndGradients, PairBatch, StepOptions, loss_and_gradients};
    use pairloom_kernels::epoch::TrainingPair;
    use pairloom_kernels::random::Rng;
    use pairloom_spec::family::scan::ScanSettings;
    use pairloom_spec::family::sgraf::SgrafSettings;
    use pairloom_spec::loss::Loss;

    const CAPTIONS: [&[i32]; 5] = [&[1, 2], &[1, 5, 6, 2], &[3], &[1, 7, 2], &[8, 8]];

    /// Gradients in f64 where scores with more than `kept_values` values are computed again in the backward pass.
    fn step<S: Differentiable>(settings: &str, loss: &str, kept_values: i64) -> LossAndGradients {
        let settings: S = toml::from_str(settings).expect("settings");
        let config = AutogradConfig { data: InputSpec::for_regions(4, 3, 9), settings };
        let specs = || config.parameter_specs().expect("widths");
        let drawn = Parameters::random(specs(), &config.data, 7, Device::Cpu).expect("parameters");
        let tensors = drawn.tensors().iter().map(|tensor| tensor.to_kind(Kind::Double) * 3.0).collect();
        let parameters = Parameters::new(specs(), &config.data, tensors).expect("parameters");
        let model = AutogradModel { kept_values, ..AutogradModel::new(config, parameters) };
        let captions = model.encode_captions(&CAPTIONS).expect("captions");
        assert!(model.blocks(&captions, &captions).captions().count() > 1, "several blocks");
        let mut rng = Rng::new(6, &[]);
        #[expect(clippy::cast_possible_truncation, reason = "regions are f32")]
        let images: Vec<f32> = (0..5 * 4 * 3).map(|_| rng.uniform() as f32 - 0.5).collect();
        let pairs = TrainingPair::unrelated(5);
        let batch = PairBatch { images: &images, captions: &CAPTIONS, pairs: &pairs, relevance: None };
        let loss: Loss = serde_json::from_value(serde_json::json!({ loss: { "margin": 0.2 } })).expect("a loss");
        let options = StepOptions { seed: 3, ..StepOptions::from(loss) };
        loss_and_gradients(&model, &[], &batch, &options, None, 4, &CollectiveGroup::single()).expect("gradients")
    }

    fn check<S: Differentiable>(settings: &str, updates: usize) {
        for loss in ["sum", "max"] {
            check_loss::<S>(settings, loss, updates);
        }
    }

    fn check_loss<S: Differentiable>(settings: &str, loss: &str, updates: usize) {
        let (kept, again) = (step::<S>(settings, loss, KEPT_VALUES), step::<S>(settings, loss, 0));
        let values = |tensors: &[Tensor]| -> Vec<f64> {
            let all = tensors.iter().flat_map(|tensor| Vec::<f64>::try_from(tensor.reshape([-1])).expect("f64"));
            all.collect()
        };
        let [expected, got] = [&kept, &again].map(|found| values(&found.parameters));
        let moved = expected.iter().filter(|value| value.abs() > 1e-9).count();
        assert!(kept.loss > 0.0 && moved > 30, "{settings}, {loss}: {moved} gradients");
        let largest = expected.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        let worst = got.iter().zip(&expected).map(|(got, expected)| (got - expected).abs()).fold(0.0, f64::max);
        assert!(got.len() == expected.len() && worst < 1e-13 * largest.max(1.0), "{settings}: {worst} of {largest}");
        assert!((kept.loss - again.loss).abs() < 1e-13 * kept.loss, "{settings}");
        // The running statistics are updated once, although the scores are computed twice.
        assert_eq!(kept.buffers.len(), updates, "{settings}");
        assert!(kept.buffers.keys().eq(again.buffers.keys()), "{settings}");
        for (index, value) in &kept.buffers {
            let distance = (value - &again.buffers[index]).abs().max().double_value(&[]);
            assert!(distance < 1e-13, "{settings}: statistics differ by {distance}");
        }
    }

    /// A training of real size computes the scores again in the backward pass, with MAX those of some pairs only. Golden
    /// files compare graphs that are kept.
    #[test]
    fn scores_that_are_computed_again_have_the_gradients_of_those_that_are_kept() {
        for more in ["", "cross_attention = \"i2t\"\naggregation = \"log_sum_exp\""] {
            check::<ScanSettings>(&format!("embed_size = 4\nword_dim = 3\n{more}"), 0);
        }
        let widths = "embed_size = 4\nword_dim = 3\nsimilarity_dim = 8\nreasoning_steps = 2\ndropout = 0.3";
        for (batch_norm, [sgr_updates, saf_updates]) in [("batch", [4, 6]), ("frozen", [0, 0])] {
            check::<SgrafSettings>(&format!("{widths}\nbatch_norm = \"{batch_norm}\""), sgr_updates);
            let saf = format!("{widths}\nbatch_norm = \"{batch_norm}\"\nmodule = \"saf\"");
            check::<SgrafSettings>(&saf, saf_updates);
        }
    }

    fn captions(lengths: &[i64]) -> EncodedItems {
        let vectors = Tensor::arange(lengths.iter().sum::<i64>(), (Kind::Double, Device::Cpu)).view([-1, 1]);
        EncodedItems { vectors, lengths: Some(lengths.to_vec()) }
    }

    #[test]
    fn captions_of_like_length_are_together() {
        let blocks = ScoreBlocks::new(&captions(&[9, 3, 3, 10, 4, 9]), 1, BLOCK_VALUES);
        assert_eq!(blocks.captions().collect::<Vec<_>>(), [&[3usize, 0, 5, 4][..], &[1, 2]]);
        assert!(blocks.keeps_graphs(KEPT_VALUES));
        // 4 words of a million values each are a block.
        let blocks = ScoreBlocks::new(&captions(&[2, 2, 2, 5, 2]), 1 << 20, BLOCK_VALUES);
        assert_eq!(blocks.captions().collect::<Vec<_>>(), [&[3usize][..], &[0, 1], &[2, 4]]);
        assert_eq!((blocks.values, blocks.keeps_graphs(KEPT_VALUES)), (13 << 20, true));
        assert!(!ScoreBlocks::new(&captions(&[2, 2, 2, 5, 2]), 1 << 21, BLOCK_VALUES).keeps_graphs(KEPT_VALUES));
    }

    /// The score of a caption is the sum of its words' numbers: captions keep their order.
    #[test]
    fn scores_have_the_order_of_the_captions() {
        let all = captions(&[3, 1, 9, 2]);
        let score = |block: &EncodedItems| {
            Ok(block.padded().vectors.sum_dim_intlist([1i64, 2].as_slice(), false, None::<Kind>).unsqueeze(0))
        };
        let blocks = ScoreBlocks::new(&all, 1, BLOCK_VALUES);
        assert!(blocks.captions().count() > 1);
        let found = Vec::<f64>::try_from(blocks.score(&all, score).expect("scores").view(-1)).expect("f64");
        assert_eq!(found, [3.0, 3.0, 72.0, 27.0]);
    }
}
