//! An objective and what it needs beside the scores.

use tch::{Kind, Tensor};

use super::bank_weights::{BankScores, BankWeights};
use super::function::{Batch, BatchSpec, LossFunction, Problems};
use super::negatives::Negatives;
use super::semantic_margin::{SemanticMargin, semantic_margin};
use super::{Loss, max};
use crate::error::{Error, Result};

/// What a training minimises: a loss, and triplets with margins by meaning beside it or in its place.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Objective {
    /// The loss.
    pub loss: Loss,
    /// Triplets with margins by meaning.
    pub semantic_margin: Option<SemanticMargin>,
}

/// What a step knows beside the scores of its batch.
#[derive(Debug, Default)]
pub struct Context<'c> {
    /// `[n, n]` bool: true where caption j is no negative of image i, because it is another caption of the same image.
    pub masked: Option<&'c Tensor>,
    /// Scores with a memory bank, and how they weigh the pairs.
    pub bank: Option<(&'c BankWeights, &'c BankScores)>,
    /// `[n, n]`: similarity of caption j to the captions of image i. [`SemanticMargin`] alone looks at it, and needs it.
    pub relevance: Option<&'c Tensor>,
    /// Seed of random negatives.
    pub seed: u64,
    /// Step of the training, for random negatives.
    pub step: u64,
}

/// What an objective says of a batch.
#[derive(Debug)]
pub struct Evaluated {
    /// Its value; not a number if a score is not finite.
    pub value: f64,
    /// `[n, n]`: its derivative in every score, of the scores' kind.
    pub d_scores: Tensor,
}

impl Objective {
    /// Value and gradient on the scores `[n, n]` of a batch, image by caption, with the matching pairs on the diagonal.
    ///
    /// Scores of less than 32 bits are widened. The value is summed in f64.
    ///
    /// # Errors
    /// Shapes that do not fit each other, or no relevance for margins by meaning.
    pub fn evaluate(&self, scores: &Tensor, context: &Context<'_>) -> Result<Evaluated> {
        self.check(scores, context)?;
        let kind = scores.kind();
        let wide = if kind == Kind::Double { Kind::Double } else { Kind::Float };
        let leaf = scores.detach().to_kind(wide).set_requires_grad(true);
        let value = tch::with_grad(|| self.value(&leaf, context));
        let mut gradients = Tensor::f_run_backward(&[&value], &[&leaf], false, false)
            .map_err(|error| Error::internal(format!("libtorch could not differentiate the objective: {error}")))?;
        let d_scores = gradients.pop().ok_or_else(|| Error::internal("libtorch gave no gradient"))?.to_kind(kind);
        Ok(Evaluated { value: value.double_value(&[]), d_scores })
    }

    /// Its value on a batch of `pairs` pairs where all scores are equal: the model tells nothing from anything. `None` where that
    /// depends on the score or on what else the objective sees.
    #[must_use]
    pub fn collapsed(&self, pairs: usize) -> Option<f64> {
        if self.semantic_margin.is_some() { None } else { self.loss.value_if_equal(pairs) }
    }

    /// Problems of the settings in such batches: names, as `loss.max.margin` and `semantic_margin.weight`, each with what is
    /// wrong.
    #[must_use]
    pub fn problems(&self, batches: BatchSpec) -> Problems {
        let under = |part: String| move |(name, message)| (format!("{part}.{name}"), message);
        let (name, function) = (self.loss.name(), &self.loss);
        let mut problems = Problems::new();
        problems.extend(function.problems(batches).into_iter().map(under(format!("loss.{name}"))));
        if let Some(semantic_margin) = &self.semantic_margin {
            problems.extend(semantic_margin.problems().into_iter().map(under("semantic_margin".into())));
            if semantic_margin.keep_triplet && !function.is_triplet_loss() {
                let message =
                    format!("got it beside `{name}`, wanted a loss over triplets, as `max`, or `keep_triplet = false`");
                problems.push(("semantic_margin".into(), message));
            }
        }
        problems
    }

    /// The value, a tensor of no dimensions that can be differentiated.
    fn value(&self, scores: &Tensor, context: &Context<'_>) -> Tensor {
        let negatives = Negatives::new(scores, context.masked);
        // Comparisons with what is not a number are false, so a pick would pass over it in silence.
        let mut value = (scores * 0.0).sum(Kind::Double);
        if self.semantic_margin.is_none_or(|semantic_margin| semantic_margin.keep_triplet) {
            value += self.loss.value(&Batch { scores, negatives: &negatives, bank: context.bank });
        }
        if let (Some(settings), Some(relevance)) = (&self.semantic_margin, context.relevance) {
            let margins = semantic_margin(scores, &negatives, relevance, settings, context.seed, context.step);
            value += margins * settings.weight;
        }
        value
    }

    fn check(&self, scores: &Tensor, context: &Context<'_>) -> Result<()> {
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
        if let Some((_, bank)) = context.bank {
            let (captions, images) = (bank.captions.size(), bank.images.size());
            if captions.len() != 2 || captions[0] != size[0] || captions[1] == 0 || captions != images {
                let got = format!("{captions:?} and {images:?} of {} pairs with a bank", size[0]);
                return Err(Error::internal(format!("scores {got}, wanted `[n, M]` of both")));
            }
        }
        if self.semantic_margin.is_some() && context.relevance.is_none() {
            return Err(Error::internal("margins by meaning were asked for without the relevance of the captions"));
        }
        Ok(())
    }
}

impl Default for Loss {
    /// MAX, the loss of VSE++.
    fn default() -> Self {
        Self::Max(max::Max::default())
    }
}
