//! Mutual proximity with Gaussian or with empirical distances: a query and an item are near if each is nearer to the
//! other than usual.
//!
//! Schnitzer, Flexer, Schedl, Widmer, "Local and Global Scaling Reduce Hubs in Space", JMLR 13, 2012, sections 3.2
//! (empirical) and 3.2.2 (Gaussian).

use std::sync::Arc;

use super::distance::Distance;
use super::method::{Correction, DenseScores, RequiredStatistics, ScoreStatistics, Statistic, StatisticalMethod};
use crate::identity::IdentityWriter;
use crate::normal::{log_ndtr, log_ndtr_approx};

/// Mutual proximity with Gaussian distances: `s'(q, i) = P(D_q > d) · P(D_i > d)`. `D_q` is the distance of the query to
/// items and `D_i` that of the item to queries, of a bank (inductive) or of the test (transductive). Both are taken as
/// independent Gaussians with their mean and standard deviation.
///
/// D may be any decreasing affine function of the score, such as the squared distance of unit vectors, or −s: all of
/// them give `Φ((s − μ_q)/σ_q) · Φ((s − μ_i)/σ_i)`. If all scores of a query or an item are equal, Φ = ½ for a score
/// that equals them. The ranking depends on two statistics of each item and two of the query; it is not by a score
/// minus a shift.
///
/// # Cost
/// One pass over the scores for their means and deviations, then two table look-ups for each score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GaussianMutualProximity {
    /// True to learn from the queries of the bank, false to learn from the test queries.
    pub query_bank: bool,
}

impl StatisticalMethod for GaussianMutualProximity {
    fn is_inductive(&self) -> bool {
        self.query_bank
    }

    fn required_statistics(&self) -> RequiredStatistics {
        let both = vec![Statistic::Mean, Statistic::StandardDeviation];
        RequiredStatistics {
            item_statistics: both.clone(),
            query_statistics: both,
            queries_affect_ranking: true,
            needs_distances: false,
        }
    }

    fn correction(&self, statistics: &ScoreStatistics) -> Box<dyn Correction> {
        let pairs = |both: &[Vec<f64>]| both[0].iter().copied().zip(both[1].iter().copied()).collect();
        Box::new(GaussianProximityCorrection { items: pairs(&statistics.items), queries: pairs(&statistics.queries) })
    }

    /// `ln s'`.
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    fn definition(&self, scores: &DenseScores, others: &DenseScores, _: Distance) -> DenseScores {
        let gaussian = |values: Vec<f64>| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt())
        };
        let items: Vec<(f64, f64)> = (0..scores.items).map(|item| gaussian(others.column(item).collect())).collect();
        let queries: Vec<(f64, f64)> = (0..scores.queries).map(|query| gaussian(scores.row(query).collect())).collect();
        DenseScores::from_fn(scores.queries, scores.items, |query, item| {
            let score = scores.at(query, item);
            log_ndtr(z_score(score, queries[query])) + log_ndtr(z_score(score, items[item]))
        })
    }
}

/// Correction with the mean and the standard deviation of every item and every query.
#[derive(Debug)]
struct GaussianProximityCorrection {
    items: Vec<(f64, f64)>,
    queries: Vec<(f64, f64)>,
}

impl Correction for GaussianProximityCorrection {
    /// The logarithm of s'.
    fn corrected_score(&self, query: usize, item: usize, score: f32) -> f64 {
        let score = f64::from(score);
        log_ndtr(z_score(score, self.queries[query])) + log_ndtr(z_score(score, self.items[item]))
    }

    #[expect(clippy::cast_possible_truncation, reason = "rows are f32")]
    fn correct_row(&self, query: usize, scores: &mut [f32]) {
        let query_side = self.queries[query];
        for (score, &item_side) in scores.iter_mut().zip(&self.items) {
            let s = f64::from(*score);
            *score = (log_ndtr_approx(z_score(s, query_side)) + log_ndtr_approx(z_score(s, item_side))) as f32;
        }
    }

    fn row_shifts(&self, _: usize) -> Option<&[f64]> {
        None
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("mutual_proximity");
        for pairs in [&self.items, &self.queries] {
            fields.write_list_length(pairs.len());
            for &(mean, deviation) in pairs {
                fields.write_f64(mean);
                fields.write_f64(deviation);
            }
        }
    }
}

/// Lower bound of a standard deviation that is divided by, for scores that are all equal: logarithms of Φ stay finite.
const MIN_DEVIATION: f64 = 1e-6;

/// Standard deviations that a score is above the mean.
fn z_score(score: f64, (mean, deviation): (f64, f64)) -> f64 {
    (score - mean) / deviation.max(MIN_DEVIATION)
}

/// Correction of empirical mutual proximity: `s'(q, i) = P(D_q > d) · P(D_i > d)`. The first factor is the share of the
/// bank's items that are farther from the query than d, the second the share of the bank's queries that are farther
/// from the item.
///
/// The paper's `P(D_q > d and D_i > d)` counts points that both objects are compared with. Queries and items are not
/// compared with the same points, so the two events are taken as independent here. [`joint_proximity`] is the paper's
/// formula for a bank of matching pairs.
///
/// Needs all scores of the items with the bank's queries and of the queries with the bank's items (inductive), or all
/// scores of the test for both (transductive). It is the only method here whose memory grows with the product of both
/// sizes. The ranking is not by a score minus a shift. Shares are coarse, so there are many ties; the lower index comes
/// first.
///
/// # Cost
/// [`EmpiricalMutualProximity::memory_bytes`] of memory; two binary searches for each score.
#[derive(Debug, Clone, PartialEq)]
pub struct EmpiricalMutualProximity {
    items: Arc<SortedScores>,
    queries: Arc<SortedScores>,
}

