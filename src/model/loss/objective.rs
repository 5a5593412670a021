//! An objective and what it needs beside the scores.

use tch::{Kind, Tensor};

use super::bank_weights::{BankScores, bank_weights};
use super::hal::hal;
use super::info_nce::info_nce;
use super::knn_margin::knn_margin;
use super::local_scaling::scaled;
use super::max::max;
use super::negatives::Negatives;
use super::semantic_margin::{SemanticMargin, semantic_margin};
use super::settings::{Exponent, Loss, Over, Problems};
use super::sum::sum;
use crate::error::{Error, Result};
use crate::kernels::loss::BankWeights;

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
    /// Scores with a memory bank, and how they weigh the pairs. [`Loss::Hal`] alone looks at it.
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
        if self.semantic_margin.is_some() { None } else { self.loss.collapsed(pairs) }
    }

    /// What is wrong with it in batches of `pairs` pairs: names of settings, `loss.` and `semantic_margin.` before those of its
    /// parts, and what is wrong with each.
    #[must_use]
    pub fn problems(&self, pairs: usize) -> Problems {
        let under = |part: &'static str| move |(name, message)| (format!("{part}.{name}"), message);
        let mut problems = Problems::new();
        problems.extend(self.loss.problems(pairs).into_iter().map(under("loss")));
        if let Some(semantic_margin) = &self.semantic_margin {
            problems.extend(semantic_margin.problems().into_iter().map(under("semantic_margin")));
            if semantic_margin.keep_triplet && !self.loss.is_triplet() {
                let message = "got it beside `{}`, wanted `sum`, `max`, `knn_margin` or `local_scaling`, or `keep_triplet = false`";
                let message = message.replace("{}", self.loss.name());
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
        if self.semantic_margin.as_ref().is_none_or(|semantic_margin| semantic_margin.keep_triplet) {
            value += self.loss_value(scores, &negatives, context);
        }
        if let (Some(settings), Some(relevance)) = (&self.semantic_margin, context.relevance) {
            let margins = semantic_margin(scores, &negatives, relevance, settings, context.seed, context.step);
            value += margins * settings.weight;
        }
        value
    }

    fn loss_value(&self, scores: &Tensor, negatives: &Negatives, context: &Context<'_>) -> Tensor {
        match self.loss {
            Loss::Sum { margin } => sum(scores, negatives, margin),
            Loss::Max { margin } => max(scores, negatives, margin),
            Loss::KnnMargin { margin, k } => knn_margin(scores, negatives, margin, size(k)),
            Loss::LocalScaling { margin, k, over, exponent } => {
                let scores = scaled(scores, negatives, size(k), exponent == Exponent::Detached);
                match over {
                    Over::Sum => sum(&scores, negatives, margin),
                    Over::Max => max(&scores, negatives, margin),
                }
            }
            Loss::Hal { gamma, epsilon, variant, max: margin } => {
                let weights = context.bank.map(|(settings, bank)| bank_weights(scores, bank, settings, variant));
                let value = hal(scores, negatives, gamma, epsilon, variant, weights.as_ref());
                match margin {
                    Some(margin) => value + max(scores, negatives, margin) / scores.size()[0],
                    None => value,
                }
            }
            Loss::InfoNce { temperature } => info_nce(scores, negatives, temperature),
        }
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

fn size(k: usize) -> i64 {
    i64::try_from(k).unwrap_or(i64::MAX - 1)
}
