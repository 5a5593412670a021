//! Assignment: every query gets an item such that the sum of scores is the largest that there is.
//!
//! Kuhn, "The Hungarian method for the assignment problem", 1955; Murty, "An algorithm for ranking all the assignments in
//! order of increasing cost", Operations Research 16, 1968. What solves a single problem is the caller's.

use std::collections::BTreeSet;

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

/// The `k` assignments of the largest sums, best first: a column for each row (Murty). For small problems.
///
/// # Cost
/// `O(k · rows)` problems solved.
pub fn k_best_assignments(
    problem: &Problem<'_>,
    k: usize,
    mut solve: impl FnMut(&Problem<'_>) -> Vec<usize>,
) -> Vec<Vec<usize>> {
    let size = [problem.rows, problem.columns];
    let forbidden = below_all(size, problem.score);
    let mut best = |node: Node| -> Option<(f64, Vec<usize>, Node)> {
        let score = |row: usize, column: usize| {
            let fits = match node.fixed.get(row) {
                Some(&fixed) => fixed == column,
                None => !node.without.contains(&(row, column)),
            };
            if fits { (problem.score)(row, column) } else { forbidden }
        };
        let columns = solve(&Problem { rows: size[0], columns: size[1], score: &score });
        let scores: Vec<f64> = columns.iter().enumerate().map(|(row, &column)| score(row, column)).collect();
        let possible = scores.iter().all(|&score| score > forbidden);
        possible.then(|| (scores.iter().sum(), columns, node))
    };
    let mut open: Vec<_> = best(Node { fixed: Vec::new(), without: BTreeSet::new() }).into_iter().collect();
    let mut found = Vec::new();
    while found.len() < k {
        // The first of the best.
        let Some(at) = (0..open.len()).reduce(|a, b| if open[b].0 > open[a].0 { b } else { a }) else { break };
        let (_, columns, node) = open.swap_remove(at);
        // Every other assignment of this node agrees with it in some first rows, and not in the next one.
        for row in node.fixed.len()..size[0] {
            let mut without = node.without.clone();
            without.insert((row, columns[row]));
            open.extend(best(Node { fixed: columns[..row].to_vec(), without }));
        }
        found.push(columns);
    }
    found
}

/// A set of assignments: the first rows are fixed, some pairs are excluded.
struct Node {
    fixed: Vec<usize>,
    without: BTreeSet<(usize, usize)>,
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
