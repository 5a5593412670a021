//! Graded ranking of a query, the input of graded metrics.
//!
//! The graded relevance φ of a query and an item is at least 0, such as the CIDEr or SPICE score of a caption with the
//! captions of an image.

use std::ops::Range;

use super::metric::{GradedRanking, RelevantNeighbours};
use crate::top_k::top_k;

/// Query with its ranking and the graded relevance φ of all items.
#[derive(Debug, Clone, Copy)]
pub struct GradedQuery<'q> {
    /// φ of every item of the pool with the query.
    pub phi: &'q [f32],
    /// Items, best first: at least the first [`required_depth`] of the ranking, or all.
    pub ranking: &'q [usize],
    /// Matches of the query, which are consecutive items.
    pub matches: &'q Range<usize>,
    /// Neighbours of the query by the published code, with and without the matches, best first. Each neighbour is an
    /// image, given as the range of its items.
    pub official_neighbours: [&'q [Range<usize>]; 2],
    /// φ of every item of the whole split, which begins with the pool. The published NCS of 1,000 images of COCO ranks
    /// 5,000 captions, but divides by the largest φ of all 25,000.
    pub whole_split_phi: Option<&'q [f32]>,
}

/// Number of items of a ranking that [`grade_ranking`] reads, for a query with `own` matches.
#[must_use]
pub fn required_depth(cutoffs: &[usize], neighbours: &[usize], own: usize) -> usize {
    cutoffs.iter().chain(neighbours).copied().max().unwrap_or(0) + own
}

/// Calls `each` with the graded ranking of `query`, first with and then without its matches.
///
/// In the paper, the relevant items are the `m` items with the largest φ (ties: the lower index). In the published
/// code, they are the items of the first `m` images of [`GradedQuery::official_neighbours`].
///
/// # Cost
/// `O(n_items)` for the largest φ, and a few operations for each `m` and item of the ranking.
pub fn grade_ranking(
    query: &GradedQuery<'_>,
    cutoffs: &[usize],
    neighbours: &[usize],
    mut each: impl FnMut(&GradedRanking<'_>),
) {
    let deepest = required_depth(cutoffs, neighbours, query.matches.len());
    let best = top_k(query.phi, deepest);
    let whole = query.whole_split_phi.map(|phi| top_k(phi, deepest));
    for (ground_truth, official) in [true, false].into_iter().zip(query.official_neighbours) {
        let counts = |item: usize| ground_truth || !query.matches.contains(&item);
        let ranking: Vec<usize> = query.ranking.iter().copied().filter(|&item| counts(item)).collect();
        let ideal: Vec<usize> = best.iter().map(|scored| scored.item).filter(|&item| counts(item)).collect();
        let whole: Option<Vec<f32>> = whole
            .as_ref()
            .map(|whole| whole.iter().filter(|scored| counts(scored.item)).map(|scored| scored.score).collect());
        let phi = |items: &[usize]| items.iter().map(|&item| query.phi[item]).collect::<Vec<f32>>();
        let paper = neighbours.iter().map(|&m| {
            let relevant = &ideal[..m.min(ideal.len())];
            let hits = hits(&ranking, |item| relevant.contains(&item));
            RelevantNeighbours { official: false, m, hits, phi: phi(relevant) }
        });
        let published = neighbours.iter().map(|&m| {
            let images = &official[..m.min(official.len())];
            let relevant: Vec<usize> = images.iter().cloned().flatten().collect();
            let hits = hits(&ranking, |item| images.iter().any(|of| of.contains(&item)));
            RelevantNeighbours { official: true, m, hits, phi: phi(&relevant) }
        });
        let all: Vec<RelevantNeighbours> = paper.chain(published).collect();
        let (found, ideal) = (phi(&ranking), phi(&ideal));
        let whole = whole.as_deref();
        each(&GradedRanking {
            ground_truth,
            cutoffs,
            ranked_phi: &found,
            ideal_phi: &ideal,
            whole_split_phi: whole,
            neighbours: &all,
        });
    }
}

fn hits(ranking: &[usize], relevant: impl Fn(usize) -> bool) -> Vec<bool> {
    ranking.iter().map(|&item| relevant(item)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::metric::{Metric, MetricName};
    use super::super::ncs::Ncs;
    use super::*;

    #[test]
    fn ideal_relevance_may_be_that_of_the_whole_split() {
        // The items of the pool have φ 4 (the match), 1 and 2; the other items of the split 3 and 8.
        let whole = [4.0, 1.0, 2.0, 3.0, 8.0];
        let query = GradedQuery {
            phi: &whole[..3],
            ranking: &[0, 2, 1],
            matches: &(0..1),
            official_neighbours: [&[], &[]],
            whole_split_phi: Some(&whole),
        };
        let mut got = Vec::new();
        grade_ranking(&query, &[1, 2], &[], |grades| {
            let take = &mut |name: MetricName, value| {
                if name.measure == "ncs" {
                    got.push((name.variant, grades.ground_truth, name.k, value));
                }
            };
            Ncs.measure_graded(grades, take);
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
