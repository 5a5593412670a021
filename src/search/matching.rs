//! Greedy matching of rows with columns and of columns with rows, without the score matrix in memory.
//!
//! A greedy matching takes the best pairs first, and most of these are among the first few items of each query. So each
//! query starts with a short candidate list. Queries that use up their list before they have all their items are
//! searched again, with longer lists.

use crate::checkpoint::SearchProgress;
use crate::request::SearchRequest;
use crate::scan::{Scan, candidates};
use crate::scores::{MatrixSide, subset};
use pairloom_base::error::Result;
use pairloom_kernels::hubness::method::ShiftCorrection;
use pairloom_kernels::hubness::relaxed_greedy::{IncrementalMatching, MatchCandidate, MatchingLimits};

/// Initial number of candidates of a query, for each item that it is to get.
const INITIAL_CANDIDATES: usize = 4;
/// Growth factor of the number of candidates of a query that has used up its list.
const CANDIDATE_GROWTH: usize = 4;
/// Maximum number of candidates in memory (128 MiB), unless the initial lists have more.
const MAX_HELD_CANDIDATES: usize = 1 << 23;

/// Request of one side for greedy matchings.
#[derive(Debug, Clone, Copy)]
pub struct GreedyRequest<'a> {
    /// Limits of each requested matching.
    pub limits: &'a [MatchingLimits],
    /// Queries that are matched together; those of different slices do not compete for items. If empty, all queries are
    /// matched together.
    pub slices: &'a [Vec<usize>],
    /// Shift that is subtracted from scores, so that scores of different queries are comparable.
    pub shift: &'a ShiftCorrection,
}

/// Items that each query of a matching got, in the order of matching, with their shifted scores.
pub type GreedyMatching = Vec<Vec<MatchCandidate>>;

/// Computes the greedy matchings of rows with columns, and of columns with rows.
///
/// # Errors
/// A shift is not finite; or the first error of `progress` or of the source.
pub(super) fn match_greedily(
    scan: &Scan<'_>,
    sides: [&GreedyRequest<'_>; 2],
    progress: &mut dyn SearchProgress,
) -> Result<[Vec<GreedyMatching>; 2]> {
    let first = |greedy: &GreedyRequest<'_>| {
        INITIAL_CANDIDATES * greedy.limits.iter().map(|limits| limits.items_per_query).max().unwrap_or(0)
    };
    let [rows, columns] = sides;
    let requests = [&candidate_request(rows.shift, first(rows)), &candidate_request(columns.shift, first(columns))];
    let [row_candidates, column_candidates] = candidates(scan, requests, progress)?;
    Ok([
        match_side(scan, MatrixSide::Rows, rows, row_candidates, progress)?,
        match_side(scan, MatrixSide::Columns, columns, column_candidates, progress)?,
    ])
}

/// Computes the matchings of one side, one after the other.
fn match_side(
    scan: &Scan<'_>,
    side: MatrixSide,
    greedy: &GreedyRequest<'_>,
    mut lists: Vec<Vec<MatchCandidate>>,
    progress: &mut dyn SearchProgress,
) -> Result<Vec<GreedyMatching>> {
    for (query, list) in lists.iter_mut().enumerate() {
        subtract_query_shift(greedy.shift, query, list);
    }
    let whole = [(0..lists.len()).collect()];
    let slices: &[Vec<usize>] = if greedy.slices.is_empty() { &whole } else { greedy.slices };
    let mut all = Vec::with_capacity(greedy.limits.len());
    for &limits in greedy.limits {
        let mut matched = vec![Vec::new(); lists.len()];
        for queries in slices {
            let slice_lists = queries.iter().map(|&query| lists[query].clone()).collect();
            let taken = match_slice(scan, side, (greedy.shift, limits), (queries, slice_lists), progress)?;
            queries.iter().zip(taken).for_each(|(&query, taken)| matched[query] = taken);
        }
        all.push(matched);
    }
    Ok(all)
}

/// Computes the matching of some queries of a side with all items, from the beginnings of their rankings.
fn match_slice(
    scan: &Scan<'_>,
    side: MatrixSide,
    (shift, limits): (&ShiftCorrection, MatchingLimits),
    (queries, lists): (&[usize], Vec<Vec<MatchCandidate>>),
    progress: &mut dyn SearchProgress,
) -> Result<GreedyMatching> {
    let items = scan.scores.shape()[side.other().index()];
    let mut matching = IncrementalMatching::new(limits, items, lists);
    let first = INITIAL_CANDIDATES * limits.items_per_query.max(1);
    let mut expected = first;
    loop {
        let short = matching.advance();
        let Some(known) = short.iter().map(|&query| matching.known_open_count(query)).max() else { break };
        // Only for queries that have run out, and only among items with room: longer lists of all queries would soon
        // fill the memory of the whole matrix.
        let open = matching.open_items();
        let room = MAX_HELD_CANDIDATES.saturating_sub(matching.candidate_count_without(&short)) / short.len();
        expected = (CANDIDATE_GROWTH * expected).min(room.saturating_sub(known)).max(first);
        let k = known + expected;
        let item_shifts: Vec<f64> = open.iter().filter_map(|&item| shift.item_shifts().get(item).copied()).collect();
        let searched: Vec<usize> = short.iter().map(|&query| queries[query]).collect();
        let scores = subset(scan.scores, side, &searched, &open)?;
        let scan = Scan { scores: &*scores, ..*scan };
        let longer = SearchRequest { k, item_shifts: &item_shifts, ..SearchRequest::default() };
        let [found, _] = candidates(&scan, [&longer, &SearchRequest::default()], progress)?;
        let lists = short.into_iter().zip(found).map(|(query, mut list)| {
            for candidate in &mut list {
                candidate.item = open[candidate.item];
            }
            subtract_query_shift(shift, queries[query], &mut list);
            (query, list, k >= open.len())
        });
        matching.extend_lists(lists);
    }
    Ok(matching.matched().to_vec())
}

