//! The k best assignments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assignment::{self, no_corrections};
use super::method::{LearnsFrom, RankingMethod};
#[cfg(test)]
use super::reference_scores::ReferenceScores;
use crate::ranking::{DirectionCorrections, Ranker, RankingRequest, Rankings};
use pairloom_base::error::Result;
use pairloom_kernels::hubness::k_best_assignment::k_best_assignments;
#[cfg(test)]
use pairloom_kernels::hubness::method::DenseScores;
use pairloom_kernels::hubness::method::{ParameterProblems, check_count};
use pairloom_search::SearchProgress;

/// Largest number of assignments: more take hours, and hardly differ.
const MAX_ASSIGNMENTS: usize = 1_000;

/// The k assignments with the largest sums of scores (Murty, 1968). A query is ranked with the distinct items that
/// these assignments give it, best assignment first. Assignments that are nearly as good as the best differ in few
/// pairs, so most queries have only one item, and R@5 is little more than R@1. Limits of size as for `assignment`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct KBestAssignment {
    /// Number of assignments.
    pub k: usize,
}

impl Default for KBestAssignment {
    fn default() -> Self {
        Self { k: 10 }
    }
}

impl RankingMethod for KBestAssignment {
    fn learns_from(&self) -> LearnsFrom {
        LearnsFrom::TestQueries
    }

    fn corrections(&self, _: &Ranker<'_>, _: bool, _: &mut dyn SearchProgress) -> Result<DirectionCorrections> {
        Err(no_corrections())
    }

    fn rank(
        &self,
        ranker: &Ranker<'_>,
        request: &RankingRequest<'_>,
        progress: &mut dyn SearchProgress,
    ) -> Result<[Rankings; 2]> {
        assignment::rank_by_assignments(ranker, request, progress, |problem, progress| {
            let mut reported = Ok(());
            let goes_on = || {
                reported = progress.report(0, 1);
                reported.is_ok()
            };
            let best = k_best_assignments(problem, self.k, goes_on);
            reported.map(|()| distinct(problem.queries, &best))
        })
    }

    fn problems(&self) -> ParameterProblems {
        if self.k > MAX_ASSIGNMENTS {
            return vec![("k", format!("got {}, expected at most {MAX_ASSIGNMENTS}", self.k))];
        }
        check_count("k", self.k).into_iter().collect()
    }

    #[cfg(test)]
    fn reference_scores(&self, _: &ReferenceScores<'_>) -> Option<DenseScores> {
        None
    }
}

/// Different items of every query in several assignments, in the order of the assignments.
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
