//! Rank of the best match of a query, and the measures of it: recall at K, median rank, mean rank, mean reciprocal
//! rank, and rsum, as in VSE++ and later papers; their expectations by chance, and the interval of a recall.
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

// As in Kiros et al., "Unifying Visual-Semantic Embeddings", 2014, and all papers since, only the first of the
// matching items counts, such as the best of the captions of an image.

/// Rank of the best matching item, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BestMatchRank {
    /// Number of items before it; ties go to the lower index.
    pub rank: usize,
    /// Rank if it came first in every tie: the number of items with a higher score.
    pub optimistic: usize,
    /// Rank if it came last in every tie: the number of items with a higher score, and of non-matching items with an
    /// equal one.
    pub pessimistic: usize,
}

/// Rank of the best of `positives` among all items, or `None` if there are no positives.
///
/// # Shapes
/// - `scores`: score of each of `n_items` items; higher is closer
/// - `positives`: indices of the matching items, in any order
///
/// # Edge cases
/// NaN counts as −∞, so that a model that computes NaN gets a bad rank.
///
/// # Panics
/// An index of `positives` is out of bounds.
///
/// # Cost
/// `O(n_items)` time, no extra memory.
#[must_use]
pub fn best_rank(scores: &[f32], positives: &[usize]) -> Option<BestMatchRank> {
    let mut best: Option<(f32, usize)> = None;
    for &item in positives {
        let score = number(scores[item]);
        match best {
            Some((top, index)) if score < top || (score == top && item > index) => {}
            _ => best = Some((score, item)),
        }
    }
    let (best, index) = best?;

    let mut rank = BestMatchRank { rank: 0, optimistic: 0, pessimistic: 0 };
    for (block, scores) in scores.chunks(BLOCK).enumerate() {
        rank.optimistic += count(scores, |score| score > best);
        // NaN counts as −∞.
        if best > f32::NEG_INFINITY && count(scores, |score| score == best) == 0 {
            continue;
        }
        for (offset, &score) in scores.iter().enumerate() {
            let item = block * BLOCK + offset;
            if number(score) == best && !positives.contains(&item) {
                rank.pessimistic += 1;
                rank.rank += usize::from(item < index);
            }
        }
    }
    // So far `rank` and `pessimistic` hold ties alone.
    rank.rank += rank.optimistic;
    rank.pessimistic += rank.optimistic;
    Some(rank)
}

/// Number of items that are counted together: most blocks have no tie, and counting is branch-free.
const BLOCK: usize = 256;

/// Number of scores that satisfy a condition; counted in 32 bits, so that the compiler can vectorise.
fn count(block: &[f32], fits: impl Fn(f32) -> bool) -> usize {
    block.iter().map(|&score| u32::from(fits(score))).sum::<u32>() as usize
}

/// Replaces NaN by −∞.
fn number(score: f32) -> f32 {
    score.max(f32::NEG_INFINITY)
}

// Mean reciprocal rank: // Voorhees, "The TREC-8 Question Answering Track Report", TREC-8, 1999.

/// Metric `mrr`: [`reciprocal_rank`] of the best match, if its rank in the pool is known.
#[derive(Debug)]
pub struct Mrr;

impl Metric for Mrr {
    fn measure_matches(&self, matches: &RankedMatches<'_>, add: RecordValue<'_>) {
        if let Some(rank) = matches.rank {
            add(MetricName::new("mrr", MetricUnit::Share), reciprocal_rank(rank));
        }
    }
}

/// Reciprocal rank, `1 / (rank + 1)`, with the rank from 0.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "ranks are far below 2⁵³")]
pub fn reciprocal_rank(rank: usize) -> f64 {
    1.0 / (rank as f64 + 1.0)
}

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

// Wilson confidence interval of a proportion.
//
// Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927. It stays
// within [0, 100] and keeps its coverage near the ends, where the normal approximation has a width of 0.

