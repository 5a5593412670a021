//! Mutual proximity with the distances that there are, counted.
//!
//! Schnitzer, Flexer, Schedl, Widmer, "Local and Global Scaling Reduce Hubs in Space", JMLR 13, 2012, section 3.2.

use super::matrix::Matrix;
use super::method::Correction;

/// `s'(q, i) = P(D_q > d) · P(D_i > d)`, shares of a bank: of its items that are farther from the query, and of its queries
/// that are farther from the item.
///
/// The paper's `P(D_q > d and D_i > d)` counts third points that both are compared with; queries and items are not compared
/// with the same points, so they count as independent here. [`joint`] is the paper's form for a bank of matching pairs.
///
/// Needs all scores of the items with the bank's queries and of the queries with the bank's items (or with all of the test's:
/// transductive), which is why there is a bank: its size bounds the memory. Not of the form s − h. Shares are coarse, so
/// many scores tie, and the lower index comes first.
///
/// # Cost
/// `4·(n_items · bank queries + n_queries · bank items)` bytes; a binary search in both lists for each score.
#[derive(Debug, Clone, PartialEq)]
pub struct EmpiricalProximity {
    items: Lists,
    queries: Lists,
}

impl EmpiricalProximity {
    /// # Shapes
    /// - `items`: for one item after the other its scores with all `bank_queries` queries of the bank
    /// - `queries`: for one query after the other its scores with all `bank_items` items of the bank
    ///
    /// # Panics
    /// A bank is empty, or a list is cut short.
    #[must_use]
    pub fn new(items: Vec<f32>, bank_queries: usize, queries: Vec<f32>, bank_items: usize) -> Self {
        Self { items: Lists::new(items, bank_queries), queries: Lists::new(queries, bank_items) }
    }
}

impl Correction for EmpiricalProximity {
    fn pair(&self, query: usize, item: usize, score: f32) -> f64 {
        self.queries.farther(query, score) * self.items.farther(item, score)
    }

    #[expect(clippy::cast_possible_truncation, reason = "rows are f32")]
    fn row(&self, query: usize, scores: &mut [f32]) {
        for (block, scores) in scores.chunks_mut(TOGETHER).enumerate() {
            let mut of_items = [0.0; TOGETHER];
            self.items.farther_of(block * TOGETHER, scores, &mut of_items);
            for (score, of_item) in scores.iter_mut().zip(of_items) {
                *score = (self.queries.farther(query, *score) * of_item) as f32;
            }
        }
    }

    fn shift(&self, _: usize) -> Option<&[f64]> {
        None
    }
}

/// Lists that are searched side by side: none is in the nearest caches, and so the waits for them overlap.
const TOGETHER: usize = 16;

/// Sorted lists of the same length, one after the other.
#[derive(Debug, Clone, PartialEq)]
struct Lists {
    scores: Vec<f32>,
    each: usize,
}

impl Lists {
    fn new(mut scores: Vec<f32>, each: usize) -> Self {
        assert!(each > 0 && scores.len().is_multiple_of(each), "{} scores in lists of {each}", scores.len());
        for list in scores.chunks_exact_mut(each) {
            list.sort_unstable_by(f32::total_cmp);
        }
        Self { scores, each }
    }

    /// The share of a list that is below a score.
    #[expect(clippy::cast_precision_loss, reason = "banks are far below 2⁵³")]
    fn farther(&self, which: usize, score: f32) -> f64 {
        let list = &self.scores[which * self.each..][..self.each];
        list.partition_point(|&other| other < score) as f64 / self.each as f64
    }
}

impl Lists {
    /// [`Lists::farther`] of at most [`TOGETHER`] lists from `first` on, a score each.
    #[expect(clippy::cast_precision_loss, reason = "banks are far below 2⁵³")]
    fn farther_of(&self, first: usize, scores: &[f32], shares: &mut [f64; TOGETHER]) {
        let mut places = [0; TOGETHER];
        let starts = (first..).map(|list| list * self.each);
        let mut size = self.each;
        while size > 1 {
            let half = size / 2;
            for ((place, score), start) in places.iter_mut().zip(scores).zip(starts.clone()) {
                *place += if self.scores[start + *place + half - 1] < *score { half } else { 0 };
            }
            size -= half;
        }
        for (((share, place), score), start) in shares.iter_mut().zip(places).zip(scores).zip(starts) {
            *share = (place + usize::from(self.scores[start + place] < *score)) as f64 / self.each as f64;
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
        from_query as f64 / of_queries.items as f64 * (from_item as f64 / of_items.queries as f64)
    })
}
