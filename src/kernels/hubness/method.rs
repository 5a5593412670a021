//! Statistical methods: corrections of scores, one row at a time, from a few statistics of each query and of each item.

use std::fmt::Debug;

use super::dense_scores::DenseScores;
use super::distance::Distance;
use super::parameter_checks::ParameterProblems;
use super::statistic::Statistic;
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
    fn correction(&self, of: &ScoreStatistics) -> Box<dyn Correction>;

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
            .map(|of| of.first().into_iter().flatten().map(|&statistic| number(statistic)).collect())
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