/// The 97.5 % point of the standard normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// 95 % confidence interval (low, high) of a percentage that was measured on `n` queries; [0, 100] if `n` is 0.
///
/// `(p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n)`.
///
/// Queries are taken as independent. The captions of one image are not: their recalls have a bootstrap interval over
/// images.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "queries are far below 2⁵³")]
pub fn wilson_95(percent: f64, n: usize) -> (f64, f64) {
    if n == 0 {
        return (0.0, 100.0);
    }
    let (p, n) = (percent / 100.0, n as f64);
    let scale = 1.0 + Z * Z / n;
    let centre = (p + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    (100.0 * (centre - half).max(0.0), 100.0 * (centre + half).min(1.0))
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

    fn rank(scores: &[f32], positives: &[usize]) -> (usize, usize, usize) {
        let rank = best_rank(scores, positives).expect("there are positives");
        (rank.rank, rank.optimistic, rank.pessimistic)
    }

    /// The definition: sort, then find the first match.
    fn reference(scores: &[f32], positives: &[usize]) -> (usize, usize, usize) {
        let place = |tie: &dyn Fn(usize) -> usize| {
            let mut order: Vec<usize> = (0..scores.len()).collect();
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(tie(a).cmp(&tie(b))));
            order.iter().position(|item| positives.contains(item)).expect("there are positives")
        };
        (
            place(&|item| item),
            place(&|item| usize::from(!positives.contains(&item))),
            place(&|item| usize::from(positives.contains(&item))),
        )
    }

    #[test]
    fn the_best_positive_counts_and_ties_go_to_the_lower_index() {
        assert_eq!(rank(&[0.1, 0.9, 0.5], &[1]), (0, 0, 0));
        assert_eq!(rank(&[0.1, 0.9, 0.5], &[0]), (2, 2, 2));
        // The best of several positives counts.
        assert_eq!(rank(&[0.1, 0.9, 0.5], &[0, 2]), (1, 1, 1));
        // All scores are equal: the index decides; a second positive does not count against the first.
        assert_eq!(rank(&[0.5; 4], &[2, 3]), (2, 0, 2));
        assert_eq!(rank(&[0.5; 4], &[3, 0]), (0, 0, 2));
        assert_eq!(best_rank(&[0.5; 4], &[]), None);
    }

    #[test]
    fn nan_is_the_worst_score() {
        assert_eq!(rank(&[f32::NAN, 0.0, -1.0], &[0]), (2, 2, 2));
        assert_eq!(rank(&[f32::NAN; 3], &[1]), (1, 0, 2));
        assert_eq!(rank(&[f32::NAN, 0.0, f32::NEG_INFINITY], &[1]), (0, 0, 0));
        assert_eq!(rank(&[f32::NAN, f32::INFINITY, 3.0], &[2]), (1, 1, 1));
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    fn equals_sorting_on_scores_full_of_ties() {
        let mut rng = Rng::new(7, &[]);
        for case in 0..300 {
            let scores: Vec<f32> = (0..=rng.uniform_below(700)).map(|_| rng.uniform_below(6) as f32 / 8.0).collect();
            let positives: Vec<usize> = (0..=rng.uniform_below(4)).map(|_| rng.uniform_below(scores.len())).collect();
            assert_eq!(rank(&scores, &positives), reference(&scores, &positives), "case {case}");
        }
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn permuting_items_with_unique_scores_keeps_the_rank() {
        let mut rng = Rng::new(8, &[]);
        let scores: Vec<f32> = (0..500).map(|_| rng.uniform() as f32).collect();
        for _ in 0..20 {
            let mut order: Vec<usize> = (0..scores.len()).collect();
            rng.shuffle(&mut order);
            let moved: Vec<f32> = order.iter().map(|&item| scores[item]).collect();
            let moved_positive = order.iter().position(|&item| item == 42).expect("every item moved somewhere");
            assert_eq!(rank(&moved, &[moved_positive]), rank(&scores, &[42]));
        }
    }

    #[test]
    fn reciprocal_ranks_do_not_depend_on_the_list() {
        let mut values = Vec::new();
        for rank in [Some(0), Some(3), Some(99), None] {
            let matches = RankedMatches { hits: &[], relevant: 1, cutoffs: &[1], is_ranking: true, rank };
            Mrr.measure_matches(&matches, &mut |name, value| values.push((name.measure, value)));
        }
        assert_eq!(values, [("mrr", 1.0), ("mrr", 0.25), ("mrr", 0.01)]);
    }

    #[test]
    fn one_match_in_a_thousand_and_two_in_four() {
        // One of 1,000: R@K is K/1000, and both middle ranks are 500.
        let one = expected_by_chance(1000, 1, &[1, 5, 10]).expect("one matches");
        for (got, expected) in one.recalls.iter().zip([0.1, 0.5, 1.0]) {
            assert!((got - expected).abs() < 1e-9);
        }
        assert_eq!((one.medr, one.meanr), (500.0, 500.5));
        // Two of four: the first item hits with 1/2; the best match has rank 1, 2 or 3 with 1/2, 1/3, 1/6: mean 5/3.
        let two = expected_by_chance(4, 2, &[1, 5]).expect("two match");
        assert_eq!((two.recalls, two.medr), (vec![50.0, 100.0], 1.0));
        assert!((two.meanr - 5.0 / 3.0).abs() < 1e-12);
        assert_eq!([0, 4].map(|positives| expected_by_chance(3, positives, &[1])), [None, None]);
    }

    /// At the ends the formula is simple: 0 of n gives [0, z²/(n + z²)]. The golden file has other cases.
    #[test]
    fn ends_are_exact() {
        let high = 100.0 * Z * Z / (10.0 + Z * Z);
        let (low, got) = wilson_95(0.0, 10);
        assert!(low.abs() < 1e-12 && (got - high).abs() < 1e-12);
        let (low, got) = wilson_95(100.0, 10);
        assert!((low - (100.0 - high)).abs() < 1e-12 && (got - 100.0).abs() < 1e-12);
        assert_eq!(wilson_95(50.0, 0), (0.0, 100.0));
    }
}
