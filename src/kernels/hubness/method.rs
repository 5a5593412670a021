//! Statistical methods: corrections of scores, one row at a time, from a few statistics of each query and of each item.
//!
//! Here are the statistics, the corrections that many methods share (a shift of each item, a choice for each query), the
//! checks of parameters, and the dense scores of all definitions.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use super::distance::Distance;
use crate::identity::IdentityWriter;

/// Method whose corrected score is a function of the score and of a few statistics of the query and of the item. It is
/// implemented by the struct of the method's settings in pipeline files.
///
/// The statistics of an item are computed over its scores with queries. If these are the queries of a bank, the method
/// is inductive; if they are the test queries, it is transductive. The statistics of a query are computed over its
/// scores with the items.
pub trait StatisticalMethod {
    /// Returns true if the statistics of items are computed over a query bank, false if over the test queries.
    fn is_inductive(&self) -> bool;

    /// Problems of its parameters: the name of the setting, and a message.
    fn problems(&self) -> ParameterProblems {
        ParameterProblems::new()
    }

    /// Reason why it cannot correct scores with this relation to distances, if it cannot.
    fn refusal(&self, _scores: Distance) -> Option<&'static str> {
        None
    }

    /// Returns true if its corrected scores of different queries are comparable, so that a matching can be computed
    /// from them. Its correction must then only subtract shifts ([`Correction::row_shifts`]).
    fn compares_queries(&self) -> bool {
        false
    }

    /// The statistics that the correction is computed from.
    fn required_statistics(&self) -> RequiredStatistics;

    /// The correction with these statistics.
    fn correction(&self, statistics: &ScoreStatistics) -> Box<dyn Correction>;

    /// The definition: corrected scores, in any unit; higher is closer.
    ///
    /// # Shapes
    /// - `others`: scores that the statistics of items are computed over, with the same items as `scores`: those of the
    ///   query bank if [`StatisticalMethod::is_inductive`], otherwise `scores` itself
    /// - `distance`: distance of the scores; ignored by methods without [`RequiredStatistics::needs_distances`]
    fn definition(&self, scores: &DenseScores, others: &DenseScores, distance: Distance) -> DenseScores;
}

/// Statistics that a method needs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RequiredStatistics {
    /// Statistics of an item's scores with the queries of the bank or of the test.
    pub item_statistics: Vec<Statistic>,
    /// Statistics of a query's scores with the items.
    pub query_statistics: Vec<Statistic>,
    /// True if the ranking of a query depends on the query's statistics. Otherwise they only make scores of different
    /// queries comparable, for a matching of all queries.
    pub queries_affect_ranking: bool,
    /// True if the correction is one of distances.
    pub needs_distances: bool,
}

/// Values of the statistics that a method needs.
#[derive(Debug, Clone)]
pub struct ScoreStatistics {
    /// `items[n][i]`: the n-th of [`RequiredStatistics::item_statistics`], of item `i`.
    pub items: Vec<Vec<f64>>,
    /// `queries[n][q]`: the n-th of [`RequiredStatistics::query_statistics`], of query `q`. May be empty if
    /// [`RequiredStatistics::queries_affect_ranking`] is false and [`Correction::comparable_score`] is not called.
    pub queries: Vec<Vec<f64>>,
    /// Distance of the scores; any value if [`RequiredStatistics::needs_distances`] is false.
    pub distance: Distance,
}

impl ScoreStatistics {
    /// Applies `number` to the first statistic of the items and of the queries; empty for the queries if they have
    /// none.
    pub(super) fn map_first(&self, number: impl Fn(f64) -> f64) -> [Vec<f64>; 2] {
        [&self.items, &self.queries]
            .map(|side| side.first().into_iter().flatten().map(|&statistic| number(statistic)).collect())
    }
}

/// Correction of the scores of a pool, with all statistics computed.
pub trait Correction: Debug + Sync {
    /// The corrected score of a pair, which defines the ranking of the query; higher is closer.
    fn corrected_score(&self, query: usize, item: usize, score: f32) -> f64;

    /// The corrected score of a pair, comparable with those of other queries, as a matching needs. It includes the
    /// terms of the query that [`Correction::corrected_score`] leaves out because they change no ranking.
    fn comparable_score(&self, query: usize, item: usize, score: f32) -> f64 {
        self.corrected_score(query, item, score)
    }

