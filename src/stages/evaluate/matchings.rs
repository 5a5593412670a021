//! Matchings: sets of items for all queries at once.

use super::corrections::Corrections;
use super::methods::Plan;
use super::ranking::{Found, Ranker};
use crate::error::{Error, Result};
use crate::kernels::hubness::assignment::{Problem, assignment_rounds};
use crate::kernels::hubness::greedy::RelaxedGreedy;
use crate::kernels::hubness::k_best_assignment::{Places, k_best_assignments};
use crate::kernels::hubness::matching::Candidate;
use crate::kernels::measure::recall::CUTOFFS;
use crate::kernels::top_k::Scored;
use crate::search::assignment::solve;
use crate::search::{Greedy, Matched, Watch};

/// Queries, and places of items, of an assignment: 5,000 of both take ten seconds and more for each of the ten rounds of a direction, and the time grows with the cube.
const MOST_ASSIGNED: usize = 5_000;

impl Ranker<'_> {
    /// A greedy matching for each cut-off, over corrected scores.
    pub(super) fn greedy(&self, greedy: &RelaxedGreedy, over: &Plan, watch: Watch<'_>) -> Result<[Found; 2]> {
        let Corrections::Shifts(shifts) = self.corrections(over, true, watch)? else {
            return Err(Error::usage("a greedy matching wants scores of different queries that compare"));
        };
        let counts = [self.sides.images.len(), self.sides.captions.len()];
        let limits =
            [0, 1].map(|direction: usize| CUTOFFS.map(|k| greedy.limits(k, counts[direction], counts[1 - direction])));
        let ask = |direction: usize| Greedy { limits: &limits[direction], shift: &shifts[direction] };
        Ok(self.searches[0].match_greedily(&ask(0), &ask(1), watch)?.map(found))
    }

    /// The best assignment, and the best of what is left, and so on; or, of so many of the best assignments, the items that a
    /// query has in any of them, in the order in which they come.
    pub(super) fn assignment(&self, k_best: Option<usize>, watch: Watch<'_>) -> Result<[Found; 2]> {
        let counts = [self.sides.images.len(), self.sides.captions.len()];
        let mut one = |direction: usize| -> Result<Found> {
            let (queries, items) = (counts[direction], counts[1 - direction]);
            let each = queries.div_ceil(items.max(1));
            if queries.max(items * each) > MOST_ASSIGNED {
                let message =
                    format!("{queries} queries and {} places for them, wanted at most {MOST_ASSIGNED}", items * each);
                return Err(Error::usage(message)
                    .hint("`relaxed_greedy` with `lambda = 1.0` is a matching for any size; folds are smaller"));
            }
            let rows = self.searches[direction].map_rows(|_, scores| scores.to_vec(), watch)?;
            let score = |query: usize, item: usize| f64::from(rows[query][item]);
            let got = match k_best {
                None => {
                    let mut told = Ok(());
                    let solve = |problem: &Problem<'_>| {
                        if told.is_ok() {
                            told = watch.tell(0, 1);
                        }
                        // Once it is cancelled, any assignment will do.
                        if told.is_ok() { solve(problem) } else { (0..problem.rows).collect() }
                    };
                    let got = assignment_rounds([queries, items], CUTOFFS[2], score, solve);
                    told?;
                    got
                }
                Some(k) => {
                    let mut told = Ok(());
                    let goes_on = || {
                        told = watch.tell(0, 1);
                        told.is_ok()
                    };
                    let best = k_best_assignments(&Places { queries, items, each, score: &score }, k, goes_on);
                    told?;
                    distinct(queries, &best)
                }
            };
            let sets = CUTOFFS.map(|k| got.iter().map(|items| items[..k.min(items.len())].to_vec()).collect());
            let scored = |(query, items): (usize, &Vec<usize>)| {
                items.iter().take(CUTOFFS[2]).map(|&item| Scored { item, score: rows[query][item] }).collect()
            };
            Ok(Found { top: got.iter().enumerate().map(scored).collect(), ranks: Vec::new(), sets: Some(sets) })
        };
        Ok([one(0)?, one(1)?])
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

/// What the matchings for the cut-offs gave; scores are told of the last.
#[expect(clippy::cast_possible_truncation, reason = "scores in tables are f32")]
fn found(matched: Vec<Matched>) -> Found {
    let scored = |got: &Candidate| Scored { item: got.item, score: got.score as f32 };
    let top = matched.last().map(|last| last.iter().map(|list| list.iter().map(scored).collect()).collect());
    let items = |matched: &Matched| matched.iter().map(|list| list.iter().map(|got| got.item).collect()).collect();
    let mut sets = matched.iter().map(items);
    let sets = CUTOFFS.map(|_| sets.next().unwrap_or_default());
    Found { top: top.unwrap_or_default(), ranks: Vec::new(), sets: Some(sets) }
}
