//! Mutual proximity with Gaussian distances: two are near where each is unusually near to the other.
//!
//! Schnitzer, Flexer, Schedl, Widmer, "Local and Global Scaling Reduce Hubs in Space", JMLR 13, 2012, section 3.2.2.

use super::distance::Distance;
use super::matrix::Matrix;
use super::method::{Correction, Needs, StatisticalMethod, Statistics};
use super::statistic::Statistic;
use crate::identity::Fields;
use crate::normal::{ln_phi, ln_phi_near};

/// `s'(q, i) = P(D_q > d) · P(D_i > d)`, with distances D of the query to items and of the item to queries, of a bank
/// (inductive) or of the test (transductive), as independent Gaussians of their mean and standard deviation.
///
/// D may be any falling straight line of the score (the squared distance of unit vectors, or −s): all give
/// `Φ((s − μ_q)/σ_q) · Φ((s − μ_i)/σ_i)`. Where all scores are equal, one that equals them has Φ = ½. Two numbers an item and
/// two a query, all of which a ranking depends on; not of the form s − h.
///
/// # Cost
/// One pass over the scores for their means and deviations; two look-ups in a table a score after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MutualProximity {
    /// True if queries are those of the bank.
    pub bank: bool,
}

impl StatisticalMethod for MutualProximity {
    fn of_bank(&self) -> bool {
        self.bank
    }

    fn needs(&self) -> Needs {
        let both = vec![Statistic::Mean, Statistic::StandardDeviation];
        Needs { of_items: both.clone(), of_queries: both, queries_change_rankings: true, distances: false }
    }

    fn correction(&self, of: &Statistics) -> Box<dyn Correction> {
        let pairs = |both: &[Vec<f64>]| both[0].iter().copied().zip(both[1].iter().copied()).collect();
        Box::new(Gaussians { items: pairs(&of.items), queries: pairs(&of.queries) })
    }

    /// `ln s'`.
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    fn definition(&self, scores: &Matrix, others: &Matrix, _: Distance) -> Matrix {
        let gaussian = |values: Vec<f64>| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt())
        };
        let items: Vec<(f64, f64)> = (0..scores.items).map(|item| gaussian(others.column(item).collect())).collect();
        let queries: Vec<(f64, f64)> = (0..scores.queries).map(|query| gaussian(scores.row(query).collect())).collect();
        Matrix::from_fn(scores.queries, scores.items, |query, item| {
            let score = scores.at(query, item);
            ln_phi(standard(score, queries[query])) + ln_phi(standard(score, items[item]))
        })
    }
}

/// Means and standard deviations.
#[derive(Debug)]
struct Gaussians {
    items: Vec<(f64, f64)>,
    queries: Vec<(f64, f64)>,
}

impl Correction for Gaussians {
    /// The logarithm of s'.
    fn pair(&self, query: usize, item: usize, score: f32) -> f64 {
        let score = f64::from(score);
        ln_phi(standard(score, self.queries[query])) + ln_phi(standard(score, self.items[item]))
    }

    #[expect(clippy::cast_possible_truncation, reason = "rows are f32")]
    fn row(&self, query: usize, scores: &mut [f32]) {
        let of_query = self.queries[query];
        for (score, &of_item) in scores.iter_mut().zip(&self.items) {
            let s = f64::from(*score);
            *score = (ln_phi_near(standard(s, of_query)) + ln_phi_near(standard(s, of_item))) as f32;
        }
    }

    fn shift(&self, _: usize) -> Option<&[f64]> {
        None
    }

    fn identity(&self, fields: &mut Fields<'_>) {
        fields.text("mutual_proximity");
        for pairs in [&self.items, &self.queries] {
            fields.list(pairs.len());
            for &(mean, deviation) in pairs {
                fields.float(mean);
                fields.float(deviation);
            }
        }
    }
}

/// The smallest deviation: of scores that are all equal. A score apart from them is then so many of these away, and its
/// logarithm finite.
const SMALLEST: f64 = 1e-6;

/// How many standard deviations a score is above the mean.
fn standard(score: f64, (mean, deviation): (f64, f64)) -> f64 {
    (score - mean) / deviation.max(SMALLEST)
}