    /// Corrects the scores of a query with all items in place. The result has the order of
    /// [`Correction::corrected_score`], up to rounding to f32; its scale depends on the query.
    fn correct_row(&self, query: usize, scores: &mut [f32]);

    /// The shift of each item, if the ranking of the query is by the score minus a shift of the item. The error of an
    /// approximate score is then that of the corrected score too, so a search can find the best k from approximate
    /// scores. Empty if all shifts are 0; `None` for any other correction.
    fn row_shifts(&self, query: usize) -> Option<&[f64]>;

    /// Writes all inputs of the corrected scores except the scores: first the name of the correction.
    fn identity(&self, fields: &mut IdentityWriter<'_>);
}

/// Statistic of a list of scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// `ln Σ exp(β·s)`: the normaliser of a softmax.
    LogSumExp {
        /// Inverse temperature, β.
        beta: f64,
    },
    /// The mean of the `k` largest scores; of all scores if there are fewer.
    MeanOfLargest {
        /// Number of scores.
        k: usize,
    },
    /// The `k`-th largest score, from 1; the smallest score if there are fewer.
    KthLargest {
        /// Position of the score, from 1.
        k: usize,
    },
    /// The mean.
    Mean,
    /// The population standard deviation: divided by n.
    StandardDeviation,
}

impl Statistic {
    /// Computes the statistic of `scores` in f64: the definition that streamed statistics are tested against.
    ///
    /// # Edge cases
    /// For no scores [`Statistic::LogSumExp`] is −∞ and the others are NaN; methods refuse empty pools earlier. The
    /// `k`-th largest score is NaN for `k` = 0.
    ///
    /// # Cost
    /// `O(n)` time, `O(n log n)` for the statistics of the largest scores; a copy of the scores.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    pub fn compute(&self, scores: impl Iterator<Item = f32>) -> f64 {
        let mut scores: Vec<f64> = scores.map(f64::from).collect();
        let mean = |scores: &[f64]| scores.iter().sum::<f64>() / scores.len() as f64;
        match *self {
            Self::LogSumExp { beta } => log_sum_exp(scores.iter().map(|score| beta * score)),
            Self::MeanOfLargest { k } => {
                scores.sort_unstable_by(|a, b| b.total_cmp(a));
                mean(&scores[..k.min(scores.len())])
            }
            Self::KthLargest { k } => {
                scores.sort_unstable_by(|a, b| b.total_cmp(a));
                scores[..k.min(scores.len())].last().copied().unwrap_or(f64::NAN)
            }
            Self::Mean => mean(&scores),
            Self::StandardDeviation => {
                let centre = mean(&scores);
                let squares: Vec<f64> = scores.iter().map(|score| (score - centre).powi(2)).collect();
                mean(&squares).sqrt()
            }
        }
    }
}

/// `ln Σ exp(x)`, relative to the largest x, so that nothing overflows; −∞ for no values.
pub(super) fn log_sum_exp(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + values.map(|value| (value - largest).exp()).sum::<f64>().ln()
}

