//! One step of a training: forward, the objective over the batch of all ranks, backward, update.
//!
//! ```text
//! own share ─► encoded ─► gathered ─► scores [n, n] ─► objective ─► ∂/∂scores
//!                 ▲                      ▲ bank, same images, φ         │
//!    update ◄── Σ over ranks ◄── backward ◄── own rows ◄── backward ◄──┘
//! ```
//!
//! Every rank computes the objective of the whole batch and follows it back through its own rows; so the sum of the gradients
//! over the ranks is the gradient of one rank that has the whole batch.

use az::SaturatingAs;
use tch::{Kind, Tensor};

use super::adam::norm;
use super::bank::{Bank, Mask, Member};
use super::collective::Group;
use super::family::encode::check_words;
use super::family::encoded::Encoded;
use super::family::model::{Block, Forward, Losses, Model, Pulled, Share};
use super::family::rows::Rows;
use super::loss::{BankWeights, Context, Evaluated, Loss, Objective};
use super::similarity::Similarity;
use super::training::Training;
use crate::error::{Error, Result};
use crate::kernels::epoch::share;

/// A batch of matching pairs.
#[derive(Debug)]
pub struct Pairs<'b> {
    /// What there is of the images of this rank's share, row-major, one row a pair.
    pub images: &'b [f32],
    /// The numbers of the words of the captions of this rank's share.
    pub captions: &'b [&'b [i32]],
    /// The samples of the whole batch: those of rank 0, those of rank 1, and so on.
    pub members: &'b [Member],
    /// φ of the image of each pair of the whole batch with the caption of each, row-major, where the objective wants it.
    pub relevance: Option<&'b [f32]>,
}

/// What is learned, and how fast.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The objective.
    pub objective: Objective,
    /// Whether other captions of an image are no negatives of it.
    pub mask_same_image: bool,
    /// Seed of what the objective draws.
    pub seed: u64,
    /// Largest global L2 norm of the gradient.
    pub clip: f64,
}

/// The memory bank, and what is made of it.
#[derive(Debug, Clone, Copy)]
pub struct BankUse<'b> {
    /// The bank.
    pub bank: &'b Bank,
    /// How a score follows from two vectors.
    pub similarity: Similarity,
    /// What a pair is not compared with.
    pub mask: Mask,
    /// Temperatures, margins, neighbours.
    pub weights: &'b BankWeights,
}

/// The objective on a batch and its gradient.
#[derive(Debug)]
pub struct Gradients {
    /// Value of the objective, as its paper sums it.
    pub loss: f64,
    /// Values of the model's auxiliary losses.
    pub auxiliary: Losses,
    /// The gradient of their sum in every trained parameter, in the order of
    /// [`Parameters::trained`](super::family::parameters::Parameters::trained).
    pub parameters: Vec<Tensor>,
}

/// What one step did.
#[derive(Debug, Clone, PartialEq)]
pub struct Stepped {
    /// Value of the objective before the step, as its paper sums it.
    pub loss: f64,
    /// Values of the model's auxiliary losses before the step.
    pub auxiliary: Losses,
    /// Global L2 norm of the gradient before clipping.
    pub gradient_norm: f64,
}

impl Stepped {
    /// True if the objective, the auxiliary losses and the gradient are numbers.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        let losses = std::iter::once(self.loss).chain(self.auxiliary.iter().map(|(_, value)| *value));
        losses.chain([self.gradient_norm]).all(f64::is_finite)
    }
}

impl From<Loss> for Recipe {
    /// A loss with nothing else to it; the gradient clipped to 2, as published code does.
    fn from(loss: Loss) -> Self {
        let objective = Objective { loss, semantic_margin: None };
        Self { objective, mask_same_image: false, seed: 0, clip: 2.0 }
    }
}

