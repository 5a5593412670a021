//! Matchings: sets of items for all queries at once.

use super::corrections::Corrections;
use super::methods::Plan;
use super::ranking::{Found, Ranker, Wanted, scoring};
use crate::error::{Error, Result};
use crate::kernels::hubness::assignment::assignment_rounds;
use crate::kernels::hubness::greedy::RelaxedGreedy;
use crate::kernels::hubness::matching::{Candidate, Matching};
use crate::kernels::hubness::method::Correction;
use crate::kernels::hubness::shift::Shift;
use crate::kernels::measure::recall::CUTOFFS;
use crate::kernels::top_k::Scored;
use crate::search::assignment::solve;
use crate::search::{Ask, Search, Side, Vectors, Watch};

/// Candidates of a query with which a matching begins.
const CANDIDATES: usize = 100;

/// Queries and items, as many times as there are places, of an assignment: more take hours.
const MOST_ASSIGNED: usize = 2_000;

impl Ranker<'_> {
    /// A greedy matching for each cut-off, over corrected scores.
    pub(super) fn greedy(
        &self,
        greedy: &RelaxedGreedy,
        over: &Plan,
        wanted: &Wanted<'_>,
        watch: Watch<'_>,
    ) -> Result<[Found; 2]> {
        let Corrections::Shifts(shifts) = self.corrections(over, true, watch)? else {
            return Err(Error::usage("a greedy matching wants scores of different queries that compare"));
        };
        let first = wanted.keep.map(|keep| keep.max(CANDIDATES));
        let ask = |direction: usize| Ask { k: first[direction], minus: shifts[direction].items(), ..Ask::default() };
        let [i2t, t2i] = self.searches[0].find(&ask(0), &ask(1), watch)?;
        let mut one = |direction: usize, top: Vec<Vec<Scored>>| -> Result<Found> {
            let shift = &shifts[direction];
            let lists: Vec<Vec<Candidate>> =
                top.iter().enumerate().map(|(query, top)| candidates(shift, query, top)).collect();
            let [one, five, ten] = CUTOFFS.map(|k| self.matched(greedy, k, direction, shift, lists.clone(), watch));
            let sets = [one?, five?, ten?];
            // Scores are told of the last.
            let score =
                |query: usize, item: usize| top[query].iter().find(|best| best.item == item).map(|best| best.score);
            let top = sets[2]
                .iter()
                .enumerate()
                .map(|(query, items)| {
                    let scored =
                        |&item: &usize| Scored { item, score: score(query, item).unwrap_or(f32::NEG_INFINITY) };
                    items.iter().map(scored).collect()
                })
                .collect();
            Ok(Found { top, ranks: Vec::new(), sets: Some(sets) })
        };
        Ok([one(0, i2t.top)?, one(1, t2i.top)?])
    }

    fn matched(
        &self,
        greedy: &RelaxedGreedy,
        k: usize,
        direction: usize,
        shift: &Shift,
        lists: Vec<Vec<Candidate>>,
        watch: Watch<'_>,
    ) -> Result<Vec<Vec<usize>>> {
        let sides = [&self.sides.images, &self.sides.captions];
        let (queries, items) = (sides[direction], sides[1 - direction]);
        let mut longest = lists.iter().map(Vec::len).max().unwrap_or(0);
        let mut matching = Matching::new(greedy.limits(k, queries.len(), items.len()), items.len(), lists);
        loop {
            let short = matching.advance();
            if short.is_empty() {
                return Ok(matching.finish());
            }
            // Only for those who ran out: lists of all would soon be the matrix.
            longest = (4 * longest.max(1)).min(items.len());
            let few: Vec<f32> = short.iter().flat_map(|&query| queries.row(query).iter().copied()).collect();
            let few = Vectors::new("queries", &few, queries.width())?;
            let captions = if direction == 0 { Side::Columns } else { Side::Rows };
            let search = Search::new(&few, items, scoring(self.similarity, captions), self.threads)?;
            let ask = Ask { k: longest, minus: shift.items(), ..Ask::default() };
            let [found, _] = search.find(&ask, &Ask::default(), watch)?;
            for (&query, top) in short.iter().zip(&found.top) {
                matching.extend(query, candidates(shift, query, top));
            }
        }
    }

    /// The best assignment, and the best of what is left, and so on.
    pub(super) fn assignment(&self, wanted: &Wanted<'_>, watch: Watch<'_>) -> Result<[Found; 2]> {
        let counts = [self.sides.images.len(), self.sides.captions.len()];
        let mut one = |direction: usize| -> Result<Found> {
            let (queries, items) = (counts[direction], counts[1 - direction]);
            let places = items * queries.div_ceil(items.max(1));
            if queries.max(places) > MOST_ASSIGNED {
                return Err(Error::usage(format!(
                    "{queries} queries and {places} places for them, wanted at most {MOST_ASSIGNED}"
                ))
                .hint("`relaxed_greedy` with `lambda = 1.0` is a matching for any size"));
            }
            let rows = self.searches[direction].map_rows(|_, scores| scores.to_vec(), watch)?;
            let score = |query: usize, item: usize| f64::from(rows[query][item]);
            let most = CUTOFFS[2].max(wanted.keep[direction].min(CUTOFFS[2]));
            let got = assignment_rounds([queries, items], most, score, solve);
            let sets = CUTOFFS.map(|k| got.iter().map(|items| items[..k.min(items.len())].to_vec()).collect());
            let scored = |(query, items): (usize, &Vec<usize>)| {
                items.iter().map(|&item| Scored { item, score: rows[query][item] }).collect()
            };
            Ok(Found { top: got.iter().enumerate().map(scored).collect(), ranks: Vec::new(), sets: Some(sets) })
        };
        Ok([one(0)?, one(1)?])
    }
}

/// The candidates of a query, with scores that compare with those of others.
fn candidates(shift: &Shift, query: usize, top: &[Scored]) -> Vec<Candidate> {
    let of_query = shift.pair(query, 0, 0.0) - shift.across(query, 0, 0.0);
    top.iter().map(|best| Candidate { item: best.item, score: f64::from(best.score) - of_query }).collect()
}
