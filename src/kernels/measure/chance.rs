//! Expected measures of a random ranking.

use super::recall::RecallSummary;

/// Expected measures of a random ranking of `n_items` items, `positives` of which match each query.
///
/// `R@K = 100·(1 − C(n−p, K) / C(n, K))`, mean rank `(n + 1) / (p + 1)`, median rank the smallest `m` with `R@m` at
/// least 50; ranks are from 1.
///
/// # Edge cases
/// `None` if `positives` is 0 or larger than `n_items`.
///
/// # Cost
/// `O(n_items)` time at most.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub fn expected_by_chance(n_items: usize, positives: usize, cutoffs: &[usize]) -> Option<RecallSummary> {
    if positives == 0 || positives > n_items {
        return None;
    }
    let recall = |&k: &usize| 100.0 * (1.0 - misses(n_items, positives).take(k).last().unwrap_or(1.0));
    let recalls = cutoffs.iter().map(recall).collect();
    let medr = 1 + misses(n_items, positives).take_while(|&miss| miss > 0.5).count();
    Some(RecallSummary { recalls, medr: medr as f64, meanr: (n_items + 1) as f64 / (positives + 1) as f64 })
}

/// Probabilities that none of the first 1, 2, … `n_items` items matches.
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
fn misses(n_items: usize, positives: usize) -> impl Iterator<Item = f64> {
    (0..n_items).scan(1.0, move |miss, drawn| {
        *miss *= (n_items - drawn).saturating_sub(positives) as f64 / (n_items - drawn) as f64;
        Some(*miss)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_match_in_a_thousand_and_two_in_four() {
        // One of 1,000: R@K is K/1000, and both middle ranks are 500.
        let one = expected_by_chance(1000, 1, &[1, 5, 10]).expect("one matches");
        for (got, wanted) in one.recalls.iter().zip([0.1, 0.5, 1.0]) {
            assert!((got - wanted).abs() < 1e-9);
        }
        assert_eq!((one.medr, one.meanr), (500.0, 500.5));
        // Two of four: the first item hits with 1/2; the best match has rank 1, 2 or 3 with 1/2, 1/3, 1/6: mean 5/3.
        let two = expected_by_chance(4, 2, &[1, 5]).expect("two match");
        assert_eq!((two.recalls, two.medr), (vec![50.0, 100.0], 1.0));
        assert!((two.meanr - 5.0 / 3.0).abs() < 1e-12);
        assert_eq!([0, 4].map(|positives| expected_by_chance(3, positives, &[1])), [None, None]);
    }
}
