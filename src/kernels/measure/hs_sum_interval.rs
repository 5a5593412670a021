//! Confidence interval of hs-sum by the delete-a-group jackknife (Efron and Tibshirani, "An Introduction to the
//! Bootstrap", 1993, chapter 11).
//!
//! The bootstrap is not suitable: a query that is drawn twice counts its items twice, which creates hubs.

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
        fold.directions.iter().map(|of| skewness_sum(of, cutoffs, |image| Some(image % groups) != left_out)).sum()
    };
    let without: Vec<f64> = (0..groups).map(|group| sum(Some(group))).collect();
    let count = groups as f64;
    let mean = without.iter().sum::<f64>() / count;
    let squares: f64 = without.iter().map(|value| (value - mean).powi(2)).sum();
    Some((sum(None), (count - 1.0) / count * squares))
}

/// Sum of the skewness of Nₖ over ascending cut-offs, for the queries whose group satisfies `counts_as`.
fn skewness_sum(of: &RankedLists<'_>, cutoffs: &[usize], counts_as: impl Fn(usize) -> bool) -> f64 {
    let (mut counts, mut sum, mut from) = (vec![0u32; of.items], 0.0, 0);
    for &k in cutoffs {
        for (list, _) in of.lists.iter().zip(of.groups).filter(|(_, group)| counts_as(**group)) {
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
        let of = RankedLists { lists: &lists, groups: &groups, items: 20 };
        let wanted: f64 = CUTOFFS
            .into_iter()
            .map(|k| {
                Hubness::of(&k_occurrences(lists.iter().map(Vec::as_slice), 20, k)).expect("items are found").skewness
            })
            .sum();
        assert!((skewness_sum(&of, &CUTOFFS, |_| true) - wanted).abs() < 1e-12);
        let (low, high) = interval(&[fold(&[of], 40)]).expect("there are queries");
        assert!(
            low < wanted && wanted < high && (f64::midpoint(low, high) - wanted).abs() < 1e-9,
            "{low} {high} {wanted}"
        );
    }

    /// With two queries of one item each, N₁ of four items is (1, 1, 0, 0), with skewness 0. Without one query it is
    /// (1, 0, 0, 0), with skewness 2/√3. N₅ and N₁₀ equal N₁. So both θᵢ are equal, and the width is 0.
    #[test]
    fn the_width_is_that_of_a_jackknife_over_queries() {
        let lists = [vec![0], vec![1]];
        let of = RankedLists { lists: &lists, groups: &[0, 1], items: 4 };
        assert_eq!(interval(&[fold(&[of], 2)]), Some((0.0, 0.0)));
        // Three queries, two of which find item 0: θ is three times the skewness of N₁ = (2, 1, 0, 0). Without one
        // query N₁ is (1, 1, 0, 0), (1, 1, 0, 0) or (2, 0, 0, 0).
        let lists = [vec![0], vec![0], vec![1]];
        let of = RankedLists { lists: &lists, groups: &[0, 1, 2], items: 4 };
        let one = 3.0 * 2.0 / 3f64.sqrt();
        // θᵢ = 0, 0, t: the mean is t/3, the sum of squares 2·t²/9 + 4·t²/9 = 2·t²/3, the standard error √(2/3 · 2/3) ·
        // t = 2·t/3.
        let (low, high) = interval(&[fold(&[of], 3)]).expect("three groups");
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
        let of = RankedLists { lists: &lists, groups: &[0, 0], items: 3 };
        assert_eq!([1, 0].map(|images| interval(&[fold(&[of], images)])), [None, None]);
        assert_eq!((interval(&[]), interval(&[fold(&[of], 2), fold(&[of], 1)])), (None, None));
    }
}
