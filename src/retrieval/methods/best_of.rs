//! The best of several methods on a validation split.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::method::{LearnsFrom, ListedMethod, MethodContext, RankingMethod};
#[cfg(test)]
use super::reference_scores::ReferenceScores;
use crate::ranking::{DirectionCorrections, Ranker};
use pairloom_base::error::{Error, Problem, Result};
#[cfg(test)]
use pairloom_kernels::hubness::method::DenseScores;
use pairloom_search::SearchProgress;

/// Best of several methods: the one with the largest rsum on the split `validation_split`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct BestOf<M> {
    /// Methods to select from.
    pub methods: Vec<M>,
}

impl<M> Default for BestOf<M> {
    fn default() -> Self {
        Self { methods: Vec::new() }
    }
}

impl<M: ListedMethod> RankingMethod for BestOf<M> {
    fn learns_from(&self) -> LearnsFrom {
        LearnsFrom::Nothing
    }

    fn corrections(&self, _: &Ranker<'_>, _: bool, _: &mut dyn SearchProgress) -> Result<DirectionCorrections> {
        Err(Error::usage("is selected on a validation split before anything is ranked"))
    }

    fn nested_problems(&self, at: &str, context: MethodContext) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !context.has_validation_split {
            let message = "is selected on a validation split, and there is none";
            problems.push(Problem::new(at, message).hint("set `validation_split = \"val\"`"));
        }
        if self.methods.is_empty() {
            problems.push(Problem::new(format!("{at}.methods"), "got none"));
        }
        for (number, method) in self.methods.iter().enumerate() {
            let at = format!("{at}.methods.{number}");
            if method.name() == "best_of" {
                problems.push(Problem::new(at, "got `best_of` in a `best_of`"));
            } else if !context.bank_of_validation && context.query_bank && method.uses_query_bank() {
                let message = "is selected on a validation split, which has no scores with the query bank";
                let problem = Problem::new(format!("{at}.{}", method.name()), message);
                problems.push(problem.hint("set `image_scores` and `caption_scores` in `validation`"));
            } else {
                problems.extend(method.problems_at(&at, context));
            }
        }
        problems
    }

    fn needs_distances(&self) -> bool {
        self.methods.iter().any(RankingMethod::needs_distances)
    }

    #[cfg(test)]
    fn reference_scores(&self, _: &ReferenceScores<'_>) -> Option<DenseScores> {
        None
    }
}
