//! The best of several methods on a validation split.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
use super::method::{Given, Learns, Listed, RankingMethod};
use crate::error::{Error, Problem, Result};
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::search::Progress;

/// That of several which has the largest rsum on the split `validation`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct BestOf<M> {
    /// The methods.
    pub methods: Vec<M>,
}

impl<M> Default for BestOf<M> {
    fn default() -> Self {
        Self { methods: Vec::new() }
    }
}

impl<M: Listed> RankingMethod for BestOf<M> {
    fn learns(&self) -> Learns {
        Learns::Nobody
    }

    fn corrections(&self, _: &Ranker<'_>, _: bool, _: &mut dyn Progress) -> Result<Corrections> {
        Err(Error::usage("is chosen on a validation split before anything is ranked"))
    }

    fn inner_problems(&self, at: &str, given: Given) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !given.validation {
            let message = "is chosen on a validation split, and there is none";
            problems.push(Problem::new(at, message).hint("set `validation = \"val\"`"));
        }
        if self.methods.is_empty() {
            problems.push(Problem::new(format!("{at}.methods"), "got none"));
        }
        for (number, method) in self.methods.iter().enumerate() {
            let at = format!("{at}.methods.{number}");
            if method.name() == "best_of" {
                problems.push(Problem::new(at, "got `best_of` in a `best_of`"));
            } else {
                problems.extend(method.problems_at(&at, given));
            }
        }
        problems
    }

    #[cfg(test)]
    fn defined(&self, _: &Sides<'_>) -> Option<Matrix> {
        None
    }
}
