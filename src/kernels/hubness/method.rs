//! Statistical methods: those that correct scores one row at a time, from a few numbers of each query and of each item.

use std::fmt::Debug;

use super::distance::Distance;
use super::matrix::Matrix;
use super::problems::Problems;
use super::statistic::Statistic;
use crate::identity::Fields;

/// A method whose corrected score is a function of the score and of a few statistics of the query and of the item: its
/// settings, as pipeline files give them, and what it does with them.
///
/// The statistics of an item are of its scores with queries: those of a bank, and then the method is inductive, or those of
/// the test, and then it is transductive. The statistics of a query are of its scores with the items.
pub trait StatisticalMethod {
    /// True if the statistics of items are of a bank, false if they are of the test.
    fn of_bank(&self) -> bool;

    /// Problems of its free numbers: the setting, and why.
    fn problems(&self) -> Problems {
        Problems::new()
    }

    /// Reason why it cannot correct scores that stand for such distances, or for none, if it cannot. Methods that ask for
    /// [`Needs::distances`] are refused scores that stand for none without saying so here.
    fn refusal(&self, _scores: Option<Distance>) -> Option<&'static str> {
        None
    }

    /// True if its corrected scores of different queries compare, so that a matching can be made of them; all that it does is
    /// then to take numbers off ([`Correction::shift`]).
    fn compares_queries(&self) -> bool {
        false
    }

    /// The statistics that the correction is made of.
    fn needs(&self) -> Needs;

    /// The correction.
    fn correction(&self, of: &Statistics) -> Box<dyn Correction>;

    /// The definition: corrected scores, in any unit; higher is closer.
    ///
    /// # Shapes
    /// - `others`: scores with the same items of the queries that statistics of items are of: those of the bank where
    ///   [`StatisticalMethod::of_bank`], and `scores` where not
    /// - `distance`: that of the scores; unused by methods that do not ask for [`Needs::distances`]
    fn definition(&self, scores: &Matrix, others: &Matrix, distance: Distance) -> Matrix;
}

/// The statistics that a method needs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Needs {
    /// Statistics of an item's scores with queries, of a bank or of the test.
    pub of_items: Vec<Statistic>,
    /// Statistics of a query's scores with the items.
    pub of_queries: Vec<Statistic>,
    /// True if a query's own ranking depends on its statistics. Where it does not, they only make scores of different
    /// queries comparable, for a matching of all queries at once.
    pub queries_change_rankings: bool,
    /// True if scores must stand for distances.
    pub distances: bool,
}

/// The statistics that a method gets.
#[derive(Debug, Clone)]
pub struct Statistics {
    /// `items[n][i]`: the n-th of [`Needs::of_items`], of item `i`.
    pub items: Vec<Vec<f64>>,
    /// `queries[n][q]`: the n-th of [`Needs::of_queries`], of query `q`; may be empty where
    /// [`Needs::queries_change_rankings`] is false and [`Correction::across`] is not asked.
    pub queries: Vec<Vec<f64>>,
    /// Distances of the scores; any where [`Needs::distances`] is false.
    pub distance: Distance,
}

impl Statistics {
    /// Numbers of the items and of the queries, each made of the only statistic; none of the queries where there are none.
    pub(super) fn map(&self, number: impl Fn(f64) -> f64) -> [Vec<f64>; 2] {
        [&self.items, &self.queries]
            .map(|of| of.first().into_iter().flatten().map(|&statistic| number(statistic)).collect())
    }
}

/// How scores of queries with items are corrected; everything that had to be known is known.
pub trait Correction: Debug + Sync {
    /// The corrected score of a pair, by which the ranking of a query is defined; higher is closer.
    fn pair(&self, query: usize, item: usize, score: f32) -> f64;

    /// The corrected score of a pair that can be compared with those of other queries, as a matching does: what
    /// [`Correction::pair`] leaves out, because it changes no ranking, is in it.
    fn across(&self, query: usize, item: usize, score: f32) -> f64 {
        self.pair(query, item, score)
    }

    /// The scores of a query with all items, corrected in place: [`Correction::pair`] up to rounding to f32, in some unit of
    /// the query's own, so that their order is meant and no more.
    fn row(&self, query: usize, scores: &mut [f32]);

    /// Numbers that are taken off a score for its item, where that is all that the method does to the ranking of a query. Then items
    /// whose score is known up to an error are in doubt within that error, and the best k are found from approximate scores.
    /// Empty where nothing is taken off.
    fn shift(&self, query: usize) -> Option<&[f64]>;

    /// Writes everything that the corrected scores follow from beside the scores: the name of the correction first.
    fn identity(&self, fields: &mut Fields<'_>);
}
