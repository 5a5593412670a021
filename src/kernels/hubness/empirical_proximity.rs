//! Mutual proximity with the distances that there are, counted.
//!
//! Schnitzer, Flexer, Schedl, Widmer, "Local and Global Scaling Reduce Hubs in Space", JMLR 13, 2012, section 3.2.

use std::sync::Arc;

use super::matrix::Matrix;
use super::method::Correction;
use crate::identity::Fields;

/// `s'(q, i) = P(D_q > d) · P(D_i > d)`, shares of a bank: of its items that are farther from the query, and of its queries
/// that are farther from the item.
///
/// The paper's `P(D_q > d and D_i > d)` counts third points that both are compared with; queries and items are not compared
/// with the same points, so they count as independent here. [`joint`] is the paper's form for a bank of matching pairs.
///
/// Needs all scores of the items with the bank's queries and of the queries with the bank's items (inductive), or the scores of
/// the test for both (transductive): the one method here whose memory grows with their product. Not of the form s − h. Shares
/// are coarse, so many scores tie, and the lower index comes first.
///
/// # Cost
/// [`EmpiricalProximity::bytes`] of memory; a binary search in both lists for each score.
#[derive(Debug, Clone, PartialEq)]
pub struct EmpiricalProximity {
    items: Arc<Lists>,
    queries: Arc<Lists>,
}

/// The scores of each vector of one side with all that it is compared with, sorted. Images and captions each have theirs, and
/// both directions share them: those of an item in one are those of a query in the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Lists {
    /// Rising.
    scores: Vec<Vec<f32>>,
    each: usize,
}

impl EmpiricalProximity {
    /// # Shapes
    /// - `items`: for every item its scores with all queries of the bank
    /// - `queries`: for every query its scores with all items of the bank
    #[must_use]
    pub fn new(items: Arc<Lists>, queries: Arc<Lists>) -> Self {
        Self { items, queries }
    }

    /// Bytes of the lists of two sides, each so many vectors compared with so many others; as many as a number can say where
    /// there are more.
    #[must_use]
    pub fn bytes(sides: [(usize, usize); 2]) -> usize {
        let one = |(vectors, others): (usize, usize)| vectors.saturating_mul(others.saturating_mul(size_of::<f32>()));
        sides.into_iter().map(one).fold(0, usize::saturating_add)
    }

    /// How many pairs of a query's list and an item's there are.
    #[expect(clippy::cast_precision_loss, reason = "banks are far below 2⁵³")]
    fn pairs(&self) -> f64 {
        self.queries.each as f64 * self.items.each as f64
    }
}

impl Correction for EmpiricalProximity {
    #[expect(clippy::cast_precision_loss, reason = "banks are far below 2⁵³")]
    fn pair(&self, query: usize, item: usize, score: f32) -> f64 {
        self.queries.below(query, score) as f64 * self.items.below(item, score) as f64 / self.pairs()
    }

    /// `s' − 1`, which is exact to the last pair where s' is near 1, as it is for the best.
    #[expect(clippy::cast_possible_truncation, reason = "rows are f32")]
    #[expect(clippy::cast_precision_loss, reason = "banks are far below 2⁵³")]
    fn row(&self, query: usize, scores: &mut [f32]) {
        let pairs = self.pairs();
        for (block, scores) in scores.chunks_mut(TOGETHER).enumerate() {
            let mut of_items = [0; TOGETHER];
            self.items.below_of(block * TOGETHER, scores, &mut of_items);
            for (score, of_item) in scores.iter_mut().zip(of_items) {
                let farther = self.queries.below(query, *score) as f64 * of_item as f64;
                *score = ((farther - pairs) / pairs) as f32;
            }
        }
    }

    fn shift(&self, _: usize) -> Option<&[f64]> {
        None
    }

    fn identity(&self, fields: &mut Fields<'_>) {
        fields.text("empirical_proximity");
        for lists in [&self.items, &self.queries] {
            fields.list(lists.scores.len());
            lists.scores.iter().for_each(|scores| fields.singles(scores));
        }
    }
}

/// Lists that are searched side by side: none is in the nearest caches, and so the waits for them overlap.
const TOGETHER: usize = 16;

impl Lists {
    /// Lists of one length, each rising.
    ///
    /// # Panics
    /// A list is empty, or of another length.
    #[must_use]
    pub fn new(scores: Vec<Vec<f32>>) -> Self {
        let each = scores.first().map_or(1, Vec::len);
        assert!(each > 0 && scores.iter().all(|list| list.len() == each), "lists of different lengths, or empty ones");
        Self { scores, each }
    }

    /// How many of a list are below a score.
    fn below(&self, which: usize, score: f32) -> usize {
        self.scores[which].partition_point(|&other| other < score)
    }

    /// [`Lists::below`] of at most [`TOGETHER`] lists from `first` on, a score each.
    fn below_of(&self, first: usize, scores: &[f32], places: &mut [usize; TOGETHER]) {
        let lists = &self.scores[first..first + scores.len()];
        let mut size = self.each;
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

/// The share of a bank's pairs that are farther both ways, `P(D_q > d and D_i > d)`: those whose item is farther from the
/// query, and whose query is farther from the item, than `score`.
///
/// # Shapes
/// - `of_query`: scores of the query with the items of the bank's pairs
/// - `of_item`: scores of the item with the queries of the same pairs
///
/// # Cost
/// `O(pairs)` a score: for candidates, not for whole rows.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "banks are far below 2⁵³")]
pub fn joint(score: f64, of_query: &[f64], of_item: &[f64]) -> f64 {
    let farther = of_query.iter().zip(of_item).filter(|&(&q, &i)| q < score && i < score).count();
    farther as f64 / of_query.len() as f64
}

/// The definition.
///
/// # Shapes
/// - `of_items`: scores of the bank's queries with the items
/// - `of_queries`: scores of the queries with the bank's items
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "banks are far below 2⁵³")]
pub fn empirical_proximity(scores: &Matrix, of_items: &Matrix, of_queries: &Matrix) -> Matrix {
    Matrix::from_fn(scores.queries, scores.items, |query, item| {
        let score = scores.at(query, item);
        let from_query = of_queries.row(query).filter(|&other| other < score).count();
        let from_item = of_items.column(item).filter(|&other| other < score).count();
        (from_query * from_item) as f64 / (of_queries.items * of_items.queries) as f64
    })
}
