//! Training step: forward, objective of the global batch, backward, update.
//!
//! ```text
//! local batch ─► encoded ─► gathered ─► scores [n, n] ─► objective ─► ∂/∂scores
//!                                                           ▲ memory bank, mask, φ│
//!   update ◄── Σ over ranks ◄── encoder backward ◄── own rows ◄── score backward ◄┘
//! ```
//!
//! Every rank computes the objective of the global batch and its gradient in the rank's own rows. So the sum of the
//! gradients over the ranks equals the gradient of one rank that has the whole batch.

use az::SaturatingAs;
use tch::{Kind, Tensor};

use super::adam::global_norm;
use super::collective::CollectiveGroup;
use super::family::image_rows::ImageRows;
use super::family::model::{
    AuxiliaryLosses, EncodedBatch, GlobalLossContext, LocalBatch, Model, ScoreGradients, ScoredBatch,
};
use super::family::parameters::BufferUpdates;
use super::loss::{EvaluateObjective, ObjectiveContext};
use super::memory_bank::MemoryBank;
use super::training_state::TrainingState;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::epoch::{TrainingPair, rank_share};
use pairloom_spec::loss::{Loss, MemoryBankMask, MemoryBankWeights, Objective};
use pairloom_spec::similarity::EmbeddingSimilarity;

/// Batch of matching pairs. This rank has the inputs of its local batch only.
#[derive(Debug)]
pub struct PairBatch<'b> {
    /// Inputs of the images of the local batch, row-major, one row for each pair.
    pub images: &'b [f32],
    /// Token ids of the captions of the local batch.
    pub captions: &'b [&'b [i32]],
    /// Pairs of the global batch: those of rank 0, those of rank 1, and so on.
    pub pairs: &'b [TrainingPair],
    /// Relevance φ of every image of the global batch with every caption, row-major, if the objective needs it.
    pub relevance: Option<&'b [f32]>,
}

/// Options of training steps.
#[derive(Debug, Clone)]
pub struct StepOptions {
    /// Objective to minimise.
    pub objective: Objective,
    /// True in a warm-up: the loss of the objective is also in place of the model's own losses on scores.
    pub is_warm_up: bool,
    /// True if other captions of the same image are not negatives.
    pub mask_same_image: bool,
    /// Seed of random numbers.
    pub seed: u64,
    /// Largest global L2 norm of the gradient; larger gradients are scaled down.
    pub gradient_clip: f64,
    /// Decoupled weight decay of `AdamW`; 0 for Adam.
    pub weight_decay: f64,
}

/// Memory bank and the options of comparing a batch with it.
#[derive(Debug, Clone, Copy)]
pub struct MemoryBankComparison<'b> {
    /// Memory bank.
    pub memory_bank: &'b MemoryBank,
    /// Similarity of two embeddings.
    pub similarity: EmbeddingSimilarity,
    /// Samples of the memory bank that a pair is not compared with.
    pub mask: MemoryBankMask,
    /// Temperatures, margins and number of neighbours of the weights.
    pub weights: &'b MemoryBankWeights,
}

/// Value and gradient of the objective on a batch.
#[derive(Debug)]
pub struct LossAndGradients {
    /// Value of the objective, summed or averaged as in its paper.
    pub loss: f64,
    /// Values of the model's auxiliary losses.
    pub auxiliary: AuxiliaryLosses,
    /// Gradient of their sum in every trainable parameter, in the order of
    /// [`Parameters::trainable`](super::family::parameters::Parameters::trainable), then in every learned scalar of the
    /// loss.
    pub parameters: Vec<Tensor>,
    /// Running statistics after the step.
    pub buffers: BufferUpdates,
}

/// Result of a training step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepResult {
    /// Value of the objective before the step, summed or averaged as in its paper.
    pub loss: f64,
    /// Values of the model's auxiliary losses before the step.
    pub auxiliary: AuxiliaryLosses,
    /// Learned scalars of the loss before the step, as (name, value).
    pub scalars: Vec<(String, f64)>,
    /// Global L2 norm of the gradient before clipping.
    pub gradient_norm: f64,
}

impl StepResult {
    /// True if the objective, the auxiliary losses and the gradient's norm are finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        let losses = std::iter::once(self.loss).chain(self.auxiliary.iter().map(|(_, value)| *value));
        losses.chain([self.gradient_norm]).all(f64::is_finite)
    }
}

impl From<Loss> for StepOptions {
    /// Options of a loss alone, with the gradient clipped to 2 as in published code.
    fn from(loss: Loss) -> Self {
        let objective = Objective { loss, semantic_margin: None };
        Self { objective, is_warm_up: false, mask_same_image: false, seed: 0, gradient_clip: 2.0, weight_decay: 0.0 }
    }
}

