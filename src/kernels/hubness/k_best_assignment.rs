//! The k assignments with the largest sums of scores, best first.
//!
//! Murty, "An algorithm for ranking all the assignments in order of increasing cost", Operations Research 16, 1968.
//! Each subproblem is solved by one shortest path from the solution of its parent: Miller, Stone, Cox, "Optimizing
//! Murty's ranked assignment method", IEEE Transactions on Aerospace and Electronic Systems 33, 1997. This needs the
//! dual variables of a solution, which libraries do not expose, so the first assignment is computed here too.

/// Assignment problem of queries, each of which gets one item, and items with a capacity. The total capacity is at
/// least the number of queries.
pub struct CapacitatedAssignment<'s> {
    /// Number of queries.
    pub queries: usize,
    /// Number of items.
    pub items: usize,
    /// Largest number of queries of an item.
    pub item_capacity: usize,
    /// Score of a query and an item; finite.
    pub score: &'s dyn Fn(usize, usize) -> f64,
}

/// Computes the `k` assignments with the largest sums of scores, best first. Each is given as an item for each query.
/// All are different; there are fewer than `k` if no more exist. The order of sums that differ by rounding only is
/// deterministic, but arbitrary.
///
/// `goes_on` is called before each assignment except the first; the search stops when it returns false.
///
/// # Cost
/// `O(k · queries)` shortest paths of `O(queries · items)` time each. Most of them end early, when they become worse
/// than the k best known assignments. `O(k · (queries + items))` memory.
///
/// # Panics
/// The total capacity is less than the number of queries.
#[must_use]
pub fn k_best_assignments(
    problem: &CapacitatedAssignment<'_>,
    k: usize,
    mut goes_on: impl FnMut() -> bool,
) -> Vec<Vec<usize>> {
    assert!(
        problem.items.saturating_mul(problem.item_capacity) >= problem.queries,
        "the total capacity is less than the number of queries"
    );
    let mut found: Vec<SolvedSubproblem> = Vec::new();
    // Open subproblems by ascending loss: loss, parent assignment, and the first query that gets another item.
    let mut open: Vec<(f64, usize, usize)> = Vec::new();
    if k > 0 {
        found.push(SolvedSubproblem::solve(problem));
    }
    while let Some(last) = found.len().checked_sub(1).filter(|_| found.len() < k && goes_on()) {
        let expected = k - found.len();
        let from = &found[last];
        let queries_of = from.queries_of_items(problem.items);
        // In a child subproblem the first queries keep their items, and the next query gets a different one.
        for query in from.fixed..problem.queries {
            let max_loss = open.get(expected - 1).map_or(f64::INFINITY, |&(loss, ..)| loss);
            if let Some(path) =
                from.shortest_path(problem, &queries_of, query, Some(&from.excluded_for(query)), max_loss - from.loss)
            {
                let loss = from.loss + path.length;
                let place = open.partition_point(|&(other, ..)| other <= loss);
                open.insert(place, (loss, last, query));
                open.truncate(expected);
            }
        }
        if open.is_empty() {
            break;
        }
        let (loss, parent, query) = open.remove(0);
        let from = &found[parent];
        let without = from.excluded_for(query);
        let path =
            from.shortest_path(problem, &from.queries_of_items(problem.items), query, Some(&without), f64::INFINITY);
        let mut next = from.clone();
        if let Some(path) = path {
            next.augment(query, &path);
        }
        (next.loss, next.fixed, next.excluded) = (loss, query, without);
        found.push(next);
    }
    found.into_iter().map(|solved| solved.item_of).collect()
}

/// Subproblem with its optimal assignment and dual variables that prove optimality: `−s(q, i) ≥ dual(q) + dual(i)` for
/// every pair, with equality for assigned pairs. Free capacity is assigned to a dummy query, whose scores are 0.
#[derive(Debug, Clone)]
struct SolvedSubproblem {
    /// Item of every query.
    item_of: Vec<usize>,
    query_duals: Vec<f64>,
    item_duals: Vec<f64>,
    dummy_dual: f64,
    /// Free capacity of every item.
    free_capacity: Vec<usize>,
    /// Difference of the largest sum of all assignments and the sum of this one.
    loss: f64,
    /// Number of first queries whose items are fixed in the subproblem.
    fixed: usize,
    /// Items that the next query may not have in the subproblem.
    excluded: Vec<usize>,
}

/// Query before an item on an augmenting path.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Predecessor {
    Query(usize),
    Dummy,
}

