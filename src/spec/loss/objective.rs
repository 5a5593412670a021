//! Objective of a training: a loss, and semantic margins beside it.

use super::Loss;
use super::contract::{BatchSpec, LearnedScalar, LossSettings};
use super::semantic_margin::SemanticMargin;
use crate::setting_problems::SettingProblems;

/// Objective of a training: a loss, and a semantic adaptive margin (SAM) beside it or in its place.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Objective {
    /// The loss.
    pub loss: Loss,
    /// Triplets with semantic adaptive margins.
    pub semantic_margin: Option<SemanticMargin>,
}

impl Objective {
    /// Scalars that are trained together with the model.
    #[must_use]
    pub fn learned_scalars(&self) -> Vec<LearnedScalar> {
        self.loss.learned_scalars()
    }

    /// Value on a batch of `pairs` pairs whose scores are all equal, as those of a collapsed model. `None` if it
    /// depends on the score or on other inputs of the objective.
    #[must_use]
    pub fn collapse_value(&self, pairs: usize) -> Option<f64> {
        if self.semantic_margin.is_some() { None } else { self.loss.collapse_value(pairs) }
    }

    /// Checks the settings for such batches. Problems have names such as `loss.max.margin` and
    /// `semantic_margin.weight`.
    #[must_use]
    pub fn problems(&self, batches: BatchSpec) -> SettingProblems {
        let under = |part: String| move |(name, message)| (format!("{part}.{name}"), message);
        let (name, function) = (self.loss.name(), &self.loss);
        let mut problems = SettingProblems::new();
        problems.extend(function.problems(batches).into_iter().map(under(format!("loss.{name}"))));
        if let Some(semantic_margin) = &self.semantic_margin {
            problems.extend(semantic_margin.problems().into_iter().map(under("semantic_margin".into())));
            if semantic_margin.keep_triplet && !function.is_triplet_loss() {
                let message = format!(
                    "got `keep_triplet = true` with the loss `{name}`, wanted a triplet loss such as `max`, or `keep_triplet = false`"
                );
                problems.push(("semantic_margin".into(), message));
            }
        }
        problems
    }

    /// Settings that are possible, but implausible, with the usual values. Names are those of
    /// [`problems`](Self::problems).
    #[must_use]
    pub fn implausible(&self) -> SettingProblems {
        let under = |part: String| move |(name, message)| (format!("{part}.{name}"), message);
        let loss = self.loss.implausible().into_iter().map(under(format!("loss.{}", self.loss.name())));
        let margins = self.semantic_margin.iter().flat_map(SemanticMargin::implausible);
        loss.chain(margins.map(under("semantic_margin".into()))).collect()
    }
}
