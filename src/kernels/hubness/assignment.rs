//! Assignment: every query gets an item such that the sum of scores is the largest that there is.
//!
//! Kuhn, "The Hungarian method for the assignment problem", 1955. What solves a single problem is the caller's.

/// Scores of a problem; no more rows than columns. What solves it returns a column for each row, no column twice, such that
/// the sum of their scores is the largest.
pub struct Problem<'s> {
    /// Queries.
    pub rows: usize,
    /// Items, or copies of them.
    pub columns: usize,
    /// The score of a row and a column; finite.
    pub score: &'s dyn Fn(usize, usize) -> f64,
}

/// The `k` best items of every query by assignments: first the best assignment of all queries, then the best one of pairs that
/// are left, and so on. So the first items are the exact assignment, and items are as even after each as before.
///
/// Where there are more queries than items, each item has a place for its share of the queries, rounded up, in every round.
/// Transductive.
///
/// # Shapes
/// - `score(query, item)`: a finite number for each
/// - result: for every query its items; fewer than `k` where it got none that it did not have
///
/// # Cost
/// `k` assignments, each `O(n³)` time for n queries and as many places.
pub fn assignment_rounds(
    [queries, items]: [usize; 2],
    k: usize,
    score: impl Fn(usize, usize) -> f64,
    mut solve: impl FnMut(&Problem<'_>) -> Vec<usize>,
) -> Vec<Vec<usize>> {
    let mut got: Vec<Vec<usize>> = vec![Vec::new(); queries];
    if items == 0 || queries == 0 {
        return got;
    }
    let copies = queries.div_ceil(items);
    let forbidden = below_all([queries, items], &score);
    for _ in 0..k.min(items) {
        let free = |row: usize, column: usize| {
            let item = column / copies;
            if got[row].contains(&item) { forbidden } else { score(row, item) }
        };
        let columns = solve(&Problem { rows: queries, columns: items * copies, score: &free });
        for (row, column) in columns.into_iter().enumerate() {
            let item = column / copies;
            if !got[row].contains(&item) {
                got[row].push(item);
            }
        }
    }
    got
}

/// A score so low that no assignment has it which can do without.
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2⁵³")]
fn below_all([rows, columns]: [usize; 2], score: &dyn Fn(usize, usize) -> f64) -> f64 {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for row in 0..rows {
        for column in 0..columns {
            let score = score(row, column);
            (low, high) = (low.min(score), high.max(score));
        }
    }
    low - (high - low + 1.0) * (rows as f64 + 1.0)
}