/// Problems of parameters: the name of the setting, and a message.
pub type ParameterProblems = Vec<(&'static str, String)>;

/// The largest inverse temperature. Scores are f32: with a larger one, rounding errors of scores would decide.
pub const MAX_INVERSE_TEMPERATURE: f64 = 1e6;

/// Problem of an inverse temperature, if there is one.
#[must_use]
pub fn check_inverse_temperature(name: &'static str, beta: f64) -> Option<(&'static str, String)> {
    let fits = beta > 0.0 && beta <= MAX_INVERSE_TEMPERATURE;
    (!fits).then(|| (name, format!("got {beta}, expected a number above 0 and at most {MAX_INVERSE_TEMPERATURE}")))
}

/// Problem of a temperature, if there is one.
#[must_use]
pub fn check_temperature(name: &'static str, tau: f64) -> Option<(&'static str, String)> {
    let fits = tau >= 1.0 / MAX_INVERSE_TEMPERATURE && tau.is_finite();
    (!fits)
        .then(|| (name, format!("got {tau}, expected a finite number of at least {}", 1.0 / MAX_INVERSE_TEMPERATURE)))
}

/// Problem of a weight, which must be finite and at least 0, if there is one.
#[must_use]
pub fn check_weight(name: &'static str, weight: f64) -> Option<(&'static str, String)> {
    let fits = weight >= 0.0 && weight.is_finite();
    (!fits).then(|| (name, format!("got {weight}, expected a finite number of at least 0")))
}

/// Problem of a count, which must be at least 1, if there is one.
#[must_use]
pub fn check_count(name: &'static str, count: usize) -> Option<(&'static str, String)> {
    (count == 0).then(|| (name, "got 0, expected at least 1".to_owned()))
}

/// Shift correction: `s − h(item) − g(query)`.
///
/// `g` shifts all scores of a query, so it does not change the query's ranking; it makes scores of different queries
/// comparable.
#[derive(Debug, Clone, PartialEq)]
pub struct ShiftCorrection {
    items: Vec<f64>,
    rounded: Vec<f32>,
    queries: Vec<f64>,
}

impl ShiftCorrection {
    /// Correction with these shifts.
    ///
    /// # Shapes
    /// - `items`: h of every item; empty if all are 0
    /// - `queries`: g of every query; empty if all are 0
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the rounded shifts are for scores in f32")]
    pub fn new(items: Vec<f64>, queries: Vec<f64>) -> Self {
        let rounded = items.iter().map(|&h| h as f32).collect();
        Self { items, rounded, queries }
    }

    /// Shift h of every item; empty if all are 0.
    #[must_use]
    pub fn item_shifts(&self) -> &[f64] {
        &self.items
    }

    /// Shift g of every query; empty if all are 0.
    #[must_use]
    pub fn query_shifts(&self) -> &[f64] {
        &self.queries
    }
}

impl Correction for ShiftCorrection {
    fn corrected_score(&self, _: usize, item: usize, score: f32) -> f64 {
        f64::from(score) - self.items.get(item).copied().unwrap_or(0.0)
    }

    fn comparable_score(&self, query: usize, item: usize, score: f32) -> f64 {
        self.corrected_score(query, item, score) - self.queries.get(query).copied().unwrap_or(0.0)
    }

    fn correct_row(&self, _: usize, scores: &mut [f32]) {
        for (score, h) in scores.iter_mut().zip(&self.rounded) {
            *score -= h;
        }
    }

    fn row_shifts(&self, _: usize) -> Option<&[f64]> {
        Some(&self.items)
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("shift");
        fields.write_f64s(&self.items);
        fields.write_f64s(&self.queries);
    }
}

/// Activation set: the items that any query of a bank retrieves among its first k.
///
/// # Shapes
/// - `lists`: for every query of the bank the first k items by its scores
/// - result: for each of `items`, true if it is in the set
#[must_use]
pub fn activation_set<'l>(lists: impl IntoIterator<Item = &'l [usize]>, items: usize) -> Vec<bool> {
    let mut retrieved = vec![false; items];
    for &item in lists.into_iter().flatten() {
        retrieved[item] = true;
    }
    retrieved
}

/// Correction of each query by one of several shift corrections. Scores of queries with different corrections are not
/// comparable, so [`Correction::comparable_score`] equals [`Correction::corrected_score`].
#[derive(Debug, Clone, PartialEq)]
pub struct PerQueryCorrection {
    choices: Vec<ShiftCorrection>,
    of_query: Vec<usize>,
}

impl PerQueryCorrection {
    /// Correction of query `q` by `choices[of_query[q]]`.
    ///
    /// # Panics
    /// An index of `of_query` is out of bounds.
    #[must_use]
    pub fn new(choices: Vec<ShiftCorrection>, of_query: Vec<usize>) -> Self {
        assert!(of_query.iter().all(|&choice| choice < choices.len()), "a query's correction is out of bounds");
        Self { choices, of_query }
    }

    fn of(&self, query: usize) -> &ShiftCorrection {
        &self.choices[self.of_query[query]]
    }
}

impl Correction for PerQueryCorrection {
    fn corrected_score(&self, query: usize, item: usize, score: f32) -> f64 {
        self.of(query).corrected_score(query, item, score)
    }

    fn correct_row(&self, query: usize, scores: &mut [f32]) {
        self.of(query).correct_row(query, scores);
    }

    fn row_shifts(&self, query: usize) -> Option<&[f64]> {
        self.of(query).row_shifts(query)
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("dynamic");
        fields.write_list_length(self.choices.len());
        self.choices.iter().for_each(|choice| choice.identity(fields));
        fields.write_usizes(&self.of_query);
    }
}

