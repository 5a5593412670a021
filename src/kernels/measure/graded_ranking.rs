//! Graded metrics of a ranking: Semantic Recall and NCS.
//!
//! The graded relevance φ of a query and an item is at least 0, such as the CIDEr or SPICE score of a caption with the
//! captions of an image.

use std::collections::BTreeMap;
use std::ops::Range;

use super::metric::{GradedRanking, Metric, MetricName, RecordValue, RelevantNeighbours};
use super::set_measures::set_recall;
use crate::top_k::{ScoredItem, top_k};

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
            let hits = hits(&ranking, |item| images.iter().any(|group| group.contains(&item)));
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

// Semantic Recall: recall of the items with the largest graded relevance φ, whether or not they match.
//
// Biten et al., "Is An Image Worth Five Sentences? A New Look into Semantics for Image-Text Matching", WACV 2022,
// section 3.2. The published code takes other items as relevant than the paper; both variants are here.

/// Number of images that the published code takes from the list of each caption, to find the neighbours of an image.
pub const OFFICIAL_LIST_LENGTH: usize = 30;

/// Neighbours of an image by the published code: images, best first.
///
/// The score of an image is the sum of its φ over those captions whose [`OFFICIAL_LIST_LENGTH`] images with the largest
/// φ include it. In the paper, the neighbours are simply the `m` items with the largest φ.
///
/// # Shapes
/// - `lists`: for each caption of the image the images with the largest φ
/// - `left_out`: image that is excluded, such as the image itself
/// - result: at most `m` images; ties go to the lower index
///
/// # Edge cases
/// The published code fails if the excluded image is in none of the lists; here there is no error.
#[must_use]
pub fn official_neighbours<'l>(
    lists: impl IntoIterator<Item = &'l [ScoredItem]>,
    left_out: Option<usize>,
    m: usize,
) -> Vec<usize> {
    let mut scores: BTreeMap<usize, f64> = BTreeMap::new();
    for scored in lists.into_iter().flatten() {
        *scores.entry(scored.item).or_default() += f64::from(scored.score);
    }
    let mut neighbours: Vec<(usize, f64)> = scores.into_iter().filter(|&(image, _)| Some(image) != left_out).collect();
    // The sort is stable, and the images are in the order of their index.
    neighbours.sort_by(|a, b| b.1.total_cmp(&a.1));
    neighbours.into_iter().take(m).map(|(image, _)| image).collect()
}

/// "Soft" Semantic Recall at `k` of the published code: the sum of φ of the relevant items that are found, divided by
/// that of all relevant items and by their number. So a perfect ranking has 1 only if a single item is relevant. 0 if
/// all φ are 0; `None` if no item is relevant.
///
/// # Shapes
/// - `hits`: for each item of a ranking, best first, true if it is relevant
/// - `found`: φ of each item of the ranking
/// - `relevant`: φ of all relevant items
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub fn soft_semantic_recall(hits: &[bool], found: &[f32], relevant: &[f32], k: usize) -> Option<f64> {
    let total: f64 = relevant.iter().map(|&phi| f64::from(phi)).sum();
    let hit_sum: f64 = hits.iter().zip(found).take(k).filter(|(hit, _)| **hit).map(|(_, &phi)| f64::from(phi)).sum();
    (!relevant.is_empty()).then(|| hit_sum / (total + 1e-20) / relevant.len() as f64)
}

/// Metric `semantic_recall`: the share of the neighbours that is found, with the neighbours of the paper and of the
/// published code. With the latter also `semantic_recall_any`, which is 1 if any neighbour is found, and
/// `semantic_recall_soft` ([`soft_semantic_recall`]).
#[derive(Debug)]
pub struct SemanticRecall;

impl Metric for SemanticRecall {
    fn measure_graded(&self, grades: &GradedRanking<'_>, add: RecordValue<'_>) {
        for neighbours in grades.neighbours {
            let variant = Some(if neighbours.official { "official" } else { "paper" });
            for &k in grades.cutoffs {
                let name = |measure| MetricName { m: Some(neighbours.m), ..grades.name(measure, variant).at_cutoff(k) };
                let mut some = |measure, value: Option<f64>| {
                    if let Some(value) = value {
                        add(name(measure), value);
                    }
                };
                some("semantic_recall", set_recall(&neighbours.hits, neighbours.phi.len(), k));
                if neighbours.official {
                    let any = f64::from(u8::from(neighbours.hits.iter().take(k).any(|&hit| hit)));
                    some("semantic_recall_any", (!neighbours.phi.is_empty()).then_some(any));
                    some(
                        "semantic_recall_soft",
                        soft_semantic_recall(&neighbours.hits, grades.ranked_phi, &neighbours.phi, k),
                    );
                }
            }
        }
    }
}