/// The objective on the batch of all ranks and the model's auxiliary losses, and the gradient of their sum. `step` is the
/// number of the step, for what is drawn.
///
/// # Errors
/// As the model, the objective and the collective; a batch without a pair.
pub fn gradients(
    model: &dyn Model,
    pairs: &Pairs<'_>,
    recipe: &Recipe,
    bank: Option<BankUse<'_>>,
    step: u64,
    group: &Group,
) -> Result<Gradients> {
    let n = pairs.members.len();
    let own = share(n, group.rank(), group.ranks());
    let images = Rows::new(pairs.images, model.data().image_values(), &model.parameters().tensors()[0])?;
    check_words(pairs.captions, model.data().words)?;
    let draw = [recipe.seed, step];
    let share = Share { images, captions: pairs.captions, pairs: own.clone(), of: n, draw };
    let Forward { images: own_images, captions: own_captions, losses, backward } = model.forward(&share)?;
    let (images, captions) = (own_images.gather(group)?, own_captions.gather(group)?);
    if n == 0 || images.len() != n || captions.len() != n {
        let gathered = (images.len(), captions.len());
        return Err(Error::internal(format!("{gathered:?} gathered images and captions for {n} pairs")));
    }
    let mut auxiliary = summed(losses, group)?;
    let Block { scores, losses, backward: block_backward } = model.block(&images, &captions)?;
    auxiliary.extend(losses);
    let found = objective(&scores, (&images, &captions), pairs, recipe, bank, step)?;
    let Pulled { images: d_images, captions: d_captions, parameters: of_scores } =
        block_backward(&found.d_scores, own)?;
    let parameters = backward(&d_images, &d_captions)?;
    // Every rank has the whole block, so one of them gives what it has of the parameters that scores are made with.
    if let Some(of_scores) = of_scores.filter(|_| group.rank() == 0) {
        tch::no_grad(|| {
            parameters.iter().zip(of_scores).for_each(|(all, more)| drop(all.shallow_clone().g_add_(&more)));
        });
    }
    group.sum(&parameters)?;
    Ok(Gradients { loss: found.value, auxiliary, parameters })
}

/// The objective on the scores of a batch.
fn objective(
    scores: &Tensor,
    (images, captions): (&Encoded, &Encoded),
    pairs: &Pairs<'_>,
    recipe: &Recipe,
    bank: Option<BankUse<'_>>,
    step: u64,
) -> Result<Evaluated> {
    let bank_scores = bank.map(|BankUse { bank, similarity, mask, .. }| {
        bank.scores(&images.vectors, &captions.vectors, pairs.members, similarity, mask)
    });
    let masked = recipe.mask_same_image.then(|| same_image(pairs.members, scores));
    let relevance = pairs.relevance.map(|values| square(values, pairs.members.len(), scores)).transpose()?;
    let context = Context {
        masked: masked.as_ref(),
        bank: bank.zip(bank_scores.as_ref()).map(|(bank, scores)| (bank.weights, scores)),
        relevance: relevance.as_ref(),
        seed: recipe.seed,
        step,
    };
    recipe.objective.evaluate(scores, &context)
}

/// Losses of shares, added up over all ranks.
fn summed(mut losses: Losses, group: &Group) -> Result<Losses> {
    if !losses.is_empty() && group.ranks() > 1 {
        let values = Tensor::from_slice(&losses.iter().map(|(_, value)| *value).collect::<Vec<_>>());
        group.sum(std::slice::from_ref(&values))?;
        let values = Vec::<f64>::try_from(values).map_err(|error| Error::internal(error.to_string()))?;
        losses.iter_mut().zip(values).for_each(|((_, value), sum)| *value = sum);
    }
    Ok(losses)
}

impl Training {
    /// One step of Adam on the batch of all ranks, the gradient's global norm clipped.
    ///
    /// A loss or gradient that is not finite leaves the parameters as they were.
    ///
    /// # Errors
    /// As [`gradients`].
    pub fn step(
        &mut self,
        pairs: &Pairs<'_>,
        recipe: &Recipe,
        bank: Option<BankUse<'_>>,
        learning_rate: f64,
        step: u64,
        group: &Group,
    ) -> Result<Stepped> {
        let Gradients { loss, auxiliary, parameters } = gradients(self.model(), pairs, recipe, bank, step, group)?;
        let mut done = Stepped { loss, auxiliary, gradient_norm: 0.0 };
        let finite = done.is_finite();
        done.gradient_norm =
            if finite { self.update(&parameters, recipe.clip, learning_rate) } else { norm(&parameters) };
        Ok(done)
    }
}

/// Pairs off the diagonal whose image is the same, `[n, n]`.
fn same_image(members: &[Member], like: &Tensor) -> Tensor {
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

fn square(values: &[f32], n: usize, like: &Tensor) -> Result<Tensor> {
    if values.len() != n * n {
        return Err(Error::internal(format!("{} similarities for {n} pairs", values.len())));
    }
    let n = n.saturating_as::<i64>();
    let kind = if like.kind() == Kind::Double { Kind::Double } else { Kind::Float };
    Ok(Tensor::from_slice(values).view([n, n]).to_device(like.device()).to_kind(kind))
}
