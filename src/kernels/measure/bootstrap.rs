//! Confidence intervals of measures by resampling, and a randomisation test of the difference of two runs.
//!
//! Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 13 (percentile intervals) and 15
//! (randomisation tests); for comparing retrieval runs: Smucker, Allan, Carterette, "A comparison of statistical
//! significance tests for information retrieval evaluation", CIKM 2007.

use crate::random::Rng;

/// Values of a measure that is a mean over queries, such as R@K of 0 and 100.
#[derive(Debug, Clone, Copy)]
pub struct QueryValues<'v> {
    /// Value of each query.
    pub values: &'v [f64],
    /// Group of each query, such as its image. The queries of a group are not independent, so they are resampled
    /// together.
    pub groups: &'v [usize],
}

/// Bootstrap interval of a sum of measures at confidence `level`: percentiles of the sums over `resamples` resamples of
/// the groups with replacement.
///
/// With one measure, it is the interval of that measure; with the six recalls of both directions, grouped by image,
/// that of rsum; with the differences of two runs for each query, that of their difference. Percentiles are
/// interpolated.
///
/// # Shapes
/// - `groups`: number of groups; every entry of [`QueryValues::groups`] is below
/// - result: (low, high); `None` if there are no groups or no resamples, a measure has no queries, or a value is not
///   finite
///
/// # Edge cases
/// A resample without a query of some measure is drawn again.
///
/// # Cost
/// `O(resamples · groups · measures)` time.
#[must_use]
pub fn bootstrap_interval(
    measures: &[QueryValues<'_>],
    groups: usize,
    resamples: usize,
    level: f64,
    seed: u64,
) -> Option<(f64, f64)> {
    let all = (0..measures.len()).collect();
    bootstrap_intervals(measures, &[all], groups, resamples, level, seed)?.first().copied()
}

/// Bootstrap intervals of several sums of measures, as [`bootstrap_interval`], from the same resamples.
///
/// # Shapes
/// - `sums`: indices of the measures of each sum
/// - result: (low, high) of each sum
///
/// # Cost
/// `O(resamples · groups · measures)` time, 8 bytes for each resample and sum.
#[must_use]
pub fn bootstrap_intervals(
    measures: &[QueryValues<'_>],
    sums: &[Vec<usize>],
    groups: usize,
    resamples: usize,
    level: f64,
    seed: u64,
) -> Option<Vec<(f64, f64)>> {
    let totals: Vec<GroupTotals> = measures.iter().map(|measure| GroupTotals::of(measure, groups)).collect();
    let has_none = |values: &[f64]| values.is_empty() || values.iter().any(|value| !value.is_finite());
    if groups == 0 || resamples == 0 || measures.iter().any(|measure| has_none(measure.values)) {
        return None;
    }
    let mut rng = Rng::new(seed, &[u64::from_be_bytes(*b"bootstra")]);
    let mut drawn_sums = vec![Vec::with_capacity(resamples); sums.len()];
    let (mut drawn, mut means, mut done) = (vec![0.0; groups], Vec::with_capacity(measures.len()), 0);
    while done < resamples {
        drawn.fill(0.0);
        (0..groups).for_each(|_| drawn[rng.uniform_below(groups)] += 1.0);
        means.clear();
        means.extend(totals.iter().map(|totals| totals.mean(&drawn)));
        if means.iter().all(|mean| !mean.is_nan()) {
            for (values, sum) in drawn_sums.iter_mut().zip(sums) {
                values.push(sum.iter().map(|&measure| means[measure]).sum::<f64>());
            }
            done += 1;
        }
    }
    let tail = (1.0 - level) / 2.0;
    let interval = |values: &mut Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        (percentile(values, tail), percentile(values, 1.0 - tail))
    };
    Some(drawn_sums.iter_mut().map(interval).collect())
}

/// Sum of the values and number of queries of each group.
struct GroupTotals {
    sums: Vec<f64>,
    counts: Vec<f64>,
}

impl GroupTotals {
    fn of(measure: &QueryValues<'_>, groups: usize) -> Self {
        let mut this = Self { sums: vec![0.0; groups], counts: vec![0.0; groups] };
        for (&value, &group) in measure.values.iter().zip(measure.groups) {
            this.sums[group] += value;
            this.counts[group] += 1.0;
        }
        this
    }

    /// Mean over the queries of a resample, which has each group `drawn` times.
    fn mean(&self, drawn: &[f64]) -> f64 {
        let weighted = |values: &[f64]| values.iter().zip(drawn).map(|(value, times)| value * times).sum::<f64>();
        weighted(&self.sums) / weighted(&self.counts)
    }
}

/// Percentile of sorted values at a share in [0, 1], interpolated between two values.
#[expect(clippy::cast_precision_loss, reason = "resamples are far below 2⁵³")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length is a length")]
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = share.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// Two-sided p value of the difference of two runs, by a randomisation test: the share of random swaps of the two
/// results of each group for which the runs differ at least as much as without swaps.
///
/// All swaps are enumerated if `2^groups ≤ resamples`, where only groups that differ count. Otherwise `resamples`
/// random swaps are drawn, and `p = (1 + swaps that differ at least as much) / (1 + resamples)`.
///
/// # Shapes
/// - `one`, `other`: a measure of the same queries with the same groups, in two runs
/// - result: `None` if there are no queries
///
/// # Cost
/// `O(resamples · groups)` time.
///
/// # Panics
/// The runs have different numbers of queries.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "resamples are far below 2⁵³")]
pub fn randomisation_test(one: &[f64], other: &[f64], groups: &[usize], resamples: usize, seed: u64) -> Option<f64> {
    assert_eq!(one.len(), other.len(), "both runs have the same queries");
    if one.is_empty() {
        return None;
    }
    let mut differences = vec![0.0; groups.iter().max().map_or(0, |last| last + 1)];
    for ((one, other), &group) in one.iter().zip(other).zip(groups) {
        differences[group] += one - other;
    }
    differences.retain(|difference| *difference != 0.0);
    let observed = differences.iter().sum::<f64>().abs();
    // Sums of the same numbers in another order may differ by rounding.
    let size: f64 = differences.iter().map(|difference| difference.abs()).sum();
    let as_far = |sum: f64| sum.abs() >= observed - 1e-12 * size;

    let all = u32::try_from(differences.len()).ok().and_then(|bits| 1usize.checked_shl(bits));
    if let Some(all) = all.filter(|&all| all <= resamples) {
        let swapped = |swaps: usize| {
            let sign = |group: usize| if swaps >> group & 1 == 1 { -1.0 } else { 1.0 };
            differences.iter().enumerate().map(|(group, difference)| sign(group) * difference).sum::<f64>()
        };
        return Some((0..all).filter(|&swaps| as_far(swapped(swaps))).count() as f64 / all as f64);
    }
    let mut rng = Rng::new(seed, &[u64::from_be_bytes(*b"randomis")]);
    let far = (0..resamples)
        .filter(|_| {
            let mut bits = 0;
            let sum: f64 = differences
                .iter()
                .enumerate()
                .map(|(place, difference)| {
                    if place.is_multiple_of(64) {
                        bits = rng.next_u64();
                    }
                    let swap = bits >> (place % 64) & 1 == 1;
                    if swap { -difference } else { *difference }
                })
                .sum();
            as_far(sum)
        })
        .count();
    Some((far + 1) as f64 / (resamples + 1) as f64)
}

// Confidence interval of hs-sum by the delete-a-group jackknife (Efron and Tibshirani, "An Introduction to the
// Bootstrap", 1993, chapter 11).
//
// The bootstrap is not suitable: a query that is drawn twice counts its items twice, which creates hubs.

/// Largest number of groups.
const GROUPS: usize = 200;
/// Half the width of a 95 % interval, in standard errors.
const HALF_WIDTH: f64 = 1.959_963_984_540_054;

/// Ranked items of the queries of one direction.
#[derive(Debug, Clone, Copy)]
pub struct RankedLists<'l> {
    /// Items of every query, best first.
    pub lists: &'l [Vec<usize>],
    /// Group of each query, such as its image. The queries of a group are left out together.
    pub groups: &'l [usize],
    /// Number of items.
    pub items: usize,
}

