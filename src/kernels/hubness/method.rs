//! What a method that corrects scores one row at a time offers to a search.

use std::fmt::Debug;

use super::problems::Problems;
use super::statistic::Statistic;
use crate::identity::Fields;

/// A method whose corrected score is a function of the score and of a few statistics of the query and of the item.
///
/// The statistics of an item are of its scores with queries: those of a bank, and then the method is inductive, or those of
/// the test, and then it is transductive. The statistics of a query are of its scores with the items.
pub trait Method {
    /// What is wrong with the free numbers.
    fn problems(&self) -> Problems;

    /// The statistics that the correction is made of.
    fn needs(&self) -> Needs;

    /// The correction.
    ///
    /// # Shapes
    /// - `items[n][i]`: the n-th of [`Needs::of_items`], of item `i`
    /// - `queries[n][q]`: the n-th of [`Needs::of_queries`], of query `q`; may be empty where
    ///   [`Needs::queries_change_rankings`] is false and [`Correction::across`] is not asked
    fn correction(&self, items: &[Vec<f64>], queries: &[Vec<f64>]) -> Box<dyn Correction>;
}

/// The statistics that a method needs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Needs {
    /// Of an item's scores with queries, of a bank or of the test.
    pub of_items: Vec<Statistic>,
    /// Of a query's scores with the items.
    pub of_queries: Vec<Statistic>,
    /// Whether a query's own ranking depends on its statistics. Where it does not, they only make scores of different
    /// queries comparable, for a matching of all queries at once.
    pub queries_change_rankings: bool,
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

    /// What is taken off a score for its item, where that is all that the method does to the ranking of a query. Then items
    /// whose score is known up to an error are in doubt within that error, and the best k are found from approximate scores.
    /// Empty where nothing is taken off.
    fn shift(&self, query: usize) -> Option<&[f64]>;

    /// Writes everything that the corrected scores follow from beside the scores: the name of the correction first.
    fn identity(&self, fields: &mut Fields<'_>);
}
