//! Rankings by assignments: common code of `assignment` and `k_best_assignment`.

use crate::ranking::{Ranker, RankingRequest, Rankings};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::hubness::k_best_assignment::CapacitatedAssignment;
use pairloom_kernels::top_k::ScoredItem;
use pairloom_search::SearchProgress;

/// Largest number of queries of an assignment, and of the total capacity of its items. With 5,000 of both, each of the
/// ten rounds of a direction takes more than ten seconds, and the time grows with the cube.
const MAX_ASSIGNMENT_SIZE: usize = 5_000;

/// Ranks both directions by the items that `solve` assigns to each query, best first.
pub(super) fn rank_by_assignments(
    ranker: &Ranker<'_>,
    wanted: &RankingRequest<'_>,
    progress: &mut dyn SearchProgress,
    solve: impl Fn(&CapacitatedAssignment<'_>, &mut dyn SearchProgress) -> Result<Vec<Vec<usize>>>,
) -> Result<[Rankings; 2]> {
    let deepest = wanted.cutoffs.last().copied().unwrap_or(0);
    let mut one = |direction: usize| -> Result<Rankings> {
        let (queries, items) = (ranker.counts[direction], ranker.counts[1 - direction]);
        let item_capacity = queries.div_ceil(items.max(1));
        let capacity = items * item_capacity;
        if queries.max(capacity) > MAX_ASSIGNMENT_SIZE {
            let message = format!(
                "got {queries} queries and items with a total capacity of {capacity}, wanted at most {MAX_ASSIGNMENT_SIZE} of both"
            );
            return Err(Error::usage(message).hint(
                "use `relaxed_greedy` with `lambda = 1.0`, a matching for any size, or a protocol with smaller folds",
            ));
        }
        let rows = ranker.search(direction)?.map_rows(|_, scores| scores.to_vec(), progress)?;
        let score = |query: usize, item: usize| f64::from(rows[query][item]);
        let got = solve(&CapacitatedAssignment { queries, items, item_capacity, score: &score }, progress)?;
        let set = |&k: &usize| got.iter().map(|items| items[..k.min(items.len())].to_vec()).collect();
        let sets = wanted.cutoffs.iter().map(set).collect();
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
