//! One step of a training: forward, the objective over the batch of all ranks, backward, update.
//!
//! ```text
//! own share ─► encoders ─► vectors ─► gathered ─► scores [n, n] ─► objective ─► ∂/∂scores
//!                             ▲                      ▲ bank, same images, φ         │
//!    update ◄── Σ over ranks ◄┴── encoders backward ◄── own rows ◄── similarity backward ◄┘
//! ```
//!
//! Every rank computes the objective of the whole batch and follows it back through its own rows; so the sum of the gradients
//! over the ranks is the gradient of one rank that has the whole batch.

use tch::{Kind, Tensor};

use super::adam::norm;
use super::bank::{Bank, Mask, Member};
use super::collective::Group;
use super::loss::{Context, Loss, Objective};
use super::similarity::Similarity;
use super::training::Training;
use super::vse::Vse;
use crate::error::{Error, Result};
use crate::kernels::epoch::share;
use crate::kernels::loss::BankWeights;

/// A batch of matching pairs.
#[derive(Debug)]
pub struct Pairs<'b> {
    /// What there is of the images of this rank's share, row-major, one row a pair.
    pub images: &'b [f32],
    /// The numbers of the words of the captions of this rank's share.
    pub captions: &'b [&'b [i64]],
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
    /// What scores are.
    pub similarity: Similarity,
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
    /// Its gradient in every trained parameter, in the order of [`Vse::trained`].
    pub parameters: Vec<Tensor>,
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stepped {
    /// Value of the objective before the step, as its paper sums it.
    pub loss: f64,
    /// Global L2 norm of the gradient before clipping.
    pub gradient_norm: f64,
}

impl From<Loss> for Recipe {
    /// A loss on cosines, with nothing else to it; the gradient clipped to 2, as published code does.
    fn from(loss: Loss) -> Self {
        let objective = Objective { loss, semantic_margin: None };
        Self { objective, similarity: Similarity::Cosine, mask_same_image: false, seed: 0, clip: 2.0 }
    }
}

impl Vse {
    /// The objective on the batch of all ranks, and its gradient. `step` is the number of the step, for what the objective
    /// draws.
    ///
    /// # Errors
    /// As the encoders, the objective and the collective; a batch without a pair.
    pub fn gradients(
        &self,
        pairs: &Pairs<'_>,
        recipe: &Recipe,
        bank: Option<BankUse<'_>>,
        step: u64,
        group: &Group,
    ) -> Result<Gradients> {
        let forward = self.forward(pairs.images, pairs.captions)?;
        let (images, captions) = (group.all_gather(&forward.images)?, group.all_gather(&forward.captions)?);
        let n = pairs.members.len();
        if n == 0 || images.size()[0] != i64::try_from(n).unwrap_or(-1) {
            return Err(Error::internal(format!("{:?} gathered vectors for {n} pairs", images.size())));
        }
        let similarity = recipe.similarity;
        let scores = similarity.scores(&images, &captions);
        let bank_scores =
            bank.map(|BankUse { bank, mask, .. }| bank.scores(&images, &captions, pairs.members, similarity, mask));
        let masked = recipe.mask_same_image.then(|| same_image(pairs.members, &scores));
        let relevance = pairs.relevance.map(|values| square(values, n, &scores)).transpose()?;
        let context = Context {
            masked: masked.as_ref(),
            bank: bank.zip(bank_scores.as_ref()).map(|(bank, scores)| (bank.weights, scores)),
            relevance: relevance.as_ref(),
            seed: recipe.seed,
            step,
        };
        let found = recipe.objective.evaluate(&scores, &context)?;
        let own = share(n, group.rank(), group.ranks());
        let own = [own.start, own.end].map(|row| i64::try_from(row).unwrap_or(i64::MAX));
        let (d_images, d_captions) = similarity.backward(&images, &captions, &found.d_scores, &(own[0]..own[1]));
        let parameters = self.backward(forward, &d_images, &d_captions)?;
        group.sum(&parameters)?;
        Ok(Gradients { loss: found.value, parameters })
    }
}

impl Training {
    /// One step of Adam on the batch of all ranks, the gradient's global norm clipped.
    ///
    /// A loss or gradient that is not finite leaves the parameters as they were.
    ///
    /// # Errors
    /// As [`Vse::gradients`].
    pub fn step(
        &mut self,
        pairs: &Pairs<'_>,
        recipe: &Recipe,
        bank: Option<BankUse<'_>>,
        learning_rate: f64,
        step: u64,
        group: &Group,
    ) -> Result<Stepped> {
        let Gradients { loss, parameters } = self.vse().gradients(pairs, recipe, bank, step, group)?;
        let gradient_norm =
            if loss.is_finite() { self.update(&parameters, recipe.clip, learning_rate) } else { norm(&parameters) };
        Ok(Stepped { loss, gradient_norm })
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
    let n = i64::try_from(n).unwrap_or(i64::MAX);
    Tensor::from_slice(&same).view([n, n]).to_device(like.device())
}

fn square(values: &[f32], n: usize, like: &Tensor) -> Result<Tensor> {
    if values.len() != n * n {
        return Err(Error::internal(format!("{} similarities for {n} pairs", values.len())));
    }
    let n = i64::try_from(n).unwrap_or(i64::MAX);
    let kind = if like.kind() == Kind::Double { Kind::Double } else { Kind::Float };
    Ok(Tensor::from_slice(values).view([n, n]).to_device(like.device()).to_kind(kind))
}
