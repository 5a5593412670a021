//! All measures of one query against a graded relevance: what `semantic_recall`, `ncs` and `sets` say of its ranking.

use std::ops::Range;

use super::ncs::{ncs, official_ncs, ordered_ncs};
use super::semantic_recall::soft_semantic_recall;
use super::sets::{average_precision_at_r, r_precision, set_recall};
use crate::kernels::top_k::top_k;

/// What a number measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Measure {
    /// `semantic_recall`, `semantic_recall_any`, `semantic_recall_soft`, `ncs`, `ncs_ordered`, `map_at_r`, `r_precision`.
    pub name: &'static str,
    /// `paper` or `official`, where the published code differs from the paper; `official_whole_split` where the pool that
    /// it takes the largest φ from is wider than the pool that it ranks.
    pub variant: Option<&'static str>,
    /// Whether the query's own matches count; they are deleted from the ranking and from the pool where not, "(N)".
    pub ground_truth: bool,
    /// Neighbours of the query that are relevant: items (paper), images (official).
    pub m: Option<usize>,
    /// Cut-off.
    pub k: Option<usize>,
}

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

/// How much of a ranking [`measure`] reads, for a query with `own` matches.
#[must_use]
pub fn depth(cutoffs: &[usize], neighbours: &[usize], own: usize) -> usize {
    cutoffs.iter().chain(neighbours).copied().max().unwrap_or(0) + own
}

/// Hands every measure of `query` to `found`, each from 0 to 1, at all `cutoffs` and for all numbers of `neighbours`.
///
/// For the measures of the paper and of mAP@R and R-precision the relevant items are the `m` of largest φ, of equal ones
/// the lower index; for Semantic Recall by the published code they are the items of the first `m` images of
/// [`Query::official`]: all of them that should be found (`semantic_recall`), any of them (`semantic_recall_any`), or all
/// of them weighted (`semantic_recall_soft`). A measure that needs a relevant item is left out where there is none.
///
/// # Cost
/// `O(n_items)` for the largest φ, and per `m` and `k` a few operations an item of the ranking.
pub fn measure(query: &Query<'_>, cutoffs: &[usize], neighbours: &[usize], mut found: impl FnMut(Measure, f64)) {
    let deepest = depth(cutoffs, neighbours, query.own.len());
    let best = top_k(query.phi, deepest);
    let whole = query.whole.map(|phi| top_k(phi, deepest));
    for (ground_truth, official) in [true, false].into_iter().zip(query.official) {
        let counts = |item: usize| ground_truth || !query.own.contains(&item);
        let ranking: Vec<usize> = query.ranking.iter().copied().filter(|&item| counts(item)).collect();
        let ideal: Vec<usize> = best.iter().map(|scored| scored.item).filter(|&item| counts(item)).collect();
        let whole_phi = whole.as_ref().map(|whole| -> Vec<f32> {
            whole.iter().filter(|scored| counts(scored.item)).map(|scored| scored.score).collect()
        });
        let phi = |items: &[usize]| items.iter().map(|&item| query.phi[item]).collect::<Vec<f32>>();
        let (ranking_phi, ideal_phi) = (phi(&ranking), phi(&ideal));
        let mut tell = |name, variant, m, k, value: Option<f64>| {
            if let Some(value) = value {
                found(Measure { name, variant, ground_truth, m, k }, value);
            }
        };

        for &k in cutoffs {
            let official = Some("official");
            tell("ncs", official, None, Some(k), Some(official_ncs(&ranking_phi, &ideal_phi, k)));
            tell("ncs_ordered", official, None, Some(k), Some(ordered_ncs(&ranking_phi, &ideal_phi, k)));
            let of_whole = whole_phi.as_ref().map(|whole| official_ncs(&ranking_phi, whole, k));
            tell("ncs", Some("official_whole_split"), None, Some(k), of_whole);
        }
        for &m in neighbours {
            let relevant = &ideal[..m.min(ideal.len())];
            let (hits, relevant_phi) = (hits(&ranking, |item| relevant.contains(&item)), phi(relevant));
            for &k in cutoffs {
                let paper = Some("paper");
                tell("semantic_recall", paper, Some(m), Some(k), set_recall(&hits, relevant.len(), k));
                let ncs = (!relevant.is_empty()).then(|| ncs(&ranking_phi, &hits, &relevant_phi, k));
                tell("ncs", paper, Some(m), Some(k), ncs);
            }
            tell("map_at_r", None, Some(m), None, average_precision_at_r(&hits, relevant.len()));
            tell("r_precision", None, Some(m), None, r_precision(&hits, relevant.len()));
        }
        for &m in neighbours {
            let images = &official[..m.min(official.len())];
            let relevant: Vec<usize> = images.iter().cloned().flatten().collect();
            let hits = hits(&ranking, |item| images.iter().any(|of| of.contains(&item)));
            let relevant_phi = phi(&relevant);
            for &k in cutoffs {
                let (m, k_of) = (Some(m), Some(k));
                let any = (!relevant.is_empty()).then(|| f64::from(u8::from(hits.iter().take(k).any(|&hit| hit))));
                let soft = soft_semantic_recall(&hits, &ranking_phi, &relevant_phi, k);
                tell("semantic_recall", Some("official"), m, k_of, set_recall(&hits, relevant.len(), k));
                tell("semantic_recall_any", Some("official"), m, k_of, any);
                tell("semantic_recall_soft", Some("official"), m, k_of, soft);
            }
        }
    }
}

fn hits(ranking: &[usize], relevant: impl Fn(usize) -> bool) -> Vec<bool> {
    ranking.iter().map(|&item| relevant(item)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_found_may_lie_beyond_the_pool() {
        // The pool has φ 1 and 2, its own match 4; beyond it lie 3 and 8.
        let whole = [4.0, 1.0, 2.0, 3.0, 8.0];
        let query =
            Query { phi: &whole[..3], ranking: &[0, 2, 1], own: &(0..1), official: [&[], &[]], whole: Some(&whole) };
        let mut got = Vec::new();
        measure(&query, &[1, 2], &[], |name, value| {
            if name.name == "ncs" {
                got.push((name.variant, name.ground_truth, name.k, value));
            }
        });
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
