//! Assignment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assignment_rankings::{self, no_corrections};
use super::method::{LearnsFrom, RankingMethod};
#[cfg(test)]
use super::reference_scores::ReferenceScores;
use crate::corrections::Corrections;
use crate::ranking::{Ranker, RankingRequest, Rankings};
use pairloom_base::error::Result;
use pairloom_kernels::hubness::assignment::{AssignmentProblem, assignment_rounds};
#[cfg(test)]
use pairloom_kernels::hubness::dense_scores::DenseScores;
use pairloom_search::SearchProgress;
use pairloom_search::assignment::solve_assignment;

/// Assignment with the largest sum of scores, by the Hungarian method; further items of each query come from
/// assignments of the remaining pairs. It is an upper bound for matchings. At most 5,000 queries; each item takes
/// ⌈queries / items⌉ of them, and the total capacity of the items is at most 5,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Assignment {}

impl RankingMethod for Assignment {
    fn learns_from(&self) -> LearnsFrom {
        LearnsFrom::TestQueries
    }

    fn corrections(&self, _: &Ranker<'_>, _: bool, _: &mut dyn SearchProgress) -> Result<Corrections> {
        Err(no_corrections())
    }

    fn rank(
        &self,
        ranker: &Ranker<'_>,
        wanted: &RankingRequest<'_>,
        progress: &mut dyn SearchProgress,
    ) -> Result<[Rankings; 2]> {
        let rounds = wanted.cutoffs.last().copied().unwrap_or(0);
        assignment_rankings::rank_by_assignments(ranker, wanted, progress, |pool, progress| {
            let mut reported = Ok(());
            let solve = |problem: &AssignmentProblem<'_>| {
                if reported.is_ok() {
                    reported = progress.report(0, 1);
                }
                // After cancellation the result is not used.
                if reported.is_ok() { solve_assignment(problem) } else { (0..problem.rows).collect() }
            };
            let got = assignment_rounds([pool.queries, pool.items], rounds, pool.score, solve);
            reported.map(|()| got)
        })
    }

    #[cfg(test)]
    fn reference_scores(&self, _: &ReferenceScores<'_>) -> Option<DenseScores> {
        None
    }
}
