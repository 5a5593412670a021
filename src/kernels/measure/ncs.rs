//! The Normalized Cumulative Semantic score: how much of the similarity that could be found was found.
//!
//! Biten et al., "Is An Image Worth Five Sentences? A New Look into Semantics for Image-Text Matching", WACV 2022,
//! section 3.3, and the code published with it, which is simpler than the paper's equation 5.

use super::metric::{Add, Grades, Metric, Name};

/// What the published code adds to a mean before it divides by it.
const TINY: f64 = 1e-10;

/// NCS at `k` by the paper's equation 5: φ of the neighbours that are among the first `k`, over φ of all neighbours, where
/// the neighbours are the `m` items of largest φ. 0 when their φ are all 0.
///
/// # Shapes
/// - `found`, `hits`: of the items of a ranking, best first, φ and whether each is a neighbour
/// - `neighbours`: φ of the neighbours
///
/// # Cost
/// `O(k + m)` time.
#[must_use]
pub fn ncs(found: &[f32], hits: &[bool], neighbours: &[f32], k: usize) -> f64 {
    let total: f64 = neighbours.iter().map(|&phi| f64::from(phi)).sum();
    let of_hits: f64 = found.iter().zip(hits).take(k).filter(|(_, hit)| **hit).map(|(&phi, _)| f64::from(phi)).sum();
    if total > 0.0 { of_hits / total } else { 0.0 }
}

/// NCS at `k` by the published code: the mean φ of the first `k` items over the largest mean that any `k` items have.
///
/// # Shapes
/// - `found`: φ of the items of a ranking, best first
/// - `ideal`: the largest φ of the pool, largest first, as many as in `found`
///
/// # Edge cases
/// A pool of fewer than `k` items is taken whole. 0 when all φ are 0.
#[must_use]
pub fn official_ncs(found: &[f32], ideal: &[f32], k: usize) -> f64 {
    mean(found, k, |_| 1.0) / (mean(ideal, k, |_| 1.0) + TINY)
}

/// [`official_ncs`] with earlier places counting for more, by which the published training chooses its model on
/// Flickr30k: place `p`, from 0, weighs `log₂(k − p + 1)` in both means.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "cut-offs are far below 2⁵³")]
pub fn ordered_ncs(found: &[f32], ideal: &[f32], k: usize) -> f64 {
    let weight = |place: usize| ((k - place + 1) as f64).log2();
    mean(found, k, weight) / (mean(ideal, k, weight) + TINY)
}

/// The weighted mean of the first `k`; 0 of none.
#[expect(clippy::cast_precision_loss, reason = "cut-offs are far below 2⁵³")]
fn mean(values: &[f32], k: usize, weight: impl Fn(usize) -> f64) -> f64 {
    let first = &values[..k.min(values.len())];
    let sum: f64 = first.iter().enumerate().map(|(place, &phi)| f64::from(phi) * weight(place)).sum();
    sum / first.len().max(1) as f64
}

/// `ncs` by the paper ([`ncs`]) and by the published code ([`official_ncs`]), there also over a wider pool; `ncs_ordered`
/// ([`ordered_ncs`]).
#[derive(Debug)]
pub struct Ncs;

impl Metric for Ncs {
    fn of_grades(&self, grades: &Grades<'_>, add: Add<'_>) {
        for &k in grades.cutoffs {
            let official = Some("official");
            add(grades.name("ncs", official).at(k), official_ncs(grades.found, grades.ideal, k));
            add(grades.name("ncs_ordered", official).at(k), ordered_ncs(grades.found, grades.ideal, k));
            if let Some(whole) = grades.whole {
                add(grades.name("ncs", Some("official_whole_split")).at(k), official_ncs(grades.found, whole, k));
            }
            for of in grades.neighbours.iter().filter(|of| !of.official && !of.phi.is_empty()) {
                let name = Name { m: Some(of.m), ..grades.name("ncs", Some("paper")).at(k) };
                add(name, ncs(grades.found, &of.hits, &of.phi, k));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, wanted: f64) {
        assert!((got - wanted).abs() < 1e-9, "{got}, wanted {wanted}");
    }

    #[test]
    fn similarity_found_is_a_share_of_the_most_possible() {
        // φ of a pool: 4 3 2 1 0. Found: 3, 0, 4.
        let (found, ideal) = ([3.0, 0.0, 4.0], [4.0, 3.0, 2.0]);
        close(official_ncs(&found, &ideal, 1), 0.75);
        close(official_ncs(&found, &ideal, 2), 3.0 / 7.0);
        close(official_ncs(&found, &ideal, 3), 7.0 / 9.0);
        // Weights log₂ 3, log₂ 2.
        let three = 3f64.log2();
        close(ordered_ncs(&found, &ideal, 2), 3.0 * three / (4.0 * three + 3.0));
        close(ordered_ncs(&found, &ideal, 1), 0.75);
        // Neighbours are those of φ 4 and 3: at 1 one of them is found, at 3 both.
        let hits = [true, false, true];
        close(ncs(&found, &hits, &ideal[..2], 1), 3.0 / 7.0);
        close(ncs(&found, &hits, &ideal[..2], 2), 3.0 / 7.0);
        close(ncs(&found, &hits, &ideal[..2], 3), 1.0);
    }

    #[test]
    fn nothing_similar_and_small_pools() {
        assert_eq!(ncs(&[0.0, 0.0], &[true, false], &[0.0], 2), 0.0);
        assert_eq!(official_ncs(&[0.0, 0.0], &[0.0, 0.0], 2), 0.0);
        assert_eq!(ordered_ncs(&[0.0], &[0.0], 1), 0.0);
        // All φ equal: whatever is found is as good as anything.
        close(official_ncs(&[0.5; 3], &[0.5; 3], 3), 1.0);
        close(ordered_ncs(&[0.5; 3], &[0.5; 3], 3), 1.0);
        // Two items, ten asked for.
        close(official_ncs(&[1.0, 3.0], &[3.0, 1.0], 10), 1.0);
        close(ncs(&[1.0, 3.0], &[true, true], &[3.0, 1.0], 10), 1.0);
        assert_eq!(official_ncs(&[], &[], 5), 0.0);
    }

    #[test]
    fn a_query_that_finds_the_best_in_order_has_all_of_it() {
        let ideal = [2.5, 2.0, 0.75, 0.5];
        for k in 1..=4 {
            close(official_ncs(&ideal, &ideal, k), 1.0);
            close(ordered_ncs(&ideal, &ideal, k), 1.0);
            // The same four in another order are as good at 4, and worse before when order counts.
            assert!(ordered_ncs(&[0.5, 0.75, 2.0, 2.5], &ideal, k) < 1.0);
        }
        close(official_ncs(&[0.5, 0.75, 2.0, 2.5], &ideal, 4), 1.0);
    }
}
