//! Recall at K, median rank, mean rank, and rsum, as in VSE++ and later papers.
//!
//! Faghri et al., "VSE++: Improving Visual-Semantic Embeddings with Hard Negatives", BMVC 2018; the rank statistics are
//! those of its published code.

use super::metric::{Metric, MetricName, MetricUnit, RankedMatches, RecordValue};

/// The usual cut-offs.
#[cfg(test)]
pub(super) const CUTOFFS: [usize; 3] = [1, 5, 10];

/// Recalls and rank statistics of one direction of retrieval.
#[derive(Debug, Clone, PartialEq)]
pub struct RecallSummary {
    /// Percentage of queries whose best match is among the first K items, for each cut-off K.
    pub recalls: Vec<f64>,
    /// Median rank, from 1.
    pub medr: f64,
    /// Mean rank, from 1.
    pub meanr: f64,
}

impl RecallSummary {
    /// Measures of queries whose best matches have these ranks (from 0); `None` if there are no queries.
    #[must_use]
    pub fn of(ranks: &[usize], cutoffs: &[usize]) -> Option<Self> {
        let recalls = cutoffs.iter().map(|&k| recall_at(ranks, k)).collect::<Option<_>>()?;
        Some(Self { recalls, medr: median_rank(ranks)?, meanr: mean_rank(ranks)? })
    }

    /// Mean of every measure over folds with the same cut-offs; `None` if there are no folds.
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

/// rsum: the sum of the recalls at all cut-offs in both directions. At most 600 for the usual cut-offs 1, 5 and 10.
#[must_use]
pub fn rsum(i2t: &RecallSummary, t2i: &RecallSummary) -> f64 {
    i2t.recalls.iter().sum::<f64>() + t2i.recalls.iter().sum::<f64>()
}

/// Recall at `k` in percent, `100·#{rank < k} / #queries`; `None` if there are no queries.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "queries are far below 2⁵³")]
pub fn recall_at(ranks: &[usize], k: usize) -> Option<f64> {
    let hits = ranks.iter().filter(|&&rank| rank < k).count();
    (!ranks.is_empty()).then(|| 100.0 * hits as f64 / ranks.len() as f64)
}

/// Median rank, `⌊median(rank)⌋ + 1`, where ranks are from 0. The median of an even number of ranks is the mean of the
/// two middle ones. `None` if there are no queries.
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

/// Mean rank, `mean(rank) + 1`, where ranks are from 0; `None` if there are no queries.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "sums of ranks are far below 2⁵³")]
pub fn mean_rank(ranks: &[usize]) -> Option<f64> {
    (!ranks.is_empty()).then(|| ranks.iter().map(|&rank| rank as f64).sum::<f64>() / ranks.len() as f64 + 1.0)
}

/// Metric `recall`: 1 for a query with a match among the first K items, otherwise 0; see [`recall_at`].
#[derive(Debug)]
pub struct Recall;

impl Metric for Recall {
    fn measure_matches(&self, matches: &RankedMatches<'_>, add: RecordValue<'_>) {
        for &k in matches.cutoffs.iter().filter(|_| matches.relevant > 0) {
            let hit = matches.hits.iter().take(k).any(|&hit| hit);
            add(MetricName::new("recall", MetricUnit::Proportion).at_cutoff(k), f64::from(u8::from(hit)));
        }
    }
}

/// Metric `medr`: [`median_rank`].
#[derive(Debug)]
pub struct MedianRank;

impl Metric for MedianRank {
    fn measure_ranks(&self, ranks: &[usize], add: RecordValue<'_>) {
        if let Some(rank) = median_rank(ranks) {
            add(MetricName::new("medr", MetricUnit::Number), rank);
        }
    }
}

/// Metric `meanr`: [`mean_rank`].
#[derive(Debug)]
pub struct MeanRank;

impl Metric for MeanRank {
    fn measure_ranks(&self, ranks: &[usize], add: RecordValue<'_>) {
        if let Some(rank) = mean_rank(ranks) {
            add(MetricName::new("meanr", MetricUnit::Number), rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    #[test]
    fn recalls_median_and_mean_of_six_ranks() {
        assert_eq!(RecallSummary::of(&[], &CUTOFFS), None);
        assert_eq!(RecallSummary::mean(&[]), None);
        let one = RecallSummary { recalls: vec![100.0; 3], medr: 1.0, meanr: 1.0 };
        assert_eq!(RecallSummary::of(&[0], &CUTOFFS), Some(one.clone()));
        // Ranks from 0: 0 1 4 5 9 10. Median (4 + 5) / 2 = 4.5, floored 4, from 1: 5. Mean 29 / 6.
        let got = RecallSummary::of(&[10, 0, 5, 1, 9, 4], &CUTOFFS).expect("six queries");
        assert_eq!((&got.recalls[..2], got.medr), (&[100.0 / 6.0, 50.0][..], 5.0));
        assert!((got.recalls[2] - 500.0 / 6.0).abs() < 1e-12 && (got.meanr - (29.0 / 6.0 + 1.0)).abs() < 1e-12);
        // At other cut-offs: three of six ranks are below 5, all are below 20.
        assert_eq!(RecallSummary::of(&[10, 0, 5, 1, 9, 4], &[5, 20]).expect("six queries").recalls, [50.0, 100.0]);
        assert_eq!(median_rank(&[7, 3, 100]), Some(8.0));
        assert_eq!(median_rank(&[0, 1]), Some(1.0));
        assert!((rsum(&one, &got) - (300.0 + 50.0 + 600.0 / 6.0)).abs() < 1e-9);
    }

    #[test]
    fn every_measure_is_averaged_over_folds() {
        let fold = |r, m| RecallSummary { recalls: vec![r, r + 1.0], medr: m, meanr: m + 0.5 };
        let mean = RecallSummary::mean(&[fold(10.0, 1.0), fold(20.0, 2.0)]).expect("two folds");
        assert_eq!(mean, RecallSummary { recalls: vec![15.0, 16.0], medr: 1.5, meanr: 2.0 });
    }

    #[test]
    fn recall_increases_with_k_up_to_a_hundred() {
        let mut rng = Rng::new(3, &[]);
        for _ in 0..50 {
            let n = 1 + rng.uniform_below(40);
            let ranks: Vec<usize> = (0..n).map(|_| rng.uniform_below(30)).collect();
            let curve: Vec<f64> = (0..=30).map(|k| recall_at(&ranks, k).expect("there are queries")).collect();
            assert_eq!((curve[0], curve[30]), (0.0, 100.0));
            assert!(curve.is_sorted());
        }
    }
}