/// Matrix of the scores of queries (rows) with items (columns), row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseScores {
    /// Rows.
    pub queries: usize,
    /// Columns.
    pub items: usize,
    /// `queries × items` scores.
    pub values: Vec<f64>,
}

impl DenseScores {
    /// The matrix whose value in row `q` and column `i` is `value(q, i)`.
    #[must_use]
    pub fn from_fn(queries: usize, items: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let values = (0..queries).flat_map(|q| (0..items).map(move |i| (q, i))).map(|(q, i)| value(q, i)).collect();
        Self { queries, items, values }
    }

    /// The score of a query and an item.
    #[must_use]
    pub fn at(&self, query: usize, item: usize) -> f64 {
        self.values[query * self.items + item]
    }

    /// The scores of a query with all items.
    pub fn row(&self, query: usize) -> impl Iterator<Item = f64> + Clone {
        self.values[query * self.items..][..self.items].iter().copied()
    }

    /// The scores of an item with all queries.
    pub fn column(&self, item: usize) -> impl Iterator<Item = f64> + Clone {
        (0..self.queries).map(move |query| self.at(query, item))
    }

    /// The items of each query, best first; of equal scores the lower index comes first.
    #[must_use]
    pub fn rankings(&self) -> Vec<Vec<usize>> {
        (0..self.queries)
            .map(|query| {
                let mut items: Vec<usize> = (0..self.items).collect();
                // The sort is stable; adding 0 turns −0 into 0.
                items.sort_by(|&a, &b| (self.at(query, b) + 0.0).total_cmp(&(self.at(query, a) + 0.0)));
                items
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_four_scores() {
        let value_of = |statistic: Statistic, scores: &[f32]| statistic.compute(scores.iter().copied());
        let scores = [0.5, 2.0, -1.0, 1.0];
        let expected = (0.25f64.exp() + 1f64.exp() + (-0.5f64).exp() + 0.5f64.exp()).ln();
        assert!((value_of(Statistic::LogSumExp { beta: 0.5 }, &scores) - expected).abs() < 1e-15);
        assert_eq!(value_of(Statistic::MeanOfLargest { k: 2 }, &scores), 1.5);
        assert_eq!(value_of(Statistic::MeanOfLargest { k: 9 }, &scores), 0.625);
        assert_eq!([1, 3, 4, 9].map(|k| value_of(Statistic::KthLargest { k }, &scores)), [2.0, 0.5, -1.0, -1.0]);
        assert_eq!(value_of(Statistic::Mean, &scores), 0.625);
        // Deviations −1/8, 11/8, −13/8, 3/8: the sum of their squares is 300/64, the mean 75/64.
        assert!((value_of(Statistic::StandardDeviation, &scores) - (75f64 / 64.0).sqrt()).abs() < 1e-15);
        assert_eq!(value_of(Statistic::StandardDeviation, &[0.1; 3]), 0.0);
        // e²⁰⁰⁰ overflows f64, but its logarithm does not.
        assert!((value_of(Statistic::LogSumExp { beta: 1000.0 }, &[2.0, 2.0]) - (2000.0 + 2f64.ln())).abs() < 1e-12);
        assert_eq!(value_of(Statistic::LogSumExp { beta: 1.0 }, &[]), f64::NEG_INFINITY);
        assert!(value_of(Statistic::Mean, &[]).is_nan() && value_of(Statistic::KthLargest { k: 0 }, &[1.0]).is_nan());
    }

    #[test]
    fn parameters_out_of_range_are_problems() {
        for wrong in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(check_inverse_temperature("beta", wrong).is_some());
            assert!(check_temperature("tau", wrong).is_some());
            assert!(check_weight("alpha", wrong).is_some());
        }
        assert!(check_inverse_temperature("beta", 0.0).is_some() && check_temperature("tau", 0.0).is_some());
        assert!(check_inverse_temperature("beta", 2e6).is_some() && check_inverse_temperature("beta", 1e6).is_none());
        assert!(check_weight("alpha", 0.0).is_none() && check_temperature("tau", 0.01).is_none());
        let expected = Some(("k", "got 0, expected at least 1".to_owned()));
        assert_eq!((check_count("k", 0), check_count("k", 1)), (expected, None));
    }
}
