//! Measures of a ranking against a set of relevant items: set recall, R-precision, mAP@R.
//!
//! R-precision and mAP@R as in Musgrave et al., "A Metric Learning Reality Check", ECCV 2020, which ECCV Caption (Chun et
//! al., ECCV 2022) brought to image-text matching.

use super::metric::{Add, Grades, Matches, Metric, Name, Unit};

/// The share of the relevant items that are among the first `k`: what recall means outside of this field, where it is
/// one hit that counts. `None` when nothing is relevant.
///
/// # Shapes
/// - `hits`: of the items of a ranking, best first, whether each is relevant; what a ranking lacks is no hit
/// - `relevant`: how many items are relevant
///
/// # Cost
/// `O(k)` time.
#[must_use]
pub fn set_recall(hits: &[bool], relevant: usize, k: usize) -> Option<f64> {
    (relevant > 0).then(|| share(hits.iter().take(k).filter(|&&hit| hit).count(), relevant))
}

/// The share of relevant items among the first R, where R is how many are relevant; `None` when nothing is.
///
/// # Shapes
/// As [`set_recall`]; `hits` holds the first R items at least, where there are as many.
#[must_use]
pub fn r_precision(hits: &[bool], relevant: usize) -> Option<f64> {
    set_recall(hits, relevant, relevant)
}

/// Average precision at R, whose mean over queries is mAP@R; `None` when nothing is relevant.
///
/// `1/R · Σ_{p ≤ R} P(p)·hit(p)`, with `P(p)` the share of relevant items among the first `p` and R how many are relevant.
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
fn share(part: usize, of: usize) -> f64 {
    part as f64 / of as f64
}

/// `set_recall`: [`set_recall`] at each cut-off.
#[derive(Debug)]
pub struct SetRecall;

impl Metric for SetRecall {
    fn of_matches(&self, matches: &Matches<'_>, add: Add<'_>) {
        for &k in matches.cutoffs {
            let share = set_recall(matches.hits, matches.relevant, k);
            if let Some(share) = share {
                add(Name::new("set_recall", Unit::Share).at(k), share);
            }
        }
    }
}

/// `r_precision`: [`r_precision`] of matches, and of the neighbours that a graded relevance takes for relevant.
#[derive(Debug)]
pub struct RPrecision;

impl Metric for RPrecision {
    fn of_matches(&self, matches: &Matches<'_>, add: Add<'_>) {
        let precision = r_precision(matches.hits, matches.relevant).filter(|_| matches.ranking);
        if let Some(value) = precision {
            add(Name::new("r_precision", Unit::Share), value);
        }
    }

    fn of_grades(&self, grades: &Grades<'_>, add: Add<'_>) {
        of_neighbours(grades, "r_precision", r_precision, add);
    }
}

/// `map_at_r`: [`average_precision_at_r`] of the same.
#[derive(Debug)]
pub struct MapAtR;

impl Metric for MapAtR {
    fn of_matches(&self, matches: &Matches<'_>, add: Add<'_>) {
        let precision = average_precision_at_r(matches.hits, matches.relevant).filter(|_| matches.ranking);
        if let Some(value) = precision {
            add(Name::new("map_at_r", Unit::Share), value);
        }
    }

    fn of_grades(&self, grades: &Grades<'_>, add: Add<'_>) {
        of_neighbours(grades, "map_at_r", average_precision_at_r, add);
    }
}

/// A measure of the neighbours of the paper, for each number of them.
fn of_neighbours(grades: &Grades<'_>, measure: &'static str, value: fn(&[bool], usize) -> Option<f64>, add: Add<'_>) {
    for of in grades.neighbours.iter().filter(|of| !of.official) {
        let name = Name { m: Some(of.m), ..grades.name(measure, None) };
        if let Some(value) = value(&of.hits, of.phi.len()) {
            add(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recall_and_precision_where_three_of_five_are_relevant() {
        // Three relevant items, found in the 1st, 3rd and 4th place.
        let hits = [true, false, true, true, false];
        assert_eq!(set_recall(&hits, 3, 1), Some(1.0 / 3.0));
        assert_eq!(set_recall(&hits, 3, 3), Some(2.0 / 3.0));
        assert_eq!(set_recall(&hits, 3, 100), Some(1.0));
        assert_eq!(r_precision(&hits, 3), Some(2.0 / 3.0));
        // P(1) = 1, P(3) = 2/3; the 4th place is beyond R.
        let wanted = (1.0 + 2.0 / 3.0) / 3.0;
        assert!((average_precision_at_r(&hits, 3).expect("three are relevant") - wanted).abs() < 1e-15);
        // More relevant items than the ranking has: what is not there is not found.
        assert_eq!((set_recall(&hits, 6, 9), r_precision(&hits, 6)), (Some(0.5), Some(0.5)));
        assert_eq!(average_precision_at_r(&[true, true], 4), Some(0.5));
        for k in [0, 1, 9] {
            assert_eq!(set_recall(&hits, 0, k), None);
        }
        assert_eq!((r_precision(&hits, 0), average_precision_at_r(&hits, 0)), (None, None));
        assert_eq!((set_recall(&[], 2, 5), average_precision_at_r(&[], 2)), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn a_perfect_ranking_has_all_of_everything() {
        let hits = [true, true, true, false, false];
        assert_eq!((r_precision(&hits, 3), average_precision_at_r(&hits, 3)), (Some(1.0), Some(1.0)));
    }
}
