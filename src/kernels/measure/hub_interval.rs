//! How far hs-sum could lie elsewhere, had other queries been drawn: the jackknife that leaves out a group at a time (Efron and
//! Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11).
//!
//! No bootstrap: a query that is drawn twice counts its items twice, which makes hubs of its own.

/// Groups that are left out one after the other, at most.
const GROUPS: usize = 200;
/// Half the width of a 95 % interval, in standard errors.
const WIDTH: f64 = 1.959_963_984_540_054;

/// Results of the queries of one direction.
#[derive(Debug, Clone, Copy)]
pub struct FoundLists<'l> {
    /// For every query its items, best first.
    pub lists: &'l [Vec<usize>],
    /// The group of each query, such as its image: what is left out together.
    pub groups: &'l [usize],
    /// How many items there are.
    pub items: usize,
}

/// A pool of its own.
#[derive(Debug, Clone)]
pub struct FoundFold<'l> {
    /// What was found both ways.
    pub directions: Vec<FoundLists<'l>>,
    /// How many images there are; every group of a direction is below.
    pub images: usize,
}

/// The 95 % interval of hs-sum, the sum of the skewness of Nₖ over directions and cut-offs, as the mean over `folds`:
/// `θ̄ ± 1.96·√(Σ V) / F`, with V of each of F folds by the jackknife. Folds have no query in common, so variances add up.
///
/// # Shapes
/// - result: (low, high); `None` when there are no folds, or one of them has fewer than two images
///
/// # Cost
/// For each fold `O(min(images, 200) · (queries · k + items))` time, with k the largest cut-off.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "folds are few")]
pub fn hs_sum_interval(folds: &[FoundFold<'_>], cutoffs: &[usize]) -> Option<(f64, f64)> {
    let each: Option<Vec<(f64, f64)>> = folds.iter().map(|fold| jackknife(fold, cutoffs)).collect();
    let (count, each) = (folds.len() as f64, each.filter(|each| !each.is_empty())?);
    let mean = each.iter().map(|(sum, _)| sum).sum::<f64>() / count;
    let half = WIDTH * each.iter().map(|(_, variance)| variance).sum::<f64>().sqrt() / count;
    Some((mean - half, mean + half))
}

/// hs-sum of a fold, θ, and its variance `(g−1)/g · Σ(θᵢ − θ̄)²`, where θᵢ is the sum without one of g groups of queries: images,
/// of which more than 200 are put together, evenly.
#[expect(clippy::cast_precision_loss, reason = "groups are few")]
fn jackknife(fold: &FoundFold<'_>, cutoffs: &[usize]) -> Option<(f64, f64)> {
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

/// The sum over ascending cut-offs of the skewness of Nₖ, of the queries whose group counts.
fn skewness_sum(of: &FoundLists<'_>, cutoffs: &[usize], counts_as: impl Fn(usize) -> bool) -> f64 {
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
    use super::super::recall::CUTOFFS;
    use super::*;

    fn interval(folds: &[FoundFold<'_>]) -> Option<(f64, f64)> {
        hs_sum_interval(folds, &CUTOFFS)
    }

    fn fold<'l>(directions: &[FoundLists<'l>], images: usize) -> FoundFold<'l> {
        FoundFold { directions: directions.to_vec(), images }
    }

    #[test]
    fn the_skewness_is_that_of_the_measure() {
        let lists: Vec<Vec<usize>> = (0..40).map(|q| (0..10).map(|i| (q * q + 3 * i) % (7 + i)).collect()).collect();
        let groups: Vec<usize> = (0..40).collect();
        let of = FoundLists { lists: &lists, groups: &groups, items: 20 };
        let wanted: f64 = CUTOFFS
            .into_iter()
            .map(|k| Hubs::of(&occurrences(lists.iter().map(Vec::as_slice), 20, k)).expect("items are found").skewness)
            .sum();
        assert!((skewness_sum(&of, &CUTOFFS, |_| true) - wanted).abs() < 1e-12);
        let (low, high) = interval(&[fold(&[of], 40)]).expect("there are queries");
        assert!(
            low < wanted && wanted < high && (f64::midpoint(low, high) - wanted).abs() < 1e-9,
            "{low} {high} {wanted}"
        );
    }

    /// Of two queries with one item each, N₁ is (1, 1, 0, 0) of four items, and (1, 0, 0, 0) without one of them; N₅ and N₁₀ are
    /// the same. The skewness of the latter is 2/√3 and of the former 0; so both θᵢ are equal, and the width is 0.
    #[test]
    fn the_width_is_that_of_a_jackknife_over_queries() {
        let lists = [vec![0], vec![1]];
        let of = FoundLists { lists: &lists, groups: &[0, 1], items: 4 };
        assert_eq!(interval(&[fold(&[of], 2)]), Some((0.0, 0.0)));
        // Three queries, two of which find item 0: θ of (2, 1, 0, 0) is 3·skew; without a query (1, 1, 0, 0), (1, 1, 0, 0), (2, 0, 0, 0).
        let lists = [vec![0], vec![0], vec![1]];
        let of = FoundLists { lists: &lists, groups: &[0, 1, 2], items: 4 };
        let one = 3.0 * 2.0 / 3f64.sqrt();
        // θᵢ = 0, 0, t: mean t/3, squares 2·t²/9 + 4·t²/9 = 2·t²/3; the error is √(2/3 · 2/3) · t = 2·t/3.
        let (low, high) = interval(&[fold(&[of], 3)]).expect("three groups");
        assert!((high - low - 2.0 * WIDTH * 2.0 * one / 3.0).abs() < 1e-9, "{low} {high}");
    }

    /// The two cases above as folds: N of (1, 1, 0, 0) has skewness 0 and an error of 0; (2, 1, 0, 0) has deviations 5/4, 1/4, −3/4,
    /// −3/4, so 9/32 / (11/16)^1.5, and the error 2·t/3. Of the mean of both the error is half of that.
    #[test]
    fn the_variance_of_a_mean_over_folds_by_hand() {
        let (first, second) = ([vec![0], vec![1]], [vec![0], vec![0], vec![1]]);
        let first = FoundLists { lists: &first, groups: &[0, 1], items: 4 };
        let second = FoundLists { lists: &second, groups: &[0, 1, 2], items: 4 };
        let (low, high) = interval(&[fold(&[first], 2), fold(&[second], 3)]).expect("two folds");
        let t = 3.0 * 2.0 / 3f64.sqrt();
        assert!((high - low - 2.0 * WIDTH * t / 3.0).abs() < 1e-9, "{low} {high}");
        let skewness = 9.0 / 32.0 / (11.0 / 16.0f64).powf(1.5);
        assert!((f64::midpoint(low, high) - 3.0 * skewness / 2.0).abs() < 1e-9, "{low} {high}");
        // Twice the same fold: the error is less by √2.
        let (low, high) = interval(&[fold(&[second], 3), fold(&[second], 3)]).expect("two folds");
        assert!((high - low - 2.0 * WIDTH * 2.0 * t / 3.0 / 2f64.sqrt()).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn one_group_has_no_interval() {
        let lists = [vec![0, 1], vec![0, 2]];
        let of = FoundLists { lists: &lists, groups: &[0, 0], items: 3 };
        assert_eq!([1, 0].map(|images| interval(&[fold(&[of], images)])), [None, None]);
        assert_eq!((interval(&[]), interval(&[fold(&[of], 2), fold(&[of], 1)])), (None, None));
    }
}
