//! Semantic Recall: recall against the items that say much the same, whoever they belong to.
//!
//! Biten et al., "Is An Image Worth Five Sentences? A New Look into Semantics for Image-Text Matching", WACV 2022,
//! section 3.2. The published code differs from the paper in what it takes for relevant; both are here.

use super::metric::{Add, Grades, Metric, Name};
use super::sets::set_recall;
use std::collections::BTreeMap;

use crate::top_k::Scored;

/// Images that the published code takes of each caption, when it looks for neighbours of the caption's image.
pub const OFFICIAL_LIST: usize = 30;

/// The neighbours of an image as the published code finds them: other images, best first.
///
/// Each caption of the image names the [`OFFICIAL_LIST`] images that it fits best, with its φ; an image's score is the sum
/// over the captions that name it. The paper's neighbours are simply the `m` items of largest φ.
///
/// # Shapes
/// - `lists`: for each caption of the image the images that it fits best
/// - `left_out`: an image that is no neighbour, such as the image itself
/// - result: at most `m`; of equal scores the lower index comes first
///
/// # Edge cases
/// The published code stops with an error when an image that it is to leave out is in none of its own lists; here it is
/// simply not among the neighbours.
#[must_use]
pub fn official_neighbours<'l>(
    lists: impl IntoIterator<Item = &'l [Scored]>,
    left_out: Option<usize>,
    m: usize,
) -> Vec<usize> {
    let mut scores: BTreeMap<usize, f64> = BTreeMap::new();
    for scored in lists.into_iter().flatten() {
        *scores.entry(scored.item).or_default() += f64::from(scored.score);
    }
    let mut neighbours: Vec<(usize, f64)> = scores.into_iter().filter(|&(image, _)| Some(image) != left_out).collect();
    // Stable, and they come in the order of their index.
    neighbours.sort_by(|a, b| b.1.total_cmp(&a.1));
    neighbours.into_iter().take(m).map(|(image, _)| image).collect()
}

/// The published code's "soft" Semantic Recall at `k`: each relevant item that is found counts with its part of the φ of
/// all of them, and the sum is divided by their number. So a perfect ranking has 1 only where one item is relevant.
/// 0 when all φ are 0; `None` when nothing is relevant.
///
/// # Shapes
/// - `hits`, `found`: of the items of a ranking, best first, whether each is relevant, and its φ
/// - `relevant`: φ of all relevant items
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub fn soft_semantic_recall(hits: &[bool], found: &[f32], relevant: &[f32], k: usize) -> Option<f64> {
    let total: f64 = relevant.iter().map(|&phi| f64::from(phi)).sum();
    let of_hits: f64 = hits.iter().zip(found).take(k).filter(|(hit, _)| **hit).map(|(_, &phi)| f64::from(phi)).sum();
    (!relevant.is_empty()).then(|| of_hits / (total + 1e-20) / relevant.len() as f64)
}

/// `semantic_recall`: the share of the neighbours that is found, by the paper and by the published code; by the latter also
/// whether any is found (`_any`), and [`soft_semantic_recall`] (`_soft`).
#[derive(Debug)]
pub struct SemanticRecall;

impl Metric for SemanticRecall {
    fn of_grades(&self, grades: &Grades<'_>, add: Add<'_>) {
        for of in grades.neighbours {
            let variant = Some(if of.official { "official" } else { "paper" });
            for &k in grades.cutoffs {
                let name = |measure| Name { m: Some(of.m), ..grades.name(measure, variant).at(k) };
                let mut some = |measure, value: Option<f64>| {
                    if let Some(value) = value {
                        add(name(measure), value);
                    }
                };
                some("semantic_recall", set_recall(&of.hits, of.phi.len(), k));
                if of.official {
                    let any = f64::from(u8::from(of.hits.iter().take(k).any(|&hit| hit)));
                    some("semantic_recall_any", (!of.phi.is_empty()).then_some(any));
                    some("semantic_recall_soft", soft_semantic_recall(&of.hits, grades.found, &of.phi, k));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_those_that_the_captions_name_together() {
        let list = |scored: &[(usize, f32)]| -> Vec<Scored> {
            scored.iter().map(|&(item, score)| Scored { item, score }).collect()
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
    fn soft_recall_counts_by_similarity() {
        let got = soft_semantic_recall(&[true, false, true], &[3.0, 9.0, 1.0], &[3.0, 1.0], 3);
        assert!((got.expect("two are relevant") - 0.5).abs() < 1e-12);
        let first = soft_semantic_recall(&[true, false, true], &[3.0, 9.0, 1.0], &[3.0, 1.0], 1);
        assert!((first.expect("two are relevant") - 0.375).abs() < 1e-12);
        assert_eq!(soft_semantic_recall(&[true], &[0.0], &[0.0], 1), Some(0.0));
        assert_eq!(soft_semantic_recall(&[false], &[1.0], &[], 1), None);
    }
}