/// Shortest augmenting path: gives a query another item, the queries of that item others, and so on.
#[derive(Debug)]
struct AugmentingPath {
    length: f64,
    end: usize,
    /// Distance of every item from the query.
    distance: Vec<f64>,
    predecessor: Vec<Predecessor>,
    visited: Vec<bool>,
    /// First visited item with free capacity, where the dummy query gives up a place, and its distance.
    dummy_item: Option<(usize, f64)>,
}

impl SolvedSubproblem {
    /// Computes the optimal assignment by adding one query after the other.
    fn solve(problem: &CapacitatedAssignment<'_>) -> Self {
        let mut this = Self {
            item_of: Vec::new(),
            query_duals: Vec::new(),
            item_duals: vec![0.0; problem.items],
            dummy_dual: 0.0,
            free_capacity: vec![problem.item_capacity; problem.items],
            loss: 0.0,
            fixed: 0,
            excluded: Vec::new(),
        };
        let mut queries_of = vec![Vec::new(); problem.items];
        for query in 0..problem.queries {
            let reduced_costs = (0..problem.items).map(|item| -(problem.score)(query, item) - this.item_duals[item]);
            this.query_duals.push(reduced_costs.fold(f64::INFINITY, f64::min));
            if let Some(path) = this.shortest_path(problem, &queries_of, query, None, f64::INFINITY) {
                this.free_capacity[path.end] -= 1;
                this.item_of.push(path.end);
                this.augment(query, &path);
            }
            queries_of = this.queries_of_items(problem.items);
        }
        this
    }

    /// Queries of every item.
    fn queries_of_items(&self, items: usize) -> Vec<Vec<usize>> {
        let mut queries_of = vec![Vec::new(); items];
        self.item_of.iter().enumerate().for_each(|(query, &item)| queries_of[item].push(query));
        queries_of
    }

    /// Items that `query` may not have in the child subproblem in which the queries before it keep their items.
    fn excluded_for(&self, query: usize) -> Vec<usize> {
        let more: &[usize] = if query == self.fixed { &self.excluded } else { &[] };
        [more, &[self.item_of[query]]].concat()
    }

    /// Shortest augmenting path (Dijkstra) from `query`. With `without`, the path ends at the item that the query
    /// leaves, avoids the items of `without` as its first step, and passes through later queries only. Otherwise the
    /// query has no item yet, and the path ends at an item with free capacity. `None` if there is no path shorter than
    /// `max_length`.
    fn shortest_path(
        &self,
        problem: &CapacitatedAssignment<'_>,
        queries_of: &[Vec<usize>],
        query: usize,
        without: Option<&[usize]>,
        max_length: f64,
    ) -> Option<AugmentingPath> {
        let items = problem.items;
        let mut path = AugmentingPath {
            length: f64::INFINITY,
            end: 0,
            distance: vec![f64::INFINITY; items],
            predecessor: vec![Predecessor::Query(query); items],
            visited: vec![false; items],
            dummy_item: None,
        };
        let relax = |path: &mut AugmentingPath, from: f64, predecessor: Predecessor, excluded: &[usize]| {
            for item in 0..items {
                let reduced = match predecessor {
                    Predecessor::Query(query) => {
                        -(problem.score)(query, item) - self.query_duals[query] - self.item_duals[item]
                    }
                    Predecessor::Dummy => -self.dummy_dual - self.item_duals[item],
                };
                let distance = from + reduced.max(0.0);
                if distance < path.distance[item] && !path.visited[item] && !excluded.contains(&item) {
                    (path.distance[item], path.predecessor[item]) = (distance, predecessor);
                }
            }
        };
        relax(&mut path, 0.0, Predecessor::Query(query), without.unwrap_or_default());
        loop {
            let rest = (0..items).filter(|&item| !path.visited[item]);
            let next = rest.reduce(|a, b| if path.distance[b] < path.distance[a] { b } else { a })?;
            let distance = path.distance[next];
            if distance >= max_length || distance.is_infinite() {
                return None;
            }
            if without.map_or(self.free_capacity[next] > 0, |_| next == self.item_of[query]) {
                (path.length, path.end) = (distance, next);
                return Some(path);
            }
            path.visited[next] = true;
            for &other in queries_of[next].iter().filter(|&&other| without.is_none() || other > query) {
                relax(&mut path, distance, Predecessor::Query(other), &[]);
            }
            if self.free_capacity[next] > 0 && path.dummy_item.is_none() {
                path.dummy_item = Some((next, distance));
                relax(&mut path, distance, Predecessor::Dummy, &[]);
            }
        }
    }

