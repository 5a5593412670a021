//! Statistics of runs that differ only in their seed: mean, deviation, interval, and paired tests between two settings.
//!
//! Student, "The probable error of a mean", Biometrika 6, 1908 (t interval and paired t-test); Fisher, "The Design of
//! Experiments", 1935, section 21 (sign-flip randomisation). Papers on retrieval usually print one run of each setting,
//! for which none of this can be said.

use statrs::distribution::{ContinuousCDF, StudentsT};

use pairloom_kernels::measure::bootstrap::randomisation_test;

/// Confidence level of intervals.
const LEVEL: f64 = 0.95;
/// Largest number of seeds for which all sign flips are enumerated: about a million.
const MAX_ENUMERATED: usize = 20;
/// Number of random sign flips for more seeds; with the observed differences 10⁵.
const RANDOM_FLIPS: usize = 99_999;
/// Seed of random sign flips, fixed so that the same results give the same numbers.
const FLIP_SEED: u64 = 0;

/// Mean of a measure over runs that differ only in their seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeedStatistics {
    /// Number of runs, n.
    pub n: usize,
    /// Mean, `x̄`.
    pub mean: f64,
    /// Sample standard deviation, `s = √(Σ (x − x̄)² / (n − 1))`; `None` for one run.
    pub standard_deviation: Option<f64>,
    /// 95 % confidence interval of the mean (low, high), `x̄ ± t·s/√n` with the 97.5 % point t of Student's distribution
    /// with n − 1 degrees of freedom; `None` for one run.
    ///
    /// It assumes values from a normal distribution. It covers the choice of the seed, not that of the test images.
    pub ci95: Option<(f64, f64)>,
}

impl SeedStatistics {
    /// Statistics of the values of all runs; `None` without runs, or if a value is not finite.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "runs are few")]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let n = values.len() as f64;
        // Deviations from the first value: a large mean costs no precision, and equal values have a deviation of 0.
        let from_first = values.iter().map(|value| value - values[0]);
        let mean_from_first = from_first.clone().sum::<f64>() / n;
        let mean = values[0] + mean_from_first;
        let squares: f64 = from_first.map(|value| (value - mean_from_first).powi(2)).sum();
        let standard_deviation = (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
        let half = standard_deviation.and_then(|deviation| Some(t_point(n - 1.0)? * deviation / n.sqrt()));
        Some(Self { n: values.len(), mean, standard_deviation, ci95: half.map(|half| (mean - half, mean + half)) })
    }
}

/// Paired tests of the difference between two settings that were run with the same seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedSeedTest {
    /// Statistics of the differences between the runs of one seed, value minus baseline.
    pub difference: SeedStatistics,
    /// Statistic of the paired t-test, `t = d̄ / (s/√n)`. Infinite if all differences are equal and not 0; 0 if all are 0.
    pub t: f64,
    /// Two-sided p-value of the paired t-test, with n − 1 degrees of freedom.
    pub t_test_p: f64,
    /// Two-sided p-value of the sign-flip randomisation test: the share of the 2ⁿ sign patterns of the differences whose
    /// sum is at least as far from 0 as the observed one. It is exact and assumes no distribution. It cannot be below
    /// 2/2ⁿ: 0.0625 for five seeds. From 21 seeds on, 99,999 random patterns are drawn, and p is
    /// (1 + as far) / 100,000.
    pub sign_flip_p: f64,
}

impl PairedSeedTest {
    /// Tests of the differences between `values` and `baseline`, whose runs have the same seeds in the same order; `None`
    /// if their numbers differ, there are fewer than two, or one is not finite.
    ///
    /// # Cost
    /// `O(n·2ⁿ)` time up to 20 seeds, at most 20 million additions.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "runs are few")]
    pub fn of(values: &[f64], baseline: &[f64]) -> Option<Self> {
        if values.len() != baseline.len() {
            return None;
        }
        let differences: Vec<f64> = values.iter().zip(baseline).map(|(value, baseline)| value - baseline).collect();
        let difference = SeedStatistics::of(&differences)?;
        let error = difference.standard_deviation? / (difference.n as f64).sqrt();
        let t = if difference.mean == 0.0 { 0.0 } else { difference.mean / error };
        let t_test_p = 2.0 * student(difference.n as f64 - 1.0)?.sf(t.abs());
        let runs: Vec<usize> = (0..values.len()).collect();
        let flips = if values.len() <= MAX_ENUMERATED { 1 << values.len() } else { RANDOM_FLIPS };
        let sign_flip_p = randomisation_test(values, baseline, &runs, flips, FLIP_SEED)?;
        Some(Self { difference, t, t_test_p, sign_flip_p })
    }
}

