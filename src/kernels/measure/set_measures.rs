//! Measures of a ranking against a set of relevant items: set recall, R-precision, mAP@R.
//!
//! R-precision and mAP@R as in Musgrave et al., "A Metric Learning Reality Check", ECCV 2020, which ECCV Caption (Chun
//! et al., ECCV 2022) brought to image-text matching.

use super::metric::{GradedRanking, Metric, MetricName, MetricUnit, RankedMatches, RecordValue};

/// Set recall: the share of the relevant items that are among the first `k`. This is recall in general information
/// retrieval; in image-text retrieval, recall counts queries with at least one hit. `None` if no item is relevant.
///
/// # Shapes
/// - `hits`: for each item of a ranking, best first, true if it is relevant; items beyond the end are not hits
/// - `relevant`: number of relevant items
///
/// # Cost
/// `O(k)` time.
#[must_use]
pub fn set_recall(hits: &[bool], relevant: usize, k: usize) -> Option<f64> {
    (relevant > 0).then(|| share(hits.iter().take(k).filter(|&&hit| hit).count(), relevant))
}

/// R-precision: the share of relevant items among the first R, where R is their number; `None` if no item is relevant.
///
/// # Shapes
/// As [`set_recall`]; `hits` has at least the first R items, or all.
#[must_use]
pub fn r_precision(hits: &[bool], relevant: usize) -> Option<f64> {
    set_recall(hits, relevant, relevant)
}

/// Average precision at R, whose mean over queries is mAP@R; `None` if no item is relevant.
///
/// `1/R · Σ_{p ≤ R} P(p)·hit(p)`, where `P(p)` is the share of relevant items among the first `p`, and R the number of
/// relevant items.
///
/// # Shapes
/// As [`r_precision`].
///
/// # Cost
/// `O(R)` time.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub fn average_precision_at_r(hits: &[bool], relevant: usize) -> Option<f64> {
    if relevant == 0 {
        return None;
    }
    let (mut found, mut sum) = (0, 0.0);
    for (before, _) in hits.iter().take(relevant).enumerate().filter(|&(_, &hit)| hit) {
        found += 1;
        sum += share(found, before + 1);
    }
    Some(sum / relevant as f64)
}

#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// Metric `set_recall`: [`set_recall`] at each cut-off.
#[derive(Debug)]
pub struct SetRecall;

impl Metric for SetRecall {
    fn measure_matches(&self, matches: &RankedMatches<'_>, add: RecordValue<'_>) {
        for &k in matches.cutoffs {
            let share = set_recall(matches.hits, matches.relevant, k);
            if let Some(share) = share {
                add(MetricName::new("set_recall", MetricUnit::Share).at_cutoff(k), share);
            }
        }
    }
}

/// Metric `r_precision`: [`r_precision`] of the matches, and of the relevant neighbours of a graded relevance.
#[derive(Debug)]
pub struct RPrecision;

impl Metric for RPrecision {
    fn measure_matches(&self, matches: &RankedMatches<'_>, add: RecordValue<'_>) {
        let precision = r_precision(matches.hits, matches.relevant).filter(|_| matches.is_ranking);
        if let Some(value) = precision {
            add(MetricName::new("r_precision", MetricUnit::Share), value);
        }
    }

    fn measure_graded(&self, grades: &GradedRanking<'_>, add: RecordValue<'_>) {
        measure_neighbours(grades, "r_precision", r_precision, add);
    }
}

/// Metric `map_at_r`: [`average_precision_at_r`] of the matches, and of the relevant neighbours of a graded relevance.
#[derive(Debug)]
pub struct MapAtR;

impl Metric for MapAtR {
    fn measure_matches(&self, matches: &RankedMatches<'_>, add: RecordValue<'_>) {
        let precision = average_precision_at_r(matches.hits, matches.relevant).filter(|_| matches.is_ranking);
        if let Some(value) = precision {
            add(MetricName::new("map_at_r", MetricUnit::Share), value);
        }
    }

    fn measure_graded(&self, grades: &GradedRanking<'_>, add: RecordValue<'_>) {
        measure_neighbours(grades, "map_at_r", average_precision_at_r, add);
    }
}

/// Records a measure with the neighbours of the paper as relevant items, for each number of neighbours.
fn measure_neighbours(
    grades: &GradedRanking<'_>,
    measure: &'static str,
    value: fn(&[bool], usize) -> Option<f64>,
    add: RecordValue<'_>,
) {
    for neighbours in grades.neighbours.iter().filter(|neighbours| !neighbours.official) {
        let name = MetricName { m: Some(neighbours.m), ..grades.name(measure, None) };
        if let Some(value) = value(&neighbours.hits, neighbours.phi.len()) {
            add(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recall_and_precision_where_three_of_five_are_relevant() {
        // Three relevant items, at the 1st, 3rd and 4th position.
        let hits = [true, false, true, true, false];
        assert_eq!(set_recall(&hits, 3, 1), Some(1.0 / 3.0));
        assert_eq!(set_recall(&hits, 3, 3), Some(2.0 / 3.0));
        assert_eq!(set_recall(&hits, 3, 100), Some(1.0));
        assert_eq!(r_precision(&hits, 3), Some(2.0 / 3.0));
        // P(1) = 1, P(3) = 2/3; the 4th position is beyond R.
        let expected = (1.0 + 2.0 / 3.0) / 3.0;
        assert!((average_precision_at_r(&hits, 3).expect("three are relevant") - expected).abs() < 1e-15);
        // More relevant items than the ranking has items.
        assert_eq!((set_recall(&hits, 6, 9), r_precision(&hits, 6)), (Some(0.5), Some(0.5)));
        assert_eq!(average_precision_at_r(&[true, true], 4), Some(0.5));
        for k in [0, 1, 9] {
            assert_eq!(set_recall(&hits, 0, k), None);
        }
        assert_eq!((r_precision(&hits, 0), average_precision_at_r(&hits, 0)), (None, None));
        assert_eq!((set_recall(&[], 2, 5), average_precision_at_r(&[], 2)), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn a_perfect_ranking_has_precisions_of_one() {
        let hits = [true, true, true, false, false];
        assert_eq!((r_precision(&hits, 3), average_precision_at_r(&hits, 3)), (Some(1.0), Some(1.0)));
    }
}
