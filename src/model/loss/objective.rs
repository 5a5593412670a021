//! Value and gradient of an objective on the scores of a batch.

use tch::{Kind, Tensor};

use super::function::{LossFunction, LossInput};
use super::memory_bank_weights::MemoryBankScores;
use super::negatives::Negatives;
use super::semantic_margin::semantic_margin;
use pairloom_base::error::{Error, Result};
use pairloom_spec::loss::{MemoryBankWeights, Objective};

/// Inputs of an objective beside the scores of the batch.
#[derive(Debug, Default)]
pub struct ObjectiveContext<'c> {
    /// `[n, n]` bool: true where caption j is not a negative of image i because it is another caption of the same
    /// image.
    pub masked: Option<&'c Tensor>,
    /// Scores with a memory bank, and the settings of the weights that follow from them.
    pub memory_bank: Option<(&'c MemoryBankWeights, &'c MemoryBankScores)>,
    /// `[n, n]`: similarity of caption j to the captions of image i. Required by
    /// [`SemanticMargin`](pairloom_spec::loss::SemanticMargin) and used by it only.
    pub relevance: Option<&'c Tensor>,
    /// Values of the learned scalars of the loss, each `[1]`.
    pub scalars: &'c [Tensor],
    /// Seed of random negatives.
    pub seed: u64,
    /// Number of the training step, for random negatives.
    pub step: u64,
}

/// Value and gradient of an objective on a batch.
#[derive(Debug)]
pub struct ObjectiveValue {
    /// Value; not finite if a score is not finite.
    pub value: f64,
    /// `[n, n]`: derivative in every score, of the data type of the scores.
    pub d_scores: Tensor,
    /// Derivative in every learned scalar, each `[1]`.
    pub d_scalars: Vec<Tensor>,
}

/// Evaluation of an objective on scores.
pub trait EvaluateObjective {
    /// Computes value and gradient on the scores `[n, n]` of a batch, image by caption, with matching pairs on the
    /// diagonal.
    ///
    /// Scores of less than 32 bits are widened to f32. The value is summed in f64.
    ///
    /// # Errors
    /// Shapes that do not fit each other, or a semantic margin without relevance.
    fn evaluate(&self, scores: &Tensor, context: &ObjectiveContext<'_>) -> Result<ObjectiveValue>;
}

impl EvaluateObjective for Objective {
    fn evaluate(&self, scores: &Tensor, context: &ObjectiveContext<'_>) -> Result<ObjectiveValue> {
        check(self, scores, context)?;
        let kind = scores.kind();
        let wide = if kind == Kind::Double { Kind::Double } else { Kind::Float };
        let leaf = |of: &Tensor| of.detach().to_kind(wide).set_requires_grad(true);
        let (scores, scalars) = (leaf(scores), context.scalars.iter().map(leaf).collect::<Vec<_>>());
        let value = tch::with_grad(|| value(self, &scores, &scalars, context));
        let wanted: Vec<&Tensor> = std::iter::once(&scores).chain(&scalars).collect();
        let gradients = Tensor::f_run_backward(&[&value], &wanted, false, false)
            .map_err(|error| Error::internal(format!("libtorch could not differentiate the objective: {error}")))?;
        // The loss of a warm-up does not depend on the scalars of the loss.
        let gradients = gradients.into_iter().zip(wanted);
        let gradients = gradients.map(|(found, of)| if found.defined() { found } else { of.zeros_like() });
        let mut gradients = gradients.map(|gradient| gradient.to_kind(kind));
        let d_scores = gradients.next().ok_or_else(|| Error::internal("libtorch gave no gradient"))?;
        Ok(ObjectiveValue { value: value.double_value(&[]), d_scores, d_scalars: gradients.collect() })
    }
}

/// Value as a differentiable scalar tensor.
fn value(objective: &Objective, scores: &Tensor, scalars: &[Tensor], context: &ObjectiveContext<'_>) -> Tensor {
    let negatives = Negatives::new(scores, context.masked);
    // Comparisons with NaN are false, so choosing negatives would ignore it silently. This sum makes the value NaN.
    let mut value = (scores * 0.0).sum(Kind::Double);
    if objective.semantic_margin.is_none_or(|semantic_margin| semantic_margin.keep_triplet) {
        let memory_bank = context.memory_bank;
        value += objective.loss.value(&LossInput { scores, negatives: &negatives, memory_bank, scalars });
    }
    if let (Some(settings), Some(relevance)) = (&objective.semantic_margin, context.relevance) {
        let margins = semantic_margin(scores, &negatives, relevance, settings, context.seed, context.step);
        value += margins * settings.weight;
    }
    value
}

fn check(objective: &Objective, scores: &Tensor, context: &ObjectiveContext<'_>) -> Result<()> {
    let wanted = |what: &str, got: &Tensor, fits: bool| {
        let got = got.size();
        if fits { Ok(()) } else { Err(Error::internal(format!("{what} {got:?} of a batch, wanted `[n, n]`"))) }
    };
    let size = scores.size();
    wanted("scores", scores, matches!(size.as_slice(), [rows, columns] if rows == columns && *rows > 0))?;
    for (what, given) in [("a mask", context.masked), ("relevance", context.relevance)] {
        if let Some(given) = given {
            wanted(what, given, given.size() == size)?;
        }
    }
    if let Some((_, bank)) = context.memory_bank {
        let (captions, images) = (bank.captions.size(), bank.images.size());
        if captions.len() != 2 || captions[0] != size[0] || captions[1] == 0 || captions != images {
            let got = format!("{captions:?} and {images:?} of {} pairs with a bank", size[0]);
            return Err(Error::internal(format!("scores {got}, wanted `[n, M]` of both")));
        }
    }
    if objective.semantic_margin.is_some() && context.relevance.is_none() {
        return Err(Error::internal("`semantic_margin` needs the relevance of the captions"));
    }
    Ok(())
}
