//! The k best assignments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assignments::{self, no_corrections};
#[cfg(test)]
use super::defined::Sides;
use super::method::{Learns, RankingMethod};
use crate::error::Result;
use crate::kernels::hubness::k_best_assignment::{Places, k_best_assignments};
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::problems::{Problems, none};
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::{Ranker, Rankings, Wanted};
use crate::search::Progress;

/// Assignments of which the best are wanted: more take hours, and hardly differ.
const MOST_ASSIGNMENTS: usize = 1_000;

/// The k assignments with the largest sums (Murty, 1968): R@K asks for the first K different items that a query has in
/// them, the best assignment first. Assignments that are nearly as good as the best differ in few pairs, so most queries have
/// one item, and R@5 is little more than R@1. Sizes as for `assignment`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct KBestAssignment {
    /// Assignments.
    pub k: usize,
}

impl Default for KBestAssignment {
    fn default() -> Self {
        Self { k: 10 }
    }
}

impl RankingMethod for KBestAssignment {
    fn learns(&self) -> Learns {
        Learns::Test
    }

    fn corrections(&self, _: &Ranker<'_>, _: bool, _: &mut dyn Progress) -> Result<Corrections> {
        Err(no_corrections())
    }

    fn rank(&self, ranker: &Ranker<'_>, wanted: &Wanted<'_>, progress: &mut dyn Progress) -> Result<[Rankings; 2]> {
        assignments::rank(ranker, wanted, progress, |places, progress| {
            let mut told = Ok(());
            let goes_on = || {
                told = progress.report(0, 1);
                told.is_ok()
            };
            let assignments::Problem { queries, items, each, score } = *places;
            let best = k_best_assignments(&Places { queries, items, each, score }, self.k, goes_on);
            told.map(|()| distinct(queries, &best))
        })
    }

    fn problems(&self) -> Problems {
        if self.k > MOST_ASSIGNMENTS {
            return vec![("k", format!("got {}, wanted at most {MOST_ASSIGNMENTS}", self.k))];
        }
        none("k", self.k).into_iter().collect()
    }

    #[cfg(test)]
    fn defined(&self, _: &Sides<'_>) -> Option<Matrix> {
        None
    }
}

/// The items of every query in several assignments, each once, in the order in which they come.
fn distinct(queries: usize, assignments: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut got: Vec<Vec<usize>> = vec![Vec::new(); queries];
    for assignment in assignments {
        for (got, &item) in got.iter_mut().zip(assignment) {
            if !got.contains(&item) {
                got.push(item);
            }
        }
    }
    got
}
