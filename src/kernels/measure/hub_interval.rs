//! How far hs-sum could lie elsewhere, had other queries been drawn: the bootstrap of [`bootstrap`](super::bootstrap), for a
//! measure that is no mean over queries.

use super::bootstrap::percentile;
use super::recall::CUTOFFS;
use crate::kernels::sample::Sample;

/// What the queries of one direction found.
#[derive(Debug, Clone, Copy)]
pub struct FoundLists<'l> {
    /// For every query its items, best first.
    pub lists: &'l [Vec<usize>],
    /// The group of each query, such as its image: what is drawn together.
    pub groups: &'l [usize],
    /// How many items there are.
    pub items: usize,
}

/// The interval of the sum of the skewness of Nₖ over `directions` and [`CUTOFFS`], with probability `level`: percentiles over
/// `resamples` draws of as many groups as there are, with repetition.
///
/// The skewness of few queries is pulled towards that of chance, and drawing some twice raises it, so an interval may lie
/// above the measured sum: it tells how far runs differ by the draw of queries, and is no test against a number.
///
/// # Shapes
/// - `groups`: how many there are; every group of a direction is below
/// - result: (low, high); `None` when there are no groups or no resamples
///
/// # Cost
/// `O(resamples · (queries · 10 + items))` time.
#[must_use]
pub fn hs_sum_interval(
    directions: &[FoundLists<'_>],
    groups: usize,
    resamples: usize,
    level: f64,
    seed: u64,
) -> Option<(f64, f64)> {
    if groups == 0 || resamples == 0 {
        return None;
    }
    let mut sample = Sample::new(seed, &[u64::from_be_bytes(*b"hub draw")]);
    let mut drawn = vec![0u32; groups];
    let mut sums: Vec<f64> = (0..resamples)
        .map(|_| {
            drawn.fill(0);
            (0..groups).for_each(|_| drawn[sample.below(groups)] += 1);
            directions.iter().map(|of| skewness_sum(of, &drawn)).sum()
        })
        .collect();
    sums.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    Some((percentile(&sums, tail), percentile(&sums, 1.0 - tail)))
}

/// The sum over [`CUTOFFS`] of the skewness of Nₖ, each query as often as its group was drawn.
fn skewness_sum(of: &FoundLists<'_>, drawn: &[u32]) -> f64 {
    let (mut counts, mut sum, mut from) = (vec![0u32; of.items], 0.0, 0);
    for k in CUTOFFS {
        for (list, &group) in of.lists.iter().zip(of.groups) {
            let times = drawn[group];
            if times > 0 {
                list.iter().take(k).skip(from).for_each(|&item| counts[item] += times);
            }
        }
        from = k;
        sum += skewness(&counts);
    }
    sum
}

/// Skewness with the variance of all, not of a sample; 0 where all are equal.
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
fn skewness(counts: &[u32]) -> f64 {
    let n = counts.len() as f64;
    let mean = counts.iter().map(|&count| f64::from(count)).sum::<f64>() / n;
    let (mut second, mut third) = (0.0, 0.0);
    for &count in counts {
        let deviation = f64::from(count) - mean;
        second += deviation * deviation;
        third += deviation * deviation * deviation;
    }
    if second > 0.0 { third / n / (second / n).powf(1.5) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::hubs::{Hubs, occurrences};
    use super::*;

    #[test]
    fn the_skewness_is_that_of_the_measure() {
        let lists: Vec<Vec<usize>> = (0..40).map(|q| (0..10).map(|i| (q * q + 3 * i) % (7 + i)).collect()).collect();
        let groups: Vec<usize> = (0..40).collect();
        let of = FoundLists { lists: &lists, groups: &groups, items: 20 };
        let wanted: f64 = CUTOFFS
            .into_iter()
            .map(|k| Hubs::of(&occurrences(lists.iter().map(Vec::as_slice), 20, k)).expect("items are found").skewness)
            .sum();
        assert!((skewness_sum(&of, &[1; 40]) - wanted).abs() < 1e-12);
        let (low, high) = hs_sum_interval(&[of], 40, 500, 0.95, 1).expect("there are queries");
        assert!(low < high && low > wanted - 3.0 && high < wanted + 3.0, "{low} {high} {wanted}");
        assert_eq!(hs_sum_interval(&[of], 40, 500, 0.95, 1), Some((low, high)));
    }

    #[test]
    fn one_group_has_no_width_and_nothing_has_no_interval() {
        let lists = [vec![0, 1], vec![0, 2]];
        let of = FoundLists { lists: &lists, groups: &[0, 0], items: 3 };
        let (low, high) = hs_sum_interval(&[of], 1, 50, 0.95, 1).expect("there are queries");
        assert_eq!(low, high);
        assert_eq!(hs_sum_interval(&[of], 0, 50, 0.95, 1), None);
        assert_eq!(hs_sum_interval(&[of], 1, 0, 0.95, 1), None);
    }
}
