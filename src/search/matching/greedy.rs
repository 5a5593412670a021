//! Greedy matching of rows with columns and of columns with rows, without the matrix.
//!
//! A matching takes the best pairs first, and most of what it takes is among the first few items of each query. So each query
//! begins with a short list, and those that use theirs up before they have got their items are asked for again, alone.

use crate::error::Result;
use crate::kernels::hubness::greedy::Limits;
use crate::kernels::hubness::matching::{Candidate, Matching};
use crate::kernels::hubness::shift::Shift;
use crate::search::checkpoint::Progress;
use crate::search::question::Ask;
use crate::search::scan::{Scan, candidates};
use crate::search::scores::{Side, subset};

/// Candidates that a query begins with, for each item that it is to get.
const AT_FIRST: usize = 4;
/// How many times as many candidates a query gets when it has used up those that it had.
const GROWTH: usize = 4;
/// Candidates that lists hold, where the first ones do not hold more: 128 MiB.
const HELD: usize = 1 << 23;

/// The matchings that a side asks for.
#[derive(Debug, Clone, Copy)]
pub struct Greedy<'a> {
    /// One matching for each.
    pub limits: &'a [Limits],
    /// What is taken off scores, so that those of different queries compare.
    pub shift: &'a Shift,
}

/// For every query of a matching the items that it got, in the order in which it got them, with the scores that were compared.
pub type Matched = Vec<Vec<Candidate>>;

/// The matchings of rows with columns, and of columns with rows.
///
/// # Errors
/// A number that is taken off is not finite; or the first error of `progress` or of the source.
pub(in crate::search) fn match_greedily(
    scan: &Scan<'_>,
    sides: [&Greedy<'_>; 2],
    progress: &mut dyn Progress,
) -> Result<[Vec<Matched>; 2]> {
    let first = |greedy: &Greedy<'_>| AT_FIRST * greedy.limits.iter().map(|limits| limits.query).max().unwrap_or(0);
    let [rows, columns] = sides;
    let asks = [&ask(rows.shift, first(rows)), &ask(columns.shift, first(columns))];
    let [of_rows, of_columns] = candidates(scan, asks, progress)?;
    Ok([
        matched(scan, Side::Rows, rows, of_rows, progress)?,
        matched(scan, Side::Columns, columns, of_columns, progress)?,
    ])
}

/// The matchings of one side, one after the other.
fn matched(
    scan: &Scan<'_>,
    side: Side,
    greedy: &Greedy<'_>,
    mut lists: Vec<Vec<Candidate>>,
    progress: &mut dyn Progress,
) -> Result<Vec<Matched>> {
    let items = scan.scores.sizes()[side.other().index()];
    for (query, list) in lists.iter_mut().enumerate() {
        compare(greedy.shift, query, list);
    }
    let mut all = Vec::with_capacity(greedy.limits.len());
    for &limits in greedy.limits {
        let mut matching = Matching::new(limits, items, lists.clone());
        let first = AT_FIRST * limits.query.max(1);
        let mut wanted = first;
        loop {
            let short = matching.advance();
            let Some(known) = short.iter().map(|&query| matching.known(query)).max() else { break };
            // Only for those who ran out, and only of what they can still get: lists of all would soon be the matrix.
            let open = matching.open();
            let room = HELD.saturating_sub(matching.held_beside(&short)) / short.len();
            wanted = (GROWTH * wanted).min(room.saturating_sub(known)).max(first);
            let k = known + wanted;
            let minus: Vec<f64> = open.iter().filter_map(|&item| greedy.shift.items().get(item).copied()).collect();
            let scores = subset(scan.scores, side, &short, &open)?;
            let scan = Scan { scores: &*scores, ..*scan };
            let longer = Ask { k, minus: &minus, ..Ask::default() };
            let [found, _] = candidates(&scan, [&longer, &Ask::default()], progress)?;
            let lists = short.into_iter().zip(found).map(|(query, mut list)| {
                for candidate in &mut list {
                    candidate.item = open[candidate.item];
                }
                compare(greedy.shift, query, &mut list);
                (query, list, k >= open.len())
            });
            matching.extend(lists);
        }
        all.push(matching.taken().to_vec());
    }
    Ok(all)
}

fn ask(shift: &Shift, k: usize) -> Ask<'_> {
    Ask { k, minus: shift.items(), ..Ask::default() }
}

/// Takes off what makes the scores of a query compare with those of others.
fn compare(shift: &Shift, query: usize, list: &mut [Candidate]) {
    let of_query = shift.queries().get(query).copied().unwrap_or(0.0);
    for candidate in list {
        candidate.score -= of_query;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::hubness::greedy::{Capacity, RelaxedGreedy, relaxed_greedy};
    use crate::kernels::hubness::matrix::Matrix;
    use crate::kernels::order::Form;
    use crate::kernels::sample::Sample;
    use crate::search::testing::{Kind, values};
    use crate::search::{Scoring, Search, Vectors};

    /// Both directions, with numbers of items and of queries taken off, against the algorithm on all pairs.
    #[test]
    fn matchings_are_those_of_all_pairs() {
        let (n, m, width) = (60, 220, 16);
        let order = Scoring::Order { form: Form::Norm, captions: Side::Columns };
        for (kind, scoring) in [
            (Kind::Spread, Scoring::Product),
            (Kind::Close, Scoring::Product),
            (Kind::Equal, Scoring::Product),
            (Kind::Spread, order),
        ] {
            let (a, b) = (values(kind, 1, n, width), values(kind, 2, m, width));
            let rows = Vectors::new("rows", &a, width).expect("good");
            let columns = Vectors::new("columns", &b, width).expect("good");
            let search = Search::of_vectors(&rows, &columns, scoring, 2).expect("of one width");
            let score = |i: usize, j: usize| f64::from(scoring.score(rows.row(i), columns.row(j)));
            let both = [Matrix::from_fn(n, m, score), Matrix::from_fn(m, n, |j, i| score(i, j))];
            let mut sample = Sample::new(3, &[]);
            for (lambda, capacity) in [
                (1.0, Capacity::Scaled),
                (1.0, Capacity::Strict),
                (1.6, Capacity::Scaled),
                (f64::INFINITY, Capacity::Scaled),
            ] {
                let mut random = |count: usize| (0..count).map(|_| 0.2 * sample.unit()).collect::<Vec<f64>>();
                let shifts = [Shift::new(random(m), random(n)), Shift::new(random(n), vec![])];
                let limits = both.each_ref().map(|scores| {
                    [1, 3, 10].map(|k| RelaxedGreedy { lambda, capacity }.limits(k, scores.queries, scores.items))
                });
                let ask = |side: usize| Greedy { limits: &limits[side], shift: &shifts[side] };
                let got = search.match_greedily(&ask(0), &ask(1), &mut |_, _| Ok(())).expect("possible");
                for side in 0..2 {
                    let (scores, shift) = (&both[side], &shifts[side]);
                    let less = |q: usize, i: usize| {
                        scores.at(q, i) - shift.items()[i] - shift.queries().get(q).copied().unwrap_or(0.0)
                    };
                    let corrected = Matrix::from_fn(scores.queries, scores.items, less);
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
