//! The ranking of one query against a graded relevance, as metrics see it.

use std::ops::Range;

use super::metric::{Grades, Neighbours};
use crate::top_k::top_k;

/// A query, its ranking, and how similar all items are to it.
#[derive(Debug, Clone, Copy)]
pub struct Query<'q> {
    /// φ of every item of the pool with the query.
    pub phi: &'q [f32],
    /// Items, best first: the first [`depth`] of the ranking at least, where there are as many.
    pub ranking: &'q [usize],
    /// The query's own matches: they stand together.
    pub own: &'q Range<usize>,
    /// What the published code takes for the query's neighbours, with the own matches and without, best first: images, as
    /// the items of each.
    pub official: [&'q [Range<usize>]; 2],
    /// φ of every item of a wider pool that begins with this one. The published NCS of 1,000 images of COCO rank 5,000
    /// captions, and divide by the largest φ of all 25,000.
    pub whole: Option<&'q [f32]>,
}

/// How much of a ranking [`grades`] reads, for a query with `own` matches.
#[must_use]
pub fn depth(cutoffs: &[usize], neighbours: &[usize], own: usize) -> usize {
    cutoffs.iter().chain(neighbours).copied().max().unwrap_or(0) + own
}

/// Hands the ranking of `query` to `each`, with the own matches and without, with what is relevant to it.
///
/// By the paper the relevant items are the `m` of largest φ, of equal ones the lower index; by the published code they are the
/// items of the first `m` images of [`Query::official`].
///
/// # Cost
/// `O(n_items)` for the largest φ, and per `m` a few operations an item of the ranking.
pub fn grades(query: &Query<'_>, cutoffs: &[usize], neighbours: &[usize], mut each: impl FnMut(&Grades<'_>)) {
    let deepest = depth(cutoffs, neighbours, query.own.len());
    let best = top_k(query.phi, deepest);
    let whole = query.whole.map(|phi| top_k(phi, deepest));
    for (ground_truth, official) in [true, false].into_iter().zip(query.official) {
        let counts = |item: usize| ground_truth || !query.own.contains(&item);
        let ranking: Vec<usize> = query.ranking.iter().copied().filter(|&item| counts(item)).collect();
        let ideal: Vec<usize> = best.iter().map(|scored| scored.item).filter(|&item| counts(item)).collect();
        let whole: Option<Vec<f32>> = whole
            .as_ref()
            .map(|whole| whole.iter().filter(|scored| counts(scored.item)).map(|scored| scored.score).collect());
        let phi = |items: &[usize]| items.iter().map(|&item| query.phi[item]).collect::<Vec<f32>>();
        let paper = neighbours.iter().map(|&m| {
            let relevant = &ideal[..m.min(ideal.len())];
            let hits = hits(&ranking, |item| relevant.contains(&item));
            Neighbours { official: false, m, hits, phi: phi(relevant) }
        });
        let published = neighbours.iter().map(|&m| {
            let images = &official[..m.min(official.len())];
            let relevant: Vec<usize> = images.iter().cloned().flatten().collect();
            let hits = hits(&ranking, |item| images.iter().any(|of| of.contains(&item)));
            Neighbours { official: true, m, hits, phi: phi(&relevant) }
        });
        let all: Vec<Neighbours> = paper.chain(published).collect();
        let (found, ideal) = (phi(&ranking), phi(&ideal));
        let whole = whole.as_deref();
        each(&Grades { ground_truth, cutoffs, found: &found, ideal: &ideal, whole, neighbours: &all });
    }
}

fn hits(ranking: &[usize], relevant: impl Fn(usize) -> bool) -> Vec<bool> {
    ranking.iter().map(|&item| relevant(item)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::metric::{Metric, Name};
    use super::super::ncs::Ncs;
    use super::*;

    #[test]
    fn what_could_be_found_may_lie_beyond_the_pool() {
        // The pool has φ 1 and 2, its own match 4; beyond it lie 3 and 8.
        let whole = [4.0, 1.0, 2.0, 3.0, 8.0];
        let query =
            Query { phi: &whole[..3], ranking: &[0, 2, 1], own: &(0..1), official: [&[], &[]], whole: Some(&whole) };
        let mut got = Vec::new();
        grades(&query, &[1, 2], &[], |grades| {
            let take = &mut |name: Name, value| {
                if name.measure == "ncs" {
                    got.push((name.variant, grades.ground_truth, name.k, value));
                }
            };
            Ncs.of_grades(grades, take);
        });
        got.sort_by_key(|(variant, ground_truth, k, _)| (!ground_truth, *k, *variant));
        let (pool, split) = (Some("official"), Some("official_whole_split"));
        let wanted = [
            (pool, true, 1, 1.0),
            (split, true, 1, 0.5),
            (pool, true, 2, 1.0),
            (split, true, 2, 6.0 / 12.0),
            (pool, false, 1, 1.0),
            (split, false, 1, 2.0 / 8.0),
            (pool, false, 2, 1.0),
            (split, false, 2, 3.0 / 11.0),
        ];
        assert_eq!(got.len(), wanted.len());
        for (got, wanted) in got.iter().zip(wanted) {
            assert_eq!((got.0, got.1, got.2), (wanted.0, wanted.1, Some(wanted.2)));
            assert!((got.3 - wanted.3).abs() < 1e-9, "{got:?}, wanted {wanted:?}");
        }
    }
}
