//! Assignment, and the rankings by assignments that `k_best_assignment` makes too.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::method::{LearnsFrom, RankingMethod};
use crate::ranking::{DirectionCorrections, Ranker, RankingRequest, Rankings};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::hubness::assignment::{AssignmentProblem, assignment_rounds};
use pairloom_kernels::hubness::k_best_assignment::CapacitatedAssignment;
use pairloom_kernels::top_k::ScoredItem;
use pairloom_search::SearchProgress;
use pairloom_search::assignment::solve_assignment;

#[cfg(test)]
use super::reference_scores::ReferenceScores;
#[cfg(test)]
use pairloom_kernels::hubness::method::DenseScores;

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

    fn corrections(&self, _: &Ranker<'_>, _: bool, _: &mut dyn SearchProgress) -> Result<DirectionCorrections> {
        Err(no_corrections())
    }

    fn rank(
        &self,
        ranker: &Ranker<'_>,
        expected: &RankingRequest<'_>,
        progress: &mut dyn SearchProgress,
    ) -> Result<[Rankings; 2]> {
        let rounds = expected.cutoffs.last().copied().unwrap_or(0);
        rank_by_assignments(ranker, expected, progress, |pool, progress| {
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

/// Largest number of queries of an assignment, and of the total capacity of its items. With 5,000 of both, each of the
/// ten rounds of a direction takes more than ten seconds, and the time grows with the cube.
const MAX_ASSIGNMENT_SIZE: usize = 5_000;

/// Ranks both directions by the items that `solve` assigns to each query, best first.
pub(super) fn rank_by_assignments(
    ranker: &Ranker<'_>,
    expected: &RankingRequest<'_>,
    progress: &mut dyn SearchProgress,
    solve: impl Fn(&CapacitatedAssignment<'_>, &mut dyn SearchProgress) -> Result<Vec<Vec<usize>>>,
) -> Result<[Rankings; 2]> {
    let deepest = expected.cutoffs.last().copied().unwrap_or(0);
    let mut one = |direction: usize| -> Result<Rankings> {
        let (queries, items) = (ranker.counts[direction], ranker.counts[1 - direction]);
        let item_capacity = queries.div_ceil(items.max(1));
        let capacity = items * item_capacity;
        if queries.max(capacity) > MAX_ASSIGNMENT_SIZE {
            let message = format!(
                "got {queries} queries and items with a total capacity of {capacity}, expected at most {MAX_ASSIGNMENT_SIZE} of both"
            );
            return Err(Error::usage(message).hint(
                "use `relaxed_greedy` with `lambda = 1.0`, a matching for any size, or a protocol with smaller folds",
            ));
        }
        let rows = ranker.search(direction)?.map_rows(|_, scores| scores.to_vec(), progress)?;
        let score = |query: usize, item: usize| f64::from(rows[query][item]);
        let got = solve(&CapacitatedAssignment { queries, items, item_capacity, score: &score }, progress)?;
        let set = |&k: &usize| got.iter().map(|items| items[..k.min(items.len())].to_vec()).collect();
        let sets = expected.cutoffs.iter().map(set).collect();
        let scored = |(query, items): (usize, &Vec<usize>)| {
            items.iter().take(deepest).map(|&item| ScoredItem { item, score: rows[query][item] }).collect()
        };
        Ok(Rankings { top: got.iter().enumerate().map(scored).collect(), ranks: Vec::new(), sets: Some(sets) })
    };
    Ok([one(0)?, one(1)?])
}

/// Error: a matching corrects no scores.
pub(super) fn no_corrections() -> Error {
    Error::internal("a matching corrects no scores")
}