/// Ranked items of one fold.
#[derive(Debug, Clone)]
pub struct FoldRankings<'l> {
    /// Ranked items of each direction.
    pub directions: Vec<RankedLists<'l>>,
    /// Number of images; every group of a direction is below.
    pub images: usize,
}

/// 95 % confidence interval of hs-sum, the sum of the skewness of Nₖ over directions and cut-offs, as a mean over F
/// folds: `θ̄ ± 1.96·√(Σ V) / F`. V is the jackknife variance of each fold; variances add because folds have no query
/// in common.
///
/// # Shapes
/// - result: (low, high); `None` if there are no folds, or one of them has fewer than two images
///
/// # Cost
/// `O(min(images, 200) · (queries · k + items))` time for each fold, with k the largest cut-off.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "folds are few")]
pub fn hs_sum_interval(folds: &[FoldRankings<'_>], cutoffs: &[usize]) -> Option<(f64, f64)> {
    let each: Option<Vec<(f64, f64)>> = folds.iter().map(|fold| jackknife(fold, cutoffs)).collect();
    let (count, each) = (folds.len() as f64, each.filter(|each| !each.is_empty())?);
    let mean = each.iter().map(|(sum, _)| sum).sum::<f64>() / count;
    let half = HALF_WIDTH * each.iter().map(|(_, variance)| variance).sum::<f64>().sqrt() / count;
    Some((mean - half, mean + half))
}

/// hs-sum θ of a fold and its jackknife variance `(g−1)/g · Σ(θᵢ − θ̄)²`, where θᵢ is the hs-sum without group i of g
/// groups. A group is an image; if there are more than 200 images, they are distributed evenly over 200 groups.
#[expect(clippy::cast_precision_loss, reason = "groups are few")]
fn jackknife(fold: &FoldRankings<'_>, cutoffs: &[usize]) -> Option<(f64, f64)> {
    let groups = fold.images.min(GROUPS);
    if groups < 2 {
        return None;
    }
    let sum = |left_out: Option<usize>| -> f64 {
        fold.directions
            .iter()
            .map(|ranked| skewness_sum(ranked, cutoffs, |image| Some(image % groups) != left_out))
            .sum()
    };
    let without: Vec<f64> = (0..groups).map(|group| sum(Some(group))).collect();
    let count = groups as f64;
    let mean = without.iter().sum::<f64>() / count;
    let squares: f64 = without.iter().map(|value| (value - mean).powi(2)).sum();
    Some((sum(None), (count - 1.0) / count * squares))
}

/// Sum of the skewness of Nₖ over ascending cut-offs, for the queries whose group satisfies `counts_as`.
fn skewness_sum(ranked: &RankedLists<'_>, cutoffs: &[usize], counts_as: impl Fn(usize) -> bool) -> f64 {
    let (mut counts, mut sum, mut from) = (vec![0u32; ranked.items], 0.0, 0);
    for &k in cutoffs {
        for (list, _) in ranked.lists.iter().zip(ranked.groups).filter(|(_, group)| counts_as(**group)) {
            list.iter().take(k).skip(from).for_each(|&item| counts[item] += 1);
        }
        from = k;
        sum += skewness(&counts);
    }
    sum
}

/// Skewness with the population variance; 0 if all counts are equal.
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
    use super::super::hubs::{Hubness, k_occurrences};
    use super::super::recall::CUTOFFS;
    use super::*;

    #[test]
    fn constant_values_have_an_interval_of_width_zero() {
        let same = QueryValues { values: &[40.0; 6], groups: &[0, 0, 1, 1, 2, 2] };
        assert_eq!(bootstrap_interval(&[same, same], 3, 200, 0.95, 1), Some((80.0, 80.0)));
        // The captions of one image are resampled together.
        let one = QueryValues { values: &[0.0, 100.0, 100.0], groups: &[0, 0, 0] };
        let (low, high) = bootstrap_interval(&[one], 1, 100, 0.95, 1).expect("there are queries");
        assert!((low - 200.0 / 3.0).abs() < 1e-12 && low == high);
        assert_eq!(bootstrap_interval(&[QueryValues { values: &[], groups: &[] }], 3, 100, 0.95, 1), None);
        assert_eq!(
            (bootstrap_interval(&[], 0, 100, 0.95, 1), bootstrap_interval(&[same], 3, 0, 0.95, 1)),
            (None, None)
        );
        let broken = QueryValues { values: &[1.0, f64::NAN], groups: &[0, 1] };
        assert_eq!(bootstrap_interval(&[broken], 2, 50, 0.9, 1), None);
        // Resamples without a query of the measure are drawn again.
        let some = QueryValues { values: &[7.0], groups: &[1] };
        assert_eq!(bootstrap_interval(&[some], 2, 50, 0.9, 1), Some((7.0, 7.0)));
    }

    #[test]
    fn percentiles_are_interpolated() {
        assert_eq!([0.0, 0.5, 1.0, 0.125].map(|share| percentile(&[1.0, 2.0, 4.0], share)), [1.0, 2.0, 4.0, 1.25]);
    }

    /// With 200 hits in 400 queries the standard error is 2.5 %, so the interval is 50 ± 4.9.
    #[test]
    fn the_interval_of_a_share_is_near_the_normal_one() {
        let values: Vec<f64> = (0..400u32).map(|query| f64::from(100 * (query % 2))).collect();
        let groups: Vec<usize> = (0..400).collect();
        let measure = QueryValues { values: &values, groups: &groups };
        let (low, high) = bootstrap_interval(&[measure], 400, 20_000, 0.95, 3).expect("there are queries");
        assert!((low - 45.1).abs() < 0.3 && (high - 54.9).abs() < 0.3, "{low} {high}");
        // Pairs of equal queries halve the number of independent values: the interval is wider by √2.
        let paired: Vec<f64> = (0..400u32).map(|query| f64::from(100 * (query / 2 % 2))).collect();
        let groups: Vec<usize> = (0..400).map(|query| query / 2).collect();
        let measure = QueryValues { values: &paired, groups: &groups };
        let (low, high) = bootstrap_interval(&[measure], 200, 20_000, 0.95, 3).expect("there are queries");
        assert!((low - (50.0 - 6.93)).abs() < 0.5 && (high - 56.93).abs() < 0.5, "{low} {high}");
    }

    #[test]
    fn few_swaps_are_all_enumerated() {
        let groups = [0, 1, 2, 3, 4];
        // All five differ by 1: of 32 swaps, only all and none differ as much.
        let p = randomisation_test(&[1.0; 5], &[0.0; 5], &groups, 1000, 1).expect("there are queries");
        assert_eq!(p, 2.0 / 32.0);
        // Four groups differ, with sum 3 − 1 = 2: |sum of ±1| is at least 2 in 10 of 16 swaps.
        let (one, other) = ([1.0, 1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0, 1.0]);
        assert_eq!(randomisation_test(&one, &other, &groups, 1000, 1), Some(10.0 / 16.0));
        // Two groups: +2 and +1 − 1 = 0.
        assert_eq!(randomisation_test(&one, &other, &[0, 0, 1, 1, 1], 1000, 1), Some(1.0));
        assert_eq!(randomisation_test(&one, &one, &groups, 1000, 1), Some(1.0));
        assert_eq!(randomisation_test(&[], &[], &[], 1000, 1), None);
    }

    #[test]
    fn sums_share_their_resamples() {
        let values: Vec<f64> = (0..60u32).map(|query| f64::from(query * query % 7)).collect();
        let groups: Vec<usize> = (0..60).map(|query| query / 3).collect();
        let one = QueryValues { values: &values[..30], groups: &groups[..30] };
        let other = QueryValues { values: &values[30..], groups: &groups[30..] };
        let got = bootstrap_intervals(&[one, other], &[vec![0], vec![1], vec![0, 1], vec![]], 20, 300, 0.9, 5);
        // Each resample needs queries of both, so those of one alone have others.
        let both = bootstrap_interval(&[one, other], 20, 300, 0.9, 5).expect("there are queries");
        let got = got.expect("there are queries");
        assert_eq!((got[2], got[3]), (both, (0.0, 0.0)));
        assert!(got[0].0 < got[0].1 && got[0].1 < both.1 && got[1].1 < both.1);
        let alone = bootstrap_interval(&[one], 10, 300, 0.9, 5).expect("there are queries");
        assert!((alone.0 - got[0].0).abs() < 0.3 && (alone.1 - got[0].1).abs() < 0.3, "{alone:?} {got:?}");
    }

    /// With many groups swaps are random: p is near that of the sign test.
    #[test]
    fn random_swaps_are_near_all_swaps() {
        let groups: Vec<usize> = (0..100).collect();
        let one: Vec<f64> = (0..100u32).map(|query| f64::from(u8::from(query < 60))).collect();
        let other: Vec<f64> = one.iter().map(|hit| 1.0 - hit).collect();
        // The probability that 100 fair coins show heads at least 60 or at most 40 times is 0.0569.
        let p = randomisation_test(&one, &other, &groups, 100_000, 5).expect("there are queries");
        assert!((p - 0.0569).abs() < 0.003, "{p}");
        let same = randomisation_test(&one, &other, &groups, 100_000, 5);
        assert_eq!(same, Some(p));
    }

    fn interval(folds: &[FoldRankings<'_>]) -> Option<(f64, f64)> {
        hs_sum_interval(folds, &CUTOFFS)
    }

    fn fold<'l>(directions: &[RankedLists<'l>], images: usize) -> FoldRankings<'l> {
        FoldRankings { directions: directions.to_vec(), images }
    }

    #[test]
    fn the_interval_is_around_the_hs_sum() {
        let lists: Vec<Vec<usize>> = (0..40).map(|q| (0..10).map(|i| (q * q + 3 * i) % (7 + i)).collect()).collect();
        let groups: Vec<usize> = (0..40).collect();
        let ranked = RankedLists { lists: &lists, groups: &groups, items: 20 };
        let expected: f64 = CUTOFFS
            .into_iter()
            .map(|k| {
                Hubness::of(&k_occurrences(lists.iter().map(Vec::as_slice), 20, k)).expect("items are found").skewness
            })
            .sum();
        assert!((skewness_sum(&ranked, &CUTOFFS, |_| true) - expected).abs() < 1e-12);
        let (low, high) = interval(&[fold(&[ranked], 40)]).expect("there are queries");
        assert!(
            low < expected && expected < high && (f64::midpoint(low, high) - expected).abs() < 1e-9,
            "{low} {high} {expected}"
        );
    }

    /// With two queries of one item each, N₁ of four items is (1, 1, 0, 0), with skewness 0. Without one query it is
    /// (1, 0, 0, 0), with skewness 2/√3. N₅ and N₁₀ equal N₁. So both θᵢ are equal, and the width is 0.
    #[test]
    fn the_width_is_that_of_a_jackknife_over_queries() {
        let lists = [vec![0], vec![1]];
        let ranked = RankedLists { lists: &lists, groups: &[0, 1], items: 4 };
        assert_eq!(interval(&[fold(&[ranked], 2)]), Some((0.0, 0.0)));
        // Three queries, two of which find item 0: θ is three times the skewness of N₁ = (2, 1, 0, 0). Without one
        // query N₁ is (1, 1, 0, 0), (1, 1, 0, 0) or (2, 0, 0, 0).
        let lists = [vec![0], vec![0], vec![1]];
        let ranked = RankedLists { lists: &lists, groups: &[0, 1, 2], items: 4 };
        let one = 3.0 * 2.0 / 3f64.sqrt();
        // θᵢ = 0, 0, t: the mean is t/3, the sum of squares 2·t²/9 + 4·t²/9 = 2·t²/3, the standard error √(2/3 · 2/3) ·
        // t = 2·t/3.
        let (low, high) = interval(&[fold(&[ranked], 3)]).expect("three groups");
        assert!((high - low - 2.0 * HALF_WIDTH * 2.0 * one / 3.0).abs() < 1e-9, "{low} {high}");
    }

    /// The two cases above as folds. N = (1, 1, 0, 0) has skewness 0 and a standard error of 0. N = (2, 1, 0, 0) has
    /// deviations 5/4, 1/4, −3/4, −3/4, so its skewness is 9/32 / (11/16)^1.5, and the error is 2·t/3. The error of the
    /// mean is half of that.
    #[test]
    fn the_variance_of_a_mean_over_folds_by_hand() {
        let (first, second) = ([vec![0], vec![1]], [vec![0], vec![0], vec![1]]);
        let first = RankedLists { lists: &first, groups: &[0, 1], items: 4 };
        let second = RankedLists { lists: &second, groups: &[0, 1, 2], items: 4 };
        let (low, high) = interval(&[fold(&[first], 2), fold(&[second], 3)]).expect("two folds");
        let t = 3.0 * 2.0 / 3f64.sqrt();
        assert!((high - low - 2.0 * HALF_WIDTH * t / 3.0).abs() < 1e-9, "{low} {high}");
        let skewness = 9.0 / 32.0 / (11.0 / 16.0f64).powf(1.5);
        assert!((f64::midpoint(low, high) - 3.0 * skewness / 2.0).abs() < 1e-9, "{low} {high}");
        // Twice the same fold: the error decreases by √2.
        let (low, high) = interval(&[fold(&[second], 3), fold(&[second], 3)]).expect("two folds");
        assert!((high - low - 2.0 * HALF_WIDTH * 2.0 * t / 3.0 / 2f64.sqrt()).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn one_group_has_no_interval() {
        let lists = [vec![0, 1], vec![0, 2]];
        let ranked = RankedLists { lists: &lists, groups: &[0, 0], items: 3 };
        assert_eq!([1, 0].map(|images| interval(&[fold(&[ranked], images)])), [None, None]);
        assert_eq!((interval(&[]), interval(&[fold(&[ranked], 2), fold(&[ranked], 1)])), (None, None));
    }
}