// Normalized Cumulative Semantic score (NCS): the share of the attainable graded relevance φ that is found.
//
// Biten et al., "Is An Image Worth Five Sentences? A New Look into Semantics for Image-Text Matching", WACV 2022,
// section 3.3, and the code published with it, which is simpler than the paper's equation 5.

/// Constant that the published code adds to a denominator.
const EPSILON: f64 = 1e-10;

/// NCS at `k` by the paper's equation 5: the sum of φ of the neighbours among the first `k` items, divided by that of
/// all neighbours. The neighbours are the `m` items with the largest φ. 0 if their φ are all 0.
///
/// # Shapes
/// - `found`: φ of the items of a ranking, best first
/// - `hits`: for each of these items, true if it is a neighbour
/// - `neighbours`: φ of the neighbours
///
/// # Cost
/// `O(k + m)` time.
#[must_use]
pub fn ncs(found: &[f32], hits: &[bool], neighbours: &[f32], k: usize) -> f64 {
    let total: f64 = neighbours.iter().map(|&phi| f64::from(phi)).sum();
    let hit_sum: f64 = found.iter().zip(hits).take(k).filter(|(_, hit)| **hit).map(|(&phi, _)| f64::from(phi)).sum();
    if total > 0.0 { hit_sum / total } else { 0.0 }
}

/// NCS at `k` by the published code: the mean φ of the first `k` items, divided by the largest mean φ of any `k` items.
///
/// # Shapes
/// - `found`: φ of the items of a ranking, best first
/// - `ideal`: the largest φ of the pool in descending order, as many as in `found`
///
/// # Edge cases
/// If the pool has fewer than `k` items, all are taken. 0 if all φ are 0.
#[must_use]
pub fn official_ncs(found: &[f32], ideal: &[f32], k: usize) -> f64 {
    mean(found, k, |_| 1.0) / (mean(ideal, k, |_| 1.0) + EPSILON)
}

/// [`official_ncs`] with larger weights for earlier items: position `p`, from 0, has the weight `log₂(k − p + 1)` in
/// both means. The published training selects its model by it on Flickr30k.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "cut-offs are far below 2⁵³")]
pub fn ordered_ncs(found: &[f32], ideal: &[f32], k: usize) -> f64 {
    let weight = |place: usize| ((k - place + 1) as f64).log2();
    mean(found, k, weight) / (mean(ideal, k, weight) + EPSILON)
}

/// Weighted mean of the first `k` values; 0 if there are none.
#[expect(clippy::cast_precision_loss, reason = "cut-offs are far below 2⁵³")]
fn mean(values: &[f32], k: usize, weight: impl Fn(usize) -> f64) -> f64 {
    let first = &values[..k.min(values.len())];
    let sum: f64 = first.iter().enumerate().map(|(place, &phi)| f64::from(phi) * weight(place)).sum();
    sum / first.len().max(1) as f64
}

/// Metric `ncs` of the paper ([`ncs`]) and of the published code ([`official_ncs`]), the latter also with φ of the
/// whole split; `ncs_ordered` ([`ordered_ncs`]).
#[derive(Debug)]
pub struct Ncs;

