//! Value and gradient of an objective on the scores of a batch, the trait of the loss functions, and the negatives that
//! they share.

use tch::{Kind, Tensor};

use super::hal::MemoryBankScores;
use super::semantic_margin::semantic_margin;
use pairloom_base::error::{Error, Result};
use pairloom_spec::loss::{Loss, MemoryBankWeights, Objective};

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
        let leaf = |tensor: &Tensor| tensor.detach().to_kind(wide).set_requires_grad(true);
        let (scores, scalars) = (leaf(scores), context.scalars.iter().map(leaf).collect::<Vec<_>>());
        let value = tch::with_grad(|| value(self, &scores, &scalars, context));
        let expected: Vec<&Tensor> = std::iter::once(&scores).chain(&scalars).collect();
        let gradients = Tensor::f_run_backward(&[&value], &expected, false, false)
            .map_err(|error| Error::internal(format!("libtorch could not differentiate the objective: {error}")))?;
        // The loss of a warm-up does not depend on the scalars of the loss.
        let gradients = gradients.into_iter().zip(expected);
        let gradients = gradients.map(|(found, like)| if found.defined() { found } else { like.zeros_like() });
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
    let require = |what: &str, got: &Tensor, fits: bool| {
        let got = got.size();
        if fits { Ok(()) } else { Err(Error::internal(format!("{what} {got:?} of a batch, expected `[n, n]`"))) }
    };
    let size = scores.size();
    require("scores", scores, matches!(size.as_slice(), [rows, columns] if rows == columns && *rows > 0))?;
    for (what, given) in [("a mask", context.masked), ("relevance", context.relevance)] {
        if let Some(given) = given {
            require(what, given, given.size() == size)?;
        }
    }
    if let Some((_, bank)) = context.memory_bank {
        let (captions, images) = (bank.captions.size(), bank.images.size());
        if captions.len() != 2 || captions[0] != size[0] || captions[1] == 0 || captions != images {
            let got = format!("{captions:?} and {images:?} of {} pairs with a bank", size[0]);
            return Err(Error::internal(format!("scores {got}, expected `[n, M]` of both")));
        }
    }
    if objective.semantic_margin.is_some() && context.relevance.is_none() {
        return Err(Error::internal("`semantic_margin` needs the relevance of the captions"));
    }
    Ok(())
}

/// Loss over the scores of a batch. The fields of an implementing type are its
/// [settings](pairloom_spec::loss::LossSettings).
pub trait LossFunction {
    /// Value on a batch, a scalar tensor. libtorch differentiates it in the scores and in the learned scalars.
    fn value(&self, batch: &LossInput<'_>) -> Tensor;
}

/// Input of a loss: the scores of a batch of matching pairs.
#[derive(Debug, Clone, Copy)]
pub struct LossInput<'b> {
    /// `[n, n]`, image by caption. Matching pairs are on the diagonal.
    pub scores: &'b Tensor,
    /// Mask of the negatives.
    pub negatives: &'b Negatives,
    /// Scores with a memory bank, and the settings of the weights that follow from them.
    pub memory_bank: Option<(&'b MemoryBankWeights, &'b MemoryBankScores)>,
    /// Values of the [learned scalars](pairloom_spec::loss::LossSettings::learned_scalars), each `[1]`, in their order. Empty
    /// for a loss without them.
    pub scalars: &'b [Tensor],
}

impl LossFunction for Loss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        function(self).value(batch)
    }
}

/// Function of a loss.
fn function(loss: &Loss) -> &dyn LossFunction {
    match loss {
        Loss::Sum(loss) => loss,
        Loss::Max(loss) => loss,
        Loss::KnnMargin(loss) => loss,
        Loss::LocalScaling(loss) => loss,
        Loss::Hal(loss) => loss,
        Loss::InfoNce(loss) => loss,
        Loss::Sigmoid(loss) => loss,
    }
}

/// Masks of the negatives and of the matching pairs of a batch.
#[derive(Debug)]
pub struct Negatives {
    /// `[n, n]` bool: true where image i and caption j are negatives of each other.
    pub is_negative: Tensor,
    /// `[n, n]` bool: true on the diagonal.
    pub is_matching: Tensor,
}

impl Negatives {
    /// Creates the masks for scores `[n, n]`: negatives are all places except matching pairs and those where `masked`
    /// is true.
    pub fn new(scores: &Tensor, masked: Option<&Tensor>) -> Self {
        let matching = Tensor::eye(scores.size()[0], (Kind::Bool, scores.device()));
        let excluded = masked.map_or_else(|| matching.shallow_clone(), |masked| matching.logical_or(masked));
        Self { is_negative: excluded.logical_not(), is_matching: matching }
    }

    /// Mask of matching pairs and negatives: all places that are not masked.
    pub fn unmasked(&self) -> Tensor {
        self.is_negative.logical_or(&self.is_matching)
    }
}

/// Mask of the `k` highest scores of each row among `candidates`. Among equal scores the lower index is chosen. If a row
/// has fewer than `k` candidates, all are chosen.
pub fn top_k_mask(scores: &Tensor, candidates: &Tensor, k: i64) -> Tensor {
    let width = scores.size()[1];
    if k >= width {
        return candidates.shallow_clone();
    }
    let scores = scores.detach().masked_fill(&candidates.logical_not(), f64::NEG_INFINITY);
    // The choice of libtorch among equal scores is unspecified, but the k-th score is not.
    let (best, _) = scores.topk(k, 1, true, true);
    let last = best.narrow(1, k - 1, 1);
    let above = scores.gt_tensor(&last);
    let level = scores.eq_tensor(&last).logical_and(candidates);
    let room = k - above.sum_dim_intlist(1, true, Kind::Int64);
    let taken = level.cumsum(1, Kind::Int64).le_tensor(&room);
    above.logical_or(&level.logical_and(&taken))
}

/// Σ \[margins + Sᵢⱼ − Sᵢᵢ\]₊ over the places of the mask `captions`, plus Σ \[margins + Sᵢⱼ − Sⱼⱼ\]₊ over those of
/// `images`. The two margins can be broadcast to `[n, n]`.
pub fn triplet_hinges(scores: &Tensor, [captions, images]: [&Tensor; 2], margins: [&Tensor; 2]) -> Tensor {
    let matching = scores.diag(0);
    let image_terms = (scores - matching.unsqueeze(1) + margins[0]).relu() * captions;
    let caption_terms = (scores - matching.unsqueeze(0) + margins[1]).relu() * images;
    (image_terms + caption_terms).sum(Kind::Double)
}

/// Triplet hinges with one constant margin.
pub fn constant_margin_hinges(scores: &Tensor, picked: [&Tensor; 2], margin: f64) -> Tensor {
    let margin = Tensor::from(margin).to_kind(scores.kind()).to_device(scores.device());
    triplet_hinges(scores, picked, [&margin, &margin])
}
