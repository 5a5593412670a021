//! Linear assignment, solved exactly by the Hungarian method (Kuhn-Munkres) of the crate `pathfinding`.

use pathfinding::kuhn_munkres::{Weights, kuhn_munkres};

use pairloom_kernels::hubness::assignment::AssignmentProblem;

/// Assigns a column to each row, no column twice, such that the sum of scores is the largest.
///
/// Scores are rounded to integers, in steps of `(rows + 1) · 2⁻⁶⁰` of the largest absolute score. With smaller steps,
/// sums of the method could overflow. The sum of the assignment is the largest up to `rows` steps.
///
/// # Cost
/// `O(rows² · columns)` time, `8·rows·columns` bytes. Thousands of rows take seconds, tens of thousands hours.
#[must_use]
pub fn solve_assignment(problem: &AssignmentProblem<'_>) -> Vec<usize> {
    let places = || (0..problem.rows).flat_map(|row| (0..problem.columns).map(move |column| (row, column)));
    let largest = places().fold(0.0, |most: f64, (row, column)| most.max((problem.score)(row, column).abs()));
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2⁵³")]
    let scale = 2f64.powi(60) / (problem.rows as f64 + 1.0) / if largest > 0.0 { largest } else { 1.0 };
    #[expect(clippy::cast_possible_truncation, reason = "at most 2⁶⁰")]
    let weights = places().map(|(row, column)| ((problem.score)(row, column) * scale).round() as i64).collect();
    let grid = WeightMatrix { rows: problem.rows, columns: problem.columns, weights, negative: false };
    if problem.rows == 0 { Vec::new() } else { kuhn_munkres(&grid).1 }
}

/// Integer weights, row-major, for `pathfinding`.
struct WeightMatrix {
    rows: usize,
    columns: usize,
    weights: Vec<i64>,
    negative: bool,
}

impl Weights<i64> for WeightMatrix {
    fn rows(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn at(&self, row: usize, column: usize) -> i64 {
        let weight = self.weights[row * self.columns + column];
        if self.negative { -weight } else { weight }
    }

    fn neg(&self) -> Self {
        Self { weights: self.weights.clone(), negative: !self.negative, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use test_data::hubness::{golden, scores, size};

    use super::*;
    use pairloom_kernels::hubness::assignment::assignment_rounds;
    use pairloom_kernels::hubness::k_best_assignment::{CapacitatedAssignment, k_best_assignments};
    use pairloom_kernels::random::Rng;

    #[test]
    fn the_best_assignment_is_the_first_of_the_k_best() {
        let mut rng = Rng::new(1, &[]);
        for (rows, columns) in [(1, 1), (1, 4), (3, 3), (20, 30), (40, 40)] {
            let scores: Vec<f64> = (0..rows * columns).map(|_| rng.uniform() * 2.0 - 1.0).collect();
            let score = |row: usize, column: usize| scores[row * columns + column];
            let places = CapacitatedAssignment { queries: rows, items: columns, item_capacity: 1, score: &score };
            let expected = k_best_assignments(&places, 1, || true);
            assert_eq!(expected, [solve_assignment(&AssignmentProblem { rows, columns, score: &score })]);
        }
    }

    /// The sum of scores is that of `scipy.optimize.linear_sum_assignment`.
    #[test]
    fn the_sum_is_scipys() {
        for (number, case) in (1u32..).zip(golden()["cases"].as_array().expect("a list")) {
            let (queries, items) = (size(case, "queries"), size(case, "items"));
            let score = scores(case, 1000 * number, queries, items);
            let got = assignment_rounds([queries, items], 1, &score, solve_assignment);
            let sum: f64 = got.iter().enumerate().map(|(query, items)| score(query, items[0])).sum();
            assert!((sum - case["assignment"].as_f64().expect("a number")).abs() < 1e-12, "{}", case["name"]);
        }
    }

    #[test]
    fn rounds_give_other_items_and_never_too_many_of_one() {
        let mut rng = Rng::new(2, &[]);
        for (queries, items, k) in [(4, 4, 2), (3, 7, 5), (10, 2, 2), (11, 3, 2), (6, 6, 6), (5, 3, 9)] {
            let scores: Vec<f64> = (0..queries * items).map(|_| rng.uniform() * 2.0 - 1.0).collect();
            let got =
                assignment_rounds([queries, items], k, |query, item| scores[query * items + item], solve_assignment);
            for round in 0..k.min(items) {
                let column: Vec<usize> = got.iter().filter_map(|items| items.get(round).copied()).collect();
                let most = (0..items).map(|item| column.iter().filter(|&&other| other == item).count()).max();
                assert!(most <= Some(queries.div_ceil(items)), "{queries} {items}: {most:?}");
            }
            for items in got {
                assert_eq!(items.iter().collect::<std::collections::BTreeSet<_>>().len(), items.len());
            }
        }
        // Both want item 0. The sum decides: 0.9 + 0.1 < 0.8 + 0.7.
        let scores = [0.9, 0.7, 0.8, 0.1];
        assert_eq!(assignment_rounds([2, 2], 2, |q, i| scores[q * 2 + i], solve_assignment), [[1, 0], [0, 1]]);
        assert_eq!(assignment_rounds([2, 0], 1, |_, _| 0.0, solve_assignment), [[], []] as [[usize; 0]; 2]);
    }

    #[test]
    fn equal_scores_are_assigned_too() {
        let columns = solve_assignment(&AssignmentProblem { rows: 3, columns: 5, score: &|_, _| 0.0 });
        assert_eq!(columns.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
        assert!(solve_assignment(&AssignmentProblem { rows: 0, columns: 5, score: &|_, _| 0.0 }).is_empty());
    }
}
