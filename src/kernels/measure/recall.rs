//! Recall at K, median and mean rank, and their sum of recalls, as VSE++ and its heirs report them.
//!
//! Faghri et al., "VSE++: Improving Visual-Semantic Embeddings with Hard Negatives", BMVC 2018; the rank statistics are
//! those of its published code.

use super::metric::{Add, Matches, Metric, Name, Unit};

/// The cut-offs of the field's tables.
#[cfg(test)]
pub(super) const CUTOFFS: [usize; 3] = [1, 5, 10];

/// How well one direction of retrieval did.
#[derive(Debug, Clone, PartialEq)]
pub struct Retrieval {
    /// Percentage of queries whose best match is among the first K items, for each cut-off K.
    pub recalls: Vec<f64>,
    /// Median rank, from 1.
    pub medr: f64,
    /// Mean rank, from 1.
    pub meanr: f64,
}

impl Retrieval {
    /// The measures of queries with these ranks (from 0); `None` when there are no queries.
    #[must_use]
    pub fn of(ranks: &[usize], cutoffs: &[usize]) -> Option<Self> {
        let recalls = cutoffs.iter().map(|&k| recall_at(ranks, k)).collect::<Option<_>>()?;
        Some(Self { recalls, medr: median_rank(ranks)?, meanr: mean_rank(ranks)? })
    }

    /// The mean of every measure over folds, all of the same cut-offs; `None` when there are none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "folds are few")]
    pub fn mean(folds: &[Self]) -> Option<Self> {
        let mean = |get: &dyn Fn(&Self) -> f64| folds.iter().map(get).sum::<f64>() / folds.len() as f64;
        Some(Self {
            recalls: (0..folds.first()?.recalls.len()).map(|cutoff| mean(&|fold| fold.recalls[cutoff])).collect(),
            medr: mean(&|fold| fold.medr),
            meanr: mean(&|fold| fold.meanr),
        })
    }
}

/// rsum: the recalls at all cut-offs in both directions, added up. At most 600 for the field's 1, 5 and 10.
#[must_use]
pub fn rsum(i2t: &Retrieval, t2i: &Retrieval) -> f64 {
    i2t.recalls.iter().sum::<f64>() + t2i.recalls.iter().sum::<f64>()
}

/// `100·#{rank < k} / #queries`, percent; `None` when there are no queries.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "queries are far below 2⁵³")]
pub fn recall_at(ranks: &[usize], k: usize) -> Option<f64> {
    let hits = ranks.iter().filter(|&&rank| rank < k).count();
    (!ranks.is_empty()).then(|| 100.0 * hits as f64 / ranks.len() as f64)
}

/// `⌊median(rank)⌋ + 1`, where ranks are from 0 and the median of an even number is the mean of the two in the middle;
/// `None` when there are no queries.
///
/// # Cost
/// `O(n)` time, a copy of the ranks.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "ranks are far below 2⁵³")]
pub fn median_rank(ranks: &[usize]) -> Option<f64> {
    if ranks.is_empty() {
        return None;
    }
    let mut ranks = ranks.to_vec();
    let (even, middle) = (ranks.len().is_multiple_of(2), ranks.len() / 2);
    let (below, &mut upper, _) = ranks.select_nth_unstable(middle);
    let median = match below.iter().max() {
        Some(&lower) if even => lower.midpoint(upper),
        _ => upper,
    };
    Some(median as f64 + 1.0)
}

/// `mean(rank) + 1`, where ranks are from 0; `None` when there are no queries.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "sums of ranks are far below 2⁵³")]
pub fn mean_rank(ranks: &[usize]) -> Option<f64> {
    (!ranks.is_empty()).then(|| ranks.iter().map(|&rank| rank as f64).sum::<f64>() / ranks.len() as f64 + 1.0)
}

/// `recall`: whether a match is among the first K, a query's share of [`recall_at`].
#[derive(Debug)]
pub struct Recall;

impl Metric for Recall {
    fn of_matches(&self, matches: &Matches<'_>, add: Add<'_>) {
        for &k in matches.cutoffs.iter().filter(|_| matches.relevant > 0) {
            let hit = matches.hits.iter().take(k).any(|&hit| hit);
            add(Name::new("recall", Unit::Proportion).at(k), f64::from(u8::from(hit)));
        }
    }
}

/// `medr`: [`median_rank`].
#[derive(Debug)]
pub struct MedianRank;

impl Metric for MedianRank {
    fn of_ranks(&self, ranks: &[usize], add: Add<'_>) {
        if let Some(rank) = median_rank(ranks) {
            add(Name::new("medr", Unit::Number), rank);
        }
    }
}

/// `meanr`: [`mean_rank`].
#[derive(Debug)]
pub struct MeanRank;

impl Metric for MeanRank {
    fn of_ranks(&self, ranks: &[usize], add: Add<'_>) {
        if let Some(rank) = mean_rank(ranks) {
            add(Name::new("meanr", Unit::Number), rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn recalls_median_and_mean_of_six_ranks() {
        assert_eq!(Retrieval::of(&[], &CUTOFFS), None);
        assert_eq!(Retrieval::mean(&[]), None);
        let one = Retrieval { recalls: vec![100.0; 3], medr: 1.0, meanr: 1.0 };
        assert_eq!(Retrieval::of(&[0], &CUTOFFS), Some(one.clone()));
        // Ranks from 0: 0 1 4 5 9 10. Median (4 + 5) / 2 = 4.5, floored 4, from 1: 5. Mean 29 / 6.
        let got = Retrieval::of(&[10, 0, 5, 1, 9, 4], &CUTOFFS).expect("six queries");
        assert_eq!((&got.recalls[..2], got.medr), (&[100.0 / 6.0, 50.0][..], 5.0));
        assert!((got.recalls[2] - 500.0 / 6.0).abs() < 1e-12 && (got.meanr - (29.0 / 6.0 + 1.0)).abs() < 1e-12);
        // At other cut-offs: one of six below 1, three below 5, all below 20.
        assert_eq!(Retrieval::of(&[10, 0, 5, 1, 9, 4], &[5, 20]).expect("six queries").recalls, [50.0, 100.0]);
        assert_eq!(median_rank(&[7, 3, 100]), Some(8.0));
        assert_eq!(median_rank(&[0, 1]), Some(1.0));
        assert!((rsum(&one, &got) - (300.0 + 50.0 + 600.0 / 6.0)).abs() < 1e-9);
    }

    #[test]
    fn every_statistic_is_averaged_over_folds() {
        let fold = |r, m| Retrieval { recalls: vec![r, r + 1.0], medr: m, meanr: m + 0.5 };
        let mean = Retrieval::mean(&[fold(10.0, 1.0), fold(20.0, 2.0)]).expect("two folds");
        assert_eq!(mean, Retrieval { recalls: vec![15.0, 16.0], medr: 1.5, meanr: 2.0 });
    }

    #[test]
    fn recall_grows_with_k_and_ends_at_a_hundred() {
        let mut sample = Sample::new(3, &[]);
        for _ in 0..50 {
            let n = 1 + sample.below(40);
            let ranks: Vec<usize> = (0..n).map(|_| sample.below(30)).collect();
            let curve: Vec<f64> = (0..=30).map(|k| recall_at(&ranks, k).expect("there are queries")).collect();
            assert_eq!((curve[0], curve[30]), (0.0, 100.0));
            assert!(curve.is_sorted());
        }
    }
}
