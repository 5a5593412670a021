//! Rounds of assignments: each assigns an item to every query such that the sum of scores is maximal.
//!
//! Kuhn, "The Hungarian method for the assignment problem", 1955. The caller provides the solver of a single
//! assignment.

/// Assignment problem with no more rows than columns. A solution is a different column for each row such that the sum
/// of their scores is maximal.
pub struct AssignmentProblem<'s> {
    /// Queries.
    pub rows: usize,
    /// Items, or copies of items.
    pub columns: usize,
    /// The score of a row and a column; finite.
    pub score: &'s dyn Fn(usize, usize) -> f64,
}

/// Computes `k` items for every query by `k` rounds of assignment. The first round is the optimal assignment; each
/// further round is the optimal assignment of pairs that no earlier round has taken. So after each round all items are
/// matched about equally often.
///
/// If there are more queries than items, each item takes ⌈queries / items⌉ queries in every round. Transductive.
///
/// # Shapes
/// - `score(query, item)`: finite
/// - result: the items of every query; fewer than `k` if a round gave it only items that it already had
///
/// # Cost
/// `k` assignments, each `O(n³)` time for n queries and as many places.
pub fn assignment_rounds(
    [queries, items]: [usize; 2],
    k: usize,
    score: impl Fn(usize, usize) -> f64,
    mut solve: impl FnMut(&AssignmentProblem<'_>) -> Vec<usize>,
) -> Vec<Vec<usize>> {
    let mut got: Vec<Vec<usize>> = vec![Vec::new(); queries];
    if items == 0 || queries == 0 {
        return got;
    }
    let copies = queries.div_ceil(items);
    let forbidden = forbidden_score([queries, items], &score);
    for _ in 0..k.min(items) {
        let free = |row: usize, column: usize| {
            let item = column / copies;
            if got[row].contains(&item) { forbidden } else { score(row, item) }
        };
        let columns = solve(&AssignmentProblem { rows: queries, columns: items * copies, score: &free });
        for (row, column) in columns.into_iter().enumerate() {
            let item = column / copies;
            if !got[row].contains(&item) {
                got[row].push(item);
            }
        }
    }
    got
}

/// Score for forbidden pairs, so low that an optimal assignment has such a pair only if it cannot be avoided.
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2⁵³")]
fn forbidden_score([rows, columns]: [usize; 2], score: &dyn Fn(usize, usize) -> f64) -> f64 {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for row in 0..rows {
        for column in 0..columns {
            let score = score(row, column);
            (low, high) = (low.min(score), high.max(score));
        }
    }
    low - (high - low + 1.0) * (rows as f64 + 1.0)
}