    /// Reassigns the items along the path and updates the dual variables.
    fn augment(&mut self, query: usize, path: &AugmentingPath) {
        let gain = |item: usize| if path.visited[item] { path.length - path.distance[item] } else { 0.0 };
        for (other, &item) in self.item_of.iter().enumerate() {
            self.query_duals[other] += if other == query { path.length } else { gain(item) };
        }
        for item in 0..self.item_duals.len() {
            self.item_duals[item] -= gain(item);
        }
        self.dummy_dual += path.dummy_item.map_or(0.0, |(_, distance)| path.length - distance);
        let mut item = path.end;
        loop {
            match (path.predecessor[item], path.dummy_item) {
                (Predecessor::Query(other), _) => {
                    let before = std::mem::replace(&mut self.item_of[other], item);
                    if other == query {
                        return;
                    }
                    item = before;
                }
                (Predecessor::Dummy, dummy_item) => {
                    self.free_capacity[item] += 1;
                    item = dummy_item.map_or(item, |(item, _)| item);
                    self.free_capacity[item] -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use test_data::hubness::{golden, numbers, size};

    use super::super::testing::golden_scores;
    use super::*;
    use crate::random::Rng;

    fn sum(way: &[usize], score: &dyn Fn(usize, usize) -> f64) -> f64 {
        way.iter().enumerate().map(|(query, &item)| score(query, item)).sum()
    }

    /// All assignments by descending sum.
    fn all(problem: &CapacitatedAssignment<'_>) -> Vec<Vec<usize>> {
        let mut ways: Vec<Vec<usize>> = vec![Vec::new()];
        for _ in 0..problem.queries {
            let longer = |way: Vec<usize>| -> Vec<Vec<usize>> {
                let fits = |item: &usize| way.iter().filter(|other| *other == item).count() < problem.item_capacity;
                (0..problem.items).filter(fits).map(|item| [way.as_slice(), &[item]].concat()).collect()
            };
            ways = ways.into_iter().flat_map(longer).collect();
        }
        ways.sort_by(|a, b| sum(b, problem.score).total_cmp(&sum(a, problem.score)));
        ways
    }

    #[test]
    fn the_k_best_equal_those_of_exhaustive_search() {
        let mut rng = Rng::new(1, &[]);
        for (queries, items, each) in
            [(1, 1, 1), (1, 4, 1), (3, 3, 1), (4, 6, 1), (5, 5, 1), (5, 3, 2), (6, 2, 3), (6, 3, 5)]
        {
            for round in 0..20 {
                let random: Vec<f64> = (0..queries * items).map(|_| rng.uniform() * 2.0 - 1.0).collect();
                let score = |query: usize, item: usize| random[query * items + item];
                let problem = CapacitatedAssignment { queries, items, item_capacity: each, score: &score };
                let expected = all(&problem);
                let k = [1, 2, 12, 60][round % 4];
                let got = k_best_assignments(&problem, k, || true);
                assert_eq!(got, expected[..expected.len().min(k)], "{queries} {items} {each} {k}");
            }
        }
        let problem = CapacitatedAssignment { queries: 0, items: 3, item_capacity: 1, score: &|_, _| 0.0 };
        assert_eq!(
            (k_best_assignments(&problem, 5, || true), k_best_assignments(&problem, 0, || true).len()),
            (vec![vec![]], 0)
        );
    }

    /// Assignments with equal sums may come in any order, but none comes twice.
    #[test]
    fn equal_scores_give_different_assignments() {
        let problem = CapacitatedAssignment { queries: 4, items: 3, item_capacity: 2, score: &|_, _| 0.5 };
        let mut got = k_best_assignments(&problem, 1000, || true);
        assert_eq!(got.len(), all(&problem).len());
        got.sort();
        got.dedup();
        assert_eq!(got.len(), all(&problem).len());
    }

    /// Compares with the sums of Murty's algorithm over `scipy.optimize.linear_sum_assignment`.
    #[test]
    fn sums_equal_those_of_scipy() {
        for (number, case) in (1u32..).zip(golden()["cases"].as_array().expect("a list")) {
            let s = golden_scores(case, 1000 * number, size(case, "queries"), size(case, "items"));
            let score = |query: usize, item: usize| s.at(query, item);
            let each = s.queries.div_ceil(s.items);
            let problem =
                CapacitatedAssignment { queries: s.queries, items: s.items, item_capacity: each, score: &score };
            let expected = numbers(&case["k_best_assignments"]);
            let got: Vec<f64> = k_best_assignments(&problem, 8, || true).iter().map(|way| sum(way, &score)).collect();
            assert_eq!(got.len(), expected.len(), "{}", case["name"]);
            assert!(
                got.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12),
                "{}: {got:?} {expected:?}",
                case["name"]
            );
        }
    }
}
