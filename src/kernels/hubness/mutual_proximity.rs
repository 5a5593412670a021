//! Mutual proximity with Gaussian distances: a query and an item are near if each is nearer to the other than usual.
//!
//! Schnitzer, Flexer, Schedl, Widmer, "Local and Global Scaling Reduce Hubs in Space", JMLR 13, 2012, section 3.2.2.

use super::dense_scores::DenseScores;
use super::distance::Distance;
use super::method::{Correction, RequiredStatistics, ScoreStatistics, StatisticalMethod};
use super::statistic::Statistic;
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

    fn correction(&self, of: &ScoreStatistics) -> Box<dyn Correction> {
        let pairs = |both: &[Vec<f64>]| both[0].iter().copied().zip(both[1].iter().copied()).collect();
        Box::new(GaussianProximityCorrection { items: pairs(&of.items), queries: pairs(&of.queries) })
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
        let of_query = self.queries[query];
        for (score, &of_item) in scores.iter_mut().zip(&self.items) {
            let s = f64::from(*score);
            *score = (log_ndtr_approx(z_score(s, of_query)) + log_ndtr_approx(z_score(s, of_item))) as f32;
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