fn candidate_request(shift: &ShiftCorrection, k: usize) -> SearchRequest<'_> {
    SearchRequest { k, item_shifts: shift.item_shifts(), ..SearchRequest::default() }
}

/// Subtracts the shift of a query from its scores, which makes scores of different queries comparable.
fn subtract_query_shift(shift: &ShiftCorrection, query: usize, list: &mut [MatchCandidate]) {
    let query_shift = shift.query_shifts().get(query).copied().unwrap_or(0.0);
    for candidate in list {
        candidate.score -= query_shift;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{VectorDistribution, random_vectors};
    use crate::{ScoreFunction, Search, VectorMatrix};
    use pairloom_kernels::hubness::method::DenseScores;
    use pairloom_kernels::hubness::relaxed_greedy::{CapacityRule, GreedyRelaxation, relaxed_greedy};
    use pairloom_kernels::order_similarity::OrderPenalty;
    use pairloom_kernels::random::Rng;

    /// Compares both directions, with shifts of items and of queries, with the algorithm on all pairs.
    #[test]
    fn matchings_are_those_of_all_pairs() {
        let (n, m, width) = (60, 220, 16);
        let order = ScoreFunction::Order { form: OrderPenalty::Norm, captions: MatrixSide::Columns };
        for (kind, scoring) in [
            (VectorDistribution::Spread, ScoreFunction::Product),
            (VectorDistribution::Close, ScoreFunction::Product),
            (VectorDistribution::Equal, ScoreFunction::Product),
            (VectorDistribution::Spread, order),
        ] {
            let (a, b) = (random_vectors(kind, 1, n, width), random_vectors(kind, 2, m, width));
            let rows = VectorMatrix::new("rows", &a, width).expect("good");
            let columns = VectorMatrix::new("columns", &b, width).expect("good");
            let search = Search::from_vectors(&rows, &columns, scoring, 2).expect("of one width");
            let score = |i: usize, j: usize| f64::from(scoring.score(rows.row(i), columns.row(j)));
            let both = [DenseScores::from_fn(n, m, score), DenseScores::from_fn(m, n, |j, i| score(i, j))];
            let mut rng = Rng::new(3, &[]);
            for (lambda, capacity) in [
                (1.0, CapacityRule::Scaled),
                (1.0, CapacityRule::Strict),
                (1.6, CapacityRule::Scaled),
                (f64::INFINITY, CapacityRule::Scaled),
            ] {
                let mut random = |count: usize| (0..count).map(|_| 0.2 * rng.uniform()).collect::<Vec<f64>>();
                let shifts = [ShiftCorrection::new(random(m), random(n)), ShiftCorrection::new(random(n), vec![])];
                let limits = both.each_ref().map(|scores| {
                    [1, 3, 10].map(|k| GreedyRelaxation { lambda, capacity }.limits(k, scores.queries, scores.items))
                });
                let request = |side: usize| GreedyRequest { limits: &limits[side], slices: &[], shift: &shifts[side] };
                let got = search.match_greedily(&request(0), &request(1), &mut |_, _| Ok(())).expect("possible");
                for side in 0..2 {
                    let (scores, shift) = (&both[side], &shifts[side]);
                    let less = |q: usize, i: usize| {
                        scores.at(q, i) - shift.item_shifts()[i] - shift.query_shifts().get(q).copied().unwrap_or(0.0)
                    };
                    let corrected = DenseScores::from_fn(scores.queries, scores.items, less);
                    for (matched, &limits) in got[side].iter().zip(&limits[side]) {
                        let items: Vec<Vec<usize>> =
                            matched.iter().map(|list| list.iter().map(|got| got.item).collect()).collect();
                        assert_eq!(items, relaxed_greedy(&corrected, limits), "{kind:?} {lambda} {capacity:?} {side}");
                        for (query, list) in matched.iter().enumerate() {
                            assert!(list.iter().all(|got| got.score == corrected.at(query, got.item)));
                        }
                    }
                }
            }
        }
    }
}
