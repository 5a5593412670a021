//! Assignments of a pool: what its two methods have in common.

use crate::error::{Error, Result};
use crate::kernels::top_k::Scored;
use crate::retrieval::ranking::{Ranker, Rankings, Wanted};
use crate::search::Progress;

/// Queries, and places of items, of an assignment: 5,000 of both take ten seconds and more for each of the ten rounds of a
/// direction, and the time grows with the cube.
const MOST_ASSIGNED: usize = 5_000;

/// Sizes of an assignment, and the score of a query and an item.
pub(super) struct Problem<'p> {
    pub(super) queries: usize,
    pub(super) items: usize,
    /// Queries that an item takes, at most.
    pub(super) each: usize,
    pub(super) score: &'p dyn Fn(usize, usize) -> f64,
}

/// Rankings out of the items that `solve` gives each query of a direction, the best first.
pub(super) fn rank(
    ranker: &Ranker<'_>,
    wanted: &Wanted<'_>,
    progress: &mut dyn Progress,
    solve: impl Fn(&Problem<'_>, &mut dyn Progress) -> Result<Vec<Vec<usize>>>,
) -> Result<[Rankings; 2]> {
    let deepest = wanted.cutoffs.last().copied().unwrap_or(0);
    let mut one = |direction: usize| -> Result<Rankings> {
        let (queries, items) = (ranker.counts[direction], ranker.counts[1 - direction]);
        let each = queries.div_ceil(items.max(1));
        if queries.max(items * each) > MOST_ASSIGNED {
            let message =
                format!("{queries} queries and {} places for them, wanted at most {MOST_ASSIGNED}", items * each);
            return Err(Error::usage(message)
                .hint("`relaxed_greedy` with `lambda = 1.0` is a matching for any size; folds are smaller"));
        }
        let rows = ranker.searches[direction].map_rows(|_, scores| scores.to_vec(), progress)?;
        let score = |query: usize, item: usize| f64::from(rows[query][item]);
        let got = solve(&Problem { queries, items, each, score: &score }, progress)?;
        let set = |&k: &usize| got.iter().map(|items| items[..k.min(items.len())].to_vec()).collect();
        let sets = wanted.cutoffs.iter().map(set).collect();
        let scored = |(query, items): (usize, &Vec<usize>)| {
            items.iter().take(deepest).map(|&item| Scored { item, score: rows[query][item] }).collect()
        };
        Ok(Rankings { top: got.iter().enumerate().map(scored).collect(), ranks: Vec::new(), sets: Some(sets) })
    };
    Ok([one(0)?, one(1)?])
}

/// Error: a matching corrects no scores.
pub(super) fn no_corrections() -> Error {
    Error::internal("a matching corrects no scores")
}