/// Sorted scores of each vector of one side with all vectors that it is compared with. Both directions of retrieval
/// share them: an item of one direction is a query of the other.
#[derive(Debug, Clone, PartialEq)]
pub struct SortedScores {
    /// Lists in ascending order.
    scores: Vec<Vec<f32>>,
    list_length: usize,
}

impl EmpiricalMutualProximity {
    /// Correction with the scores of every item with all queries of the bank, and of every query with all items of the
    /// bank.
    #[must_use]
    pub fn new(items: Arc<SortedScores>, queries: Arc<SortedScores>) -> Self {
        Self { items, queries }
    }

    /// Bytes of the sorted scores of two sides, each given as (vectors, vectors that each is compared with); saturates
    /// at `usize::MAX`.
    #[must_use]
    pub fn memory_bytes(sides: [(usize, usize); 2]) -> usize {
        let one = |(vectors, others): (usize, usize)| vectors.saturating_mul(others.saturating_mul(size_of::<f32>()));
        sides.into_iter().map(one).fold(0, usize::saturating_add)
    }

    /// Number of pairs of an entry of a query's list and an entry of an item's list.
    #[expect(clippy::cast_precision_loss, reason = "banks are far below 2⁵³")]
    fn pair_count(&self) -> f64 {
        self.queries.list_length as f64 * self.items.list_length as f64
    }
}

impl Correction for EmpiricalMutualProximity {
    #[expect(clippy::cast_precision_loss, reason = "banks are far below 2⁵³")]
    fn corrected_score(&self, query: usize, item: usize, score: f32) -> f64 {
        self.queries.count_below(query, score) as f64 * self.items.count_below(item, score) as f64 / self.pair_count()
    }

    /// Computes `s' − 1`, which keeps full precision in f32 where s' is near 1, as it is for the best items.
    #[expect(clippy::cast_possible_truncation, reason = "rows are f32")]
    #[expect(clippy::cast_precision_loss, reason = "banks are far below 2⁵³")]
    fn correct_row(&self, query: usize, scores: &mut [f32]) {
        let pairs = self.pair_count();
        for (block, scores) in scores.chunks_mut(INTERLEAVED_SEARCHES).enumerate() {
            let mut of_items = [0; INTERLEAVED_SEARCHES];
            self.items.count_below_each(block * INTERLEAVED_SEARCHES, scores, &mut of_items);
            for (score, item_side) in scores.iter_mut().zip(of_items) {
                let farther = self.queries.count_below(query, *score) as f64 * item_side as f64;
                *score = ((farther - pairs) / pairs) as f32;
            }
        }
    }

    fn row_shifts(&self, _: usize) -> Option<&[f64]> {
        None
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("empirical_proximity");
        for lists in [&self.items, &self.queries] {
            fields.write_list_length(lists.scores.len());
            lists.scores.iter().for_each(|scores| fields.write_f32s(scores));
        }
    }
}

/// Lists that are searched side by side, so that their cache misses overlap.
const INTERLEAVED_SEARCHES: usize = 16;

impl SortedScores {
    /// Lists of equal length, each in ascending order.
    ///
    /// # Panics
    /// A list is empty, or has another length.
    #[must_use]
    pub fn new(scores: Vec<Vec<f32>>) -> Self {
        let each = scores.first().map_or(1, Vec::len);
        assert!(each > 0 && scores.iter().all(|list| list.len() == each), "lists are empty or differ in length");
        Self { scores, list_length: each }
    }

    /// Number of entries of a list that are below a score.
    fn count_below(&self, which: usize, score: f32) -> usize {
        self.scores[which].partition_point(|&other| other < score)
    }

    /// [`SortedScores::count_below`] for at most [`INTERLEAVED_SEARCHES`] lists from `first` on, with one score for
    /// each.
    fn count_below_each(&self, first: usize, scores: &[f32], places: &mut [usize; INTERLEAVED_SEARCHES]) {
        let lists = &self.scores[first..first + scores.len()];
        let mut size = self.list_length;
        while size > 1 {
            let half = size / 2;
            for ((place, score), list) in places.iter_mut().zip(scores).zip(lists) {
                *place += if list[*place + half - 1] < *score { half } else { 0 };
            }
            size -= half;
        }
        for ((place, score), list) in places.iter_mut().zip(scores).zip(lists) {
            *place += usize::from(list[*place] < *score);
        }
    }
}

/// Joint mutual proximity, `P(D_q > d and D_i > d)`: the share of a bank's pairs whose item is farther from the query,
/// and whose query is farther from the item, than `score`.
///
/// # Shapes
/// - `query_side`: scores of the query with the items of the bank's pairs
/// - `item_side`: scores of the item with the queries of the same pairs
///
/// # Cost
/// `O(pairs)` for each score, so it suits candidates, not whole rows.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "banks are far below 2⁵³")]
pub fn joint_proximity(score: f64, query_side: &[f64], item_side: &[f64]) -> f64 {
    let farther = query_side.iter().zip(item_side).filter(|&(&q, &i)| q < score && i < score).count();
    farther as f64 / query_side.len() as f64
}

/// The definition.
///
/// # Shapes
/// - `of_items`: scores of the bank's queries with the items
/// - `of_queries`: scores of the queries with the bank's items
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "banks are far below 2⁵³")]
pub fn empirical_proximity(scores: &DenseScores, of_items: &DenseScores, of_queries: &DenseScores) -> DenseScores {
    DenseScores::from_fn(scores.queries, scores.items, |query, item| {
        let score = scores.at(query, item);
        let from_query = of_queries.row(query).filter(|&other| other < score).count();
        let from_item = of_items.column(item).filter(|&other| other < score).count();
        (from_query * from_item) as f64 / (of_queries.items * of_items.queries) as f64
    })
}