impl Metric for Ncs {
    fn measure_graded(&self, grades: &GradedRanking<'_>, add: RecordValue<'_>) {
        for &k in grades.cutoffs {
            let official = Some("official");
            add(grades.name("ncs", official).at_cutoff(k), official_ncs(grades.ranked_phi, grades.ideal_phi, k));
            add(grades.name("ncs_ordered", official).at_cutoff(k), ordered_ncs(grades.ranked_phi, grades.ideal_phi, k));
            if let Some(whole) = grades.whole_split_phi {
                add(
                    grades.name("ncs", Some("official_whole_split")).at_cutoff(k),
                    official_ncs(grades.ranked_phi, whole, k),
                );
            }
            for neighbours in
                grades.neighbours.iter().filter(|neighbours| !neighbours.official && !neighbours.phi.is_empty())
            {
                let name = MetricName { m: Some(neighbours.m), ..grades.name("ncs", Some("paper")).at_cutoff(k) };
                add(name, ncs(grades.ranked_phi, &neighbours.hits, &neighbours.phi, k));
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
        let expected = [
            (pool, true, 1, 1.0),
            (split, true, 1, 0.5),
            (pool, true, 2, 1.0),
            (split, true, 2, 6.0 / 12.0),
            (pool, false, 1, 1.0),
            (split, false, 1, 2.0 / 8.0),
            (pool, false, 2, 1.0),
            (split, false, 2, 3.0 / 11.0),
        ];
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(expected) {
            assert_eq!((got.0, got.1, got.2), (expected.0, expected.1, Some(expected.2)));
            assert!((got.3 - expected.3).abs() < 1e-9, "{got:?}, expected {expected:?}");
        }
    }

    #[test]
    fn official_neighbours_have_the_largest_sums_over_captions() {
        let list = |scored: &[(usize, f32)]| -> Vec<ScoredItem> {
            scored.iter().map(|&(item, score)| ScoredItem { item, score }).collect()
        };
        let lists = [list(&[(4, 2.0), (7, 0.5), (1, 0.25)]), list(&[(4, 3.0), (1, 0.5), (9, 0.25)])];
        let official = |left_out, m| official_neighbours(lists.iter().map(Vec::as_slice), left_out, m);
        // 4: 5, 1: 0.75, 7: 0.5, 9: 0.25.
        assert_eq!(official(None, 3), [4, 1, 7]);
        assert_eq!(official(Some(4), 3), [1, 7, 9]);
        assert_eq!(official(Some(3), 9), [4, 1, 7, 9]);
        let equal = [list(&[(8, 1.0), (2, 1.0), (5, 1.0)])];
        assert_eq!(official_neighbours(equal.iter().map(Vec::as_slice), None, 2), [2, 5]);
        assert!(official_neighbours([], None, 2).is_empty());
    }

    #[test]
    fn soft_recall_weights_hits_by_relevance() {
        let got = soft_semantic_recall(&[true, false, true], &[3.0, 9.0, 1.0], &[3.0, 1.0], 3);
        assert!((got.expect("two are relevant") - 0.5).abs() < 1e-12);
        let first = soft_semantic_recall(&[true, false, true], &[3.0, 9.0, 1.0], &[3.0, 1.0], 1);
        assert!((first.expect("two are relevant") - 0.375).abs() < 1e-12);
        assert_eq!(soft_semantic_recall(&[true], &[0.0], &[0.0], 1), Some(0.0));
        assert_eq!(soft_semantic_recall(&[false], &[1.0], &[], 1), None);
    }

    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-9, "{got}, expected {expected}");
    }

    #[test]
    fn ncs_is_the_share_of_the_attainable_relevance() {
        // φ of a pool: 4 3 2 1 0. Found: 3, 0, 4.
        let (found, ideal) = ([3.0, 0.0, 4.0], [4.0, 3.0, 2.0]);
        close(official_ncs(&found, &ideal, 1), 0.75);
        close(official_ncs(&found, &ideal, 2), 3.0 / 7.0);
        close(official_ncs(&found, &ideal, 3), 7.0 / 9.0);
        // Weights log₂ 3, log₂ 2.
        let three = 3f64.log2();
        close(ordered_ncs(&found, &ideal, 2), 3.0 * three / (4.0 * three + 3.0));
        close(ordered_ncs(&found, &ideal, 1), 0.75);
        // The neighbours have φ 4 and 3: one of them is found at 1, both at 3.
        let hits = [true, false, true];
        close(ncs(&found, &hits, &ideal[..2], 1), 3.0 / 7.0);
        close(ncs(&found, &hits, &ideal[..2], 2), 3.0 / 7.0);
        close(ncs(&found, &hits, &ideal[..2], 3), 1.0);
    }

    #[test]
    fn grades_of_zero_and_small_pools() {
        assert_eq!(ncs(&[0.0, 0.0], &[true, false], &[0.0], 2), 0.0);
        assert_eq!(official_ncs(&[0.0, 0.0], &[0.0, 0.0], 2), 0.0);
        assert_eq!(ordered_ncs(&[0.0], &[0.0], 1), 0.0);
        // All φ are equal, so every ranking is perfect.
        close(official_ncs(&[0.5; 3], &[0.5; 3], 3), 1.0);
        close(ordered_ncs(&[0.5; 3], &[0.5; 3], 3), 1.0);
        // A pool of two items, with a cut-off of ten.
        close(official_ncs(&[1.0, 3.0], &[3.0, 1.0], 10), 1.0);
        close(ncs(&[1.0, 3.0], &[true, true], &[3.0, 1.0], 10), 1.0);
        assert_eq!(official_ncs(&[], &[], 5), 0.0);
    }

    #[test]
    fn an_ideal_ranking_has_an_ncs_of_one() {
        let ideal = [2.5, 2.0, 0.75, 0.5];
        for k in 1..=4 {
            close(official_ncs(&ideal, &ideal, k), 1.0);
            close(ordered_ncs(&ideal, &ideal, k), 1.0);
            // The same four items in another order are worse if the order counts, but equal at 4 otherwise.
            assert!(ordered_ncs(&[0.5, 0.75, 2.0, 2.5], &ideal, k) < 1.0);
        }
        close(official_ncs(&[0.5, 0.75, 2.0, 2.5], &ideal, 4), 1.0);
    }
}