/// 97.5 % point of Student's distribution: half the width of the interval, in standard errors.
fn t_point(degrees: f64) -> Option<f64> {
    Some(student(degrees)?.inverse_cdf(f64::midpoint(1.0, LEVEL)))
}

fn student(degrees: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, degrees).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-10 * expected.abs().max(1e-3), "{got}, expected {expected}");
    }

    /// `tests/golden/over_seeds.txt`: scipy's `t.interval`, `ttest_rel` and `permutation_test`.
    #[test]
    fn statistics_and_tests_are_scipys() {
        let lines = include_str!("../../tests/golden/over_seeds.txt").lines();
        let mut cases = 0;
        for line in lines {
            let (name, numbers) = line.split_once(' ').expect("a name");
            let numbers: Vec<f64> = numbers.split(' ').map(|number| number.parse().expect("a number")).collect();
            let n = (numbers.len() - 7) / 2;
            let (values, baseline, expected) = (&numbers[..n], &numbers[n..2 * n], &numbers[2 * n..]);
            let statistics = SeedStatistics::of(values).expect("finite values");
            let (low, high) = statistics.ci95.expect("several values");
            let test = PairedSeedTest::of(values, baseline).expect("pairs");
            let deviation = statistics.standard_deviation.expect("several values");
            let got = [statistics.mean, deviation, low, high, test.t, test.t_test_p, test.sign_flip_p];
            // scipy counts sums that are equal up to rounding as at least as far, and so do we.
            got.into_iter().zip(expected).for_each(|(got, &expected)| close(got, expected));
            assert_eq!(test.difference.n, n, "{name}");
            cases += 1;
        }
        assert_eq!(cases, 6);
    }

    /// Differences 1, 2, 3: mean 2, deviation 1, t = 2√3. With two degrees of freedom the distribution function is
    /// (1 + t/√(2 + t²)) / 2, so p = 1 − √(12/14). Of eight sign patterns only two have a sum of ±6.
    #[test]
    fn three_pairs_by_hand() {
        let test = PairedSeedTest::of(&[11.0, 22.0, 33.0], &[10.0, 20.0, 30.0]).expect("pairs");
        close(test.t, 2.0 * 3f64.sqrt());
        close(test.t_test_p, 1.0 - (12.0f64 / 14.0).sqrt());
        assert_eq!(
            (test.sign_flip_p, test.difference.mean, test.difference.standard_deviation),
            (0.25, 2.0, Some(1.0))
        );
    }

    #[test]
    fn equal_differences_have_no_deviation() {
        let same = PairedSeedTest::of(&[0.1, 0.7, 0.3], &[0.1, 0.7, 0.3]).expect("pairs");
        assert_eq!((same.t, same.t_test_p, same.sign_flip_p), (0.0, 1.0, 1.0));
        let more = PairedSeedTest::of(&[2.0, 3.0, 5.0, 9.0, 1.0], &[1.0, 2.0, 4.0, 8.0, 0.0]).expect("pairs");
        assert_eq!((more.t, more.t_test_p, more.sign_flip_p), (f64::INFINITY, 0.0, 0.0625));
        assert_eq!(more.difference.ci95, Some((1.0, 1.0)));
    }

    #[test]
    fn runs_that_cannot_be_compared_have_no_test() {
        let one = SeedStatistics::of(&[7.5]).expect("one run");
        assert_eq!((one.n, one.mean, one.standard_deviation, one.ci95), (1, 7.5, None, None));
        assert_eq!((SeedStatistics::of(&[]), SeedStatistics::of(&[1.0, f64::NAN])), (None, None));
        assert_eq!(PairedSeedTest::of(&[1.0], &[2.0]), None);
        assert_eq!(PairedSeedTest::of(&[1.0, 2.0], &[2.0]), None);
        assert_eq!(PairedSeedTest::of(&[1.0, f64::INFINITY], &[2.0, 3.0]), None);
        assert_eq!(PairedSeedTest::of(&[], &[]), None);
    }

    /// Random sign flips of many seeds are near the t-test, which is right for values of a normal distribution.
    #[test]
    fn many_seeds_have_random_flips() {
        let values: Vec<f64> = (0..30u32).map(|seed| f64::from(seed * seed % 11).sqrt()).collect();
        let baseline: Vec<f64> = (0..30u32).map(|seed| f64::from((seed * 7 + 3) % 10).sqrt()).collect();
        let test = PairedSeedTest::of(&values, &baseline).expect("pairs");
        assert!((test.sign_flip_p - test.t_test_p).abs() < 0.02, "{test:?}");
        assert_eq!(PairedSeedTest::of(&values, &baseline), Some(test));
    }
}