/// Computes the objective of the global batch, the model's auxiliary losses, and the gradient of their sum. `scalars` are
/// the learned scalars of the loss, and `step` is the number of the step, for random numbers.
///
/// # Errors
/// Errors of the model, the objective or the collective operations; a batch without pairs.
pub fn loss_and_gradients(
    model: &dyn Model,
    scalars: &[Tensor],
    batch: &PairBatch<'_>,
    options: &StepOptions,
    bank: Option<MemoryBankComparison<'_>>,
    step: u64,
    group: &CollectiveGroup,
) -> Result<LossAndGradients> {
    let n = batch.pairs.len();
    let own = rank_share(n, group.rank(), group.world_size());
    let images = ImageRows::new(batch.images, model.input_spec().values_per_image(), &model.parameters().tensors()[0])?;
    let local_batch = LocalBatch {
        images,
        captions: batch.captions,
        pairs: own.clone(),
        global_size: n,
        seed_and_step: [options.seed, step],
    };
    let EncodedBatch { images: own_images, captions: own_captions, losses, mut buffers, backward } =
        model.encode_batch(&local_batch)?;
    let (images, captions) = (own_images.all_gather(group)?, own_captions.all_gather(group)?);
    if n == 0 || images.len() != n || captions.len() != n {
        let gathered = (images.len(), captions.len());
        return Err(Error::internal(format!("got {gathered:?} gathered images and captions for {n} pairs")));
    }
    let mut auxiliary = sum_over_ranks(losses, group)?;
    let masked = options.mask_same_image.then(|| same_image_mask(batch.pairs, &images.vectors));
    let warm_up = options.is_warm_up.then_some(&options.objective.loss);
    let loss_context = GlobalLossContext { masked: masked.as_ref(), warm_up };
    let ScoredBatch { scores, losses, buffers: score_buffers, backward: block_backward } =
        model.score_batch(&images, &captions, loss_context)?;
    auxiliary.extend(losses);
    buffers.extend(score_buffers);
    let relevance = batch.relevance.map(|values| square_matrix(values, n, &scores)).transpose()?;
    let bank_scores = bank.map(|MemoryBankComparison { memory_bank: bank, similarity, mask, .. }| {
        bank.scores(&images.vectors, &captions.vectors, batch.pairs, similarity, mask)
    });
    let context = ObjectiveContext {
        masked: masked.as_ref(),
        memory_bank: bank.zip(bank_scores.as_ref()).map(|(bank, scores)| (bank.weights, scores)),
        relevance: relevance.as_ref(),
        scalars,
        seed: options.seed,
        step,
    };
    let found = options.objective.evaluate(&scores, &context)?;
    let ScoreGradients { images: d_images, captions: d_captions, parameters: score_gradients } =
        block_backward(&found.d_scores, own)?;
    let mut parameters = backward(&d_images, &d_captions)?;
    // Every rank has all scores and so the whole gradient in the parameters of the scores and in the scalars of the loss.
    // Rank 0 contributes it.
    if let Some(score_gradients) = score_gradients.filter(|_| group.rank() == 0) {
        tch::no_grad(|| {
            parameters.iter().zip(score_gradients).for_each(|(all, more)| drop(all.shallow_clone().g_add_(&more)));
        });
    }
    let scalar_gradients = found.d_scalars.iter().zip(scalars);
    parameters.extend(
        scalar_gradients.map(
            |(gradient, scalar)| {
                if group.rank() == 0 { gradient.contiguous() } else { scalar.zeros_like() }
            },
        ),
    );
    group.all_reduce_sum(&parameters)?;
    Ok(LossAndGradients { loss: found.value, auxiliary, parameters, buffers })
}

/// Sums local losses over all ranks.
fn sum_over_ranks(mut losses: AuxiliaryLosses, group: &CollectiveGroup) -> Result<AuxiliaryLosses> {
    if !losses.is_empty() && group.world_size() > 1 {
        let values = Tensor::from_slice(&losses.iter().map(|(_, value)| *value).collect::<Vec<_>>());
        group.all_reduce_sum(std::slice::from_ref(&values))?;
        let values = Vec::<f64>::try_from(values).map_err(|error| Error::internal(error.to_string()))?;
        losses.iter_mut().zip(values).for_each(|((_, value), sum)| *value = sum);
    }
    Ok(losses)
}

impl TrainingState {
    /// Makes one step of Adam or `AdamW` on the global batch, with the gradient's global norm clipped.
    ///
    /// If a loss or the gradient is not finite, the parameters do not change.
    pub fn step(
        &mut self,
        batch: &PairBatch<'_>,
        options: &StepOptions,
        bank: Option<MemoryBankComparison<'_>>,
        learning_rate: f64,
        step: u64,
        group: &CollectiveGroup,
    ) -> Result<StepResult> {
        let LossAndGradients { loss, auxiliary, parameters, buffers } =
            loss_and_gradients(self.model(), self.scalars(), batch, options, bank, step, group)?;
        let mut done = StepResult { loss, auxiliary, scalars: self.scalar_values(), gradient_norm: 0.0 };
        let finite = done.is_finite();
        done.gradient_norm = if finite {
            let norm = self.apply_gradients(&parameters, options.gradient_clip, learning_rate, options.weight_decay);
            if norm.is_finite() {
                self.model().parameters().set_buffers(buffers);
            }
            norm
        } else {
            global_norm(&parameters)
        };
        Ok(done)
    }
}

/// Mask `[n, n]` of the places off the diagonal whose image and caption belong to the same image.
fn same_image_mask(members: &[TrainingPair], like: &Tensor) -> Tensor {
    let n = members.len();
    let mut same = vec![false; n * n];
    for (i, one) in members.iter().enumerate() {
        for (j, other) in members.iter().enumerate() {
            same[i * n + j] = i != j && one.image == other.image;
        }
    }
    let n = n.saturating_as::<i64>();
    Tensor::from_slice(&same).view([n, n]).to_device(like.device())
}

fn square_matrix(values: &[f32], n: usize, like: &Tensor) -> Result<Tensor> {
    if values.len() != n * n {
        return Err(Error::internal(format!("got {} similarities for {n} pairs", values.len())));
    }
    let n = n.saturating_as::<i64>();
    let kind = if like.kind() == Kind::Double { Kind::Double } else { Kind::Float };
    Ok(Tensor::from_slice(values).view([n, n]).to_device(like.device()).to_kind(kind))
}
