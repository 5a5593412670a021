//! Semantic Recall: recall of the items with the largest graded relevance φ, whether or not they match.
//!
//! Biten et al., "Is An Image Worth Five Sentences? A New Look into Semantics for Image-Text Matching", WACV 2022,
//! section 3.2. The published code takes other items as relevant than the paper; both variants are here.

use super::metric::{GradedRanking, Metric, MetricName, RecordValue};
use super::set_measures::set_recall;
use std::collections::BTreeMap;

use crate::top_k::ScoredItem;

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
    let of_hits: f64 = hits.iter().zip(found).take(k).filter(|(hit, _)| **hit).map(|(_, &phi)| f64::from(phi)).sum();
    (!relevant.is_empty()).then(|| of_hits / (total + 1e-20) / relevant.len() as f64)
}

/// Metric `semantic_recall`: the share of the neighbours that is found, with the neighbours of the paper and of the
/// published code. With the latter also `semantic_recall_any`, which is 1 if any neighbour is found, and
/// `semantic_recall_soft` ([`soft_semantic_recall`]).
#[derive(Debug)]
pub struct SemanticRecall;

impl Metric for SemanticRecall {
    fn measure_graded(&self, grades: &GradedRanking<'_>, add: RecordValue<'_>) {
        for of in grades.neighbours {
            let variant = Some(if of.official { "official" } else { "paper" });
            for &k in grades.cutoffs {
                let name = |measure| MetricName { m: Some(of.m), ..grades.name(measure, variant).at_cutoff(k) };
                let mut some = |measure, value: Option<f64>| {
                    if let Some(value) = value {
                        add(name(measure), value);
                    }
                };
                some("semantic_recall", set_recall(&of.hits, of.phi.len(), k));
                if of.official {
                    let any = f64::from(u8::from(of.hits.iter().take(k).any(|&hit| hit)));
                    some("semantic_recall_any", (!of.phi.is_empty()).then_some(any));
                    some("semantic_recall_soft", soft_semantic_recall(&of.hits, grades.ranked_phi, &of.phi, k));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn official_neighbours_have_the_largest_sums_over_captions() {
        let list = |scored: &[(usize, f32)]| -> Vec<ScoredItem> {
            scored.iter().map(|&(item, score)| ScoredItem { item, score }).collect()
        };
        let lists = [list(&[(4, 2.0), (7, 0.5), (1, 0.25)]), list(&[(4, 3.0), (1, 0.5), (9, 0.25)])];
        let of = |left_out, m| official_neighbours(lists.iter().map(Vec::as_slice), left_out, m);
        // 4: 5, 1: 0.75, 7: 0.5, 9: 0.25.
        assert_eq!(of(None, 3), [4, 1, 7]);
        assert_eq!(of(Some(4), 3), [1, 7, 9]);
        assert_eq!(of(Some(3), 9), [4, 1, 7, 9]);
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
}
