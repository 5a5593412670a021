//! Normalized Cumulative Semantic score (NCS): the share of the attainable graded relevance φ that is found.
//!
//! Biten et al., "Is An Image Worth Five Sentences? A New Look into Semantics for Image-Text Matching", WACV 2022,
//! section 3.3, and the code published with it, which is simpler than the paper's equation 5.

use super::metric::{GradedRanking, Metric, MetricName, RecordValue};

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
    let of_hits: f64 = found.iter().zip(hits).take(k).filter(|(_, hit)| **hit).map(|(&phi, _)| f64::from(phi)).sum();
    if total > 0.0 { of_hits / total } else { 0.0 }
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
            for of in grades.neighbours.iter().filter(|of| !of.official && !of.phi.is_empty()) {
                let name = MetricName { m: Some(of.m), ..grades.name("ncs", Some("paper")).at_cutoff(k) };
                add(name, ncs(grades.ranked_phi, &of.hits, &of.phi, k));
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
