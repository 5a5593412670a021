//! The k assignments of the largest sums, best first.
//!
//! Murty, "An algorithm for ranking all the assignments in order of increasing cost", Operations Research 16, 1968. That each
//! problem is solved by one shortest path from the one that it was made of: Miller, Stone, Cox, "Optimizing Murty's ranked
//! assignment method", IEEE Transactions on Aerospace and Electronic Systems 33, 1997. It needs the prices of a solution, which
//! libraries keep to themselves, and so the first assignment is found in the same way.

/// Queries, each of which gets one item, and items, each with so many places. There are no fewer places than queries.
pub struct Places<'s> {
    /// Queries.
    pub queries: usize,
    /// Items.
    pub items: usize,
    /// Queries that an item takes, at most.
    pub each: usize,
    /// The score of a query and an item; finite.
    pub score: &'s dyn Fn(usize, usize) -> f64,
}

/// The `k` assignments whose sums of scores are the largest, best first: an item for each query. No two are equal; there may be
/// fewer than `k`. Sums that differ by no more than the rounding of f64 are in any order, which is always the same.
///
/// `goes_on` is asked before each but the first; with a no there are no more.
///
/// # Cost
/// `O(k · queries)` shortest paths of `O(queries · items)` time each; most end early, since what is worse than the k best that
/// are known is not looked at. `O(k · (queries + items))` memory.
///
/// # Panics
/// There are fewer places than queries.
#[must_use]
pub fn k_best_assignments(problem: &Places<'_>, k: usize, mut goes_on: impl FnMut() -> bool) -> Vec<Vec<usize>> {
    assert!(problem.items.saturating_mul(problem.each) >= problem.queries, "fewer places than queries");
    let mut found: Vec<Solved> = Vec::new();
    // What is next: loss, the assignment that it is made of, and the first query that gets another item; least loss first.
    let mut open: Vec<(f64, usize, usize)> = Vec::new();
    if k > 0 {
        found.push(Solved::best(problem));
    }
    while let Some(last) = found.len().checked_sub(1).filter(|_| found.len() < k && goes_on()) {
        let wanted = k - found.len();
        let from = &found[last];
        let rows_of = from.rows_of(problem.items);
        // All assignments of this kind have the items of some first queries, and not that of the next one.
        for query in from.fixed..problem.queries {
            let most = open.get(wanted - 1).map_or(f64::INFINITY, |&(loss, ..)| loss);
            if let Some(path) = from.path(problem, &rows_of, query, Some(&from.without(query)), most - from.loss) {
                let loss = from.loss + path.length;
                let place = open.partition_point(|&(other, ..)| other <= loss);
                open.insert(place, (loss, last, query));
                open.truncate(wanted);
            }
        }
        if open.is_empty() {
            break;
        }
        let (loss, made_of, query) = open.remove(0);
        let from = &found[made_of];
        let without = from.without(query);
        let path = from.path(problem, &from.rows_of(problem.items), query, Some(&without), f64::INFINITY);
        let mut next = from.clone();
        if let Some(path) = path {
            next.follow(query, &path);
        }
        (next.loss, next.fixed, next.excluded) = (loss, query, without);
        found.push(next);
    }
    found.into_iter().map(|solved| solved.item_of).collect()
}

/// An assignment that is the best of its kind, with prices that prove it: `−s(q, i) ≥ prices(q) + prices(i)` for every pair, and
/// equal for those that are assigned. Free places belong to nobody, whose scores are 0.
#[derive(Debug, Clone)]
struct Solved {
    item_of: Vec<usize>,
    queries: Vec<f64>,
    items: Vec<f64>,
    nobody: f64,
    free: Vec<usize>,
    /// How much less its sum is than the largest.
    loss: f64,
    /// Of its kind all have the items of the first queries,
    fixed: usize,
    /// and none has one of these for the next query.
    excluded: Vec<usize>,
}

/// Who takes an item on the way.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Taker {
    Query(usize),
    Nobody,
}

/// The shortest way to give a query another item, and those who have it others.
#[derive(Debug)]
struct Path {
    length: f64,
    end: usize,
    /// Of every item.
    distance: Vec<f64>,
    taker: Vec<Taker>,
    passed: Vec<bool>,
    /// The item of whose places nobody left one, and its distance.
    left: Option<(usize, f64)>,
}

impl Solved {
    /// The best assignment of all: one query after the other takes its place.
    fn best(problem: &Places<'_>) -> Self {
        let mut this = Self {
            item_of: Vec::new(),
            queries: Vec::new(),
            items: vec![0.0; problem.items],
            nobody: 0.0,
            free: vec![problem.each; problem.items],
            loss: 0.0,
            fixed: 0,
            excluded: Vec::new(),
        };
        let mut rows_of = vec![Vec::new(); problem.items];
        for query in 0..problem.queries {
            let prices = (0..problem.items).map(|item| -(problem.score)(query, item) - this.items[item]);
            this.queries.push(prices.fold(f64::INFINITY, f64::min));
            if let Some(path) = this.path(problem, &rows_of, query, None, f64::INFINITY) {
                this.free[path.end] -= 1;
                this.item_of.push(path.end);
                this.follow(query, &path);
            }
            rows_of = this.rows_of(problem.items);
        }
        this
    }

    /// The queries of every item.
    fn rows_of(&self, items: usize) -> Vec<Vec<usize>> {
        let mut rows_of = vec![Vec::new(); items];
        self.item_of.iter().enumerate().for_each(|(query, &item)| rows_of[item].push(query));
        rows_of
    }

    /// What a query may not have, where those before it keep their items and it does not.
    fn without(&self, query: usize) -> Vec<usize> {
        let more: &[usize] = if query == self.fixed { &self.excluded } else { &[] };
        [more, &[self.item_of[query]]].concat()
    }

    /// The shortest path (Dijkstra) from a query to the place that it leaves, by way of queries after it, without some items; or
    /// to a free place, where it has none yet. `None` if it is longer than `most`, or there is none.
    fn path(
        &self,
        problem: &Places<'_>,
        rows_of: &[Vec<usize>],
        query: usize,
        without: Option<&[usize]>,
        most: f64,
    ) -> Option<Path> {
        let items = problem.items;
        let mut path = Path {
            length: f64::INFINITY,
            end: 0,
            distance: vec![f64::INFINITY; items],
            taker: vec![Taker::Query(query); items],
            passed: vec![false; items],
            left: None,
        };
        let closer = |path: &mut Path, from: f64, taker: Taker, not: &[usize]| {
            for item in 0..items {
                let reduced = match taker {
                    Taker::Query(query) => -(problem.score)(query, item) - self.queries[query] - self.items[item],
                    Taker::Nobody => -self.nobody - self.items[item],
                };
                let distance = from + reduced.max(0.0);
                if distance < path.distance[item] && !path.passed[item] && !not.contains(&item) {
                    (path.distance[item], path.taker[item]) = (distance, taker);
                }
            }
        };
        closer(&mut path, 0.0, Taker::Query(query), without.unwrap_or_default());
        loop {
            let rest = (0..items).filter(|&item| !path.passed[item]);
            let next = rest.reduce(|a, b| if path.distance[b] < path.distance[a] { b } else { a })?;
            let distance = path.distance[next];
            if distance >= most || distance.is_infinite() {
                return None;
            }
            if without.map_or(self.free[next] > 0, |_| next == self.item_of[query]) {
                (path.length, path.end) = (distance, next);
                return Some(path);
            }
            path.passed[next] = true;
            for &other in rows_of[next].iter().filter(|&&other| without.is_none() || other > query) {
                closer(&mut path, distance, Taker::Query(other), &[]);
            }
            if self.free[next] > 0 && path.left.is_none() {
                path.left = Some((next, distance));
                closer(&mut path, distance, Taker::Nobody, &[]);
            }
        }
    }

    /// Gives everybody on the path what the path says, and makes the prices right.
    fn follow(&mut self, query: usize, path: &Path) {
        let gain = |item: usize| if path.passed[item] { path.length - path.distance[item] } else { 0.0 };
        for (other, &item) in self.item_of.iter().enumerate() {
            self.queries[other] += if other == query { path.length } else { gain(item) };
        }
        for item in 0..self.items.len() {
            self.items[item] -= gain(item);
        }
        self.nobody += path.left.map_or(0.0, |(_, distance)| path.length - distance);
        let mut item = path.end;
        loop {
            match (path.taker[item], path.left) {
                (Taker::Query(other), _) => {
                    let before = std::mem::replace(&mut self.item_of[other], item);
                    if other == query {
                        return;
                    }
                    item = before;
                }
                (Taker::Nobody, left) => {
                    self.free[item] += 1;
                    item = left.map_or(item, |(item, _)| item);
                    self.free[item] -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use test_data::hubness::{golden, numbers, size};

    use super::super::golden::scores;
    use super::*;
    use crate::sample::Sample;

    fn sum(way: &[usize], score: &dyn Fn(usize, usize) -> f64) -> f64 {
        way.iter().enumerate().map(|(query, &item)| score(query, item)).sum()
    }

    /// Every assignment, the largest sum first.
    fn all(problem: &Places<'_>) -> Vec<Vec<usize>> {
        let mut ways: Vec<Vec<usize>> = vec![Vec::new()];
        for _ in 0..problem.queries {
            let longer = |way: Vec<usize>| -> Vec<Vec<usize>> {
                let fits = |item: &usize| way.iter().filter(|other| *other == item).count() < problem.each;
                (0..problem.items).filter(fits).map(|item| [way.as_slice(), &[item]].concat()).collect()
            };
            ways = ways.into_iter().flat_map(longer).collect();
        }
        ways.sort_by(|a, b| sum(b, problem.score).total_cmp(&sum(a, problem.score)));
        ways
    }

    #[test]
    fn the_best_are_those_of_looking_at_all() {
        let mut sample = Sample::new(1, &[]);
        for (queries, items, each) in
            [(1, 1, 1), (1, 4, 1), (3, 3, 1), (4, 6, 1), (5, 5, 1), (5, 3, 2), (6, 2, 3), (6, 3, 5)]
        {
            for round in 0..20 {
                let random: Vec<f64> = (0..queries * items).map(|_| sample.unit() * 2.0 - 1.0).collect();
                let score = |query: usize, item: usize| random[query * items + item];
                let problem = Places { queries, items, each, score: &score };
                let wanted = all(&problem);
                let k = [1, 2, 12, 60][round % 4];
                let got = k_best_assignments(&problem, k, || true);
                assert_eq!(got, wanted[..wanted.len().min(k)], "{queries} {items} {each} {k}");
            }
        }
        let problem = Places { queries: 0, items: 3, each: 1, score: &|_, _| 0.0 };
        assert_eq!(
            (k_best_assignments(&problem, 5, || true), k_best_assignments(&problem, 0, || true).len()),
            (vec![vec![]], 0)
        );
    }

    /// Where sums are equal, any of them may come first, but none comes twice.
    #[test]
    fn equal_scores_give_different_assignments() {
        let problem = Places { queries: 4, items: 3, each: 2, score: &|_, _| 0.5 };
        let mut got = k_best_assignments(&problem, 1000, || true);
        assert_eq!(got.len(), all(&problem).len());
        got.sort();
        got.dedup();
        assert_eq!(got.len(), all(&problem).len());
    }

    /// The sums are those of Murty's algorithm over `scipy.optimize.linear_sum_assignment`.
    #[test]
    fn sums_are_scipys() {
        for (number, case) in (1u32..).zip(golden()["cases"].as_array().expect("a list")) {
            let s = scores(case, 1000 * number, size(case, "queries"), size(case, "items"));
            let score = |query: usize, item: usize| s.at(query, item);
            let each = s.queries.div_ceil(s.items);
            let problem = Places { queries: s.queries, items: s.items, each, score: &score };
            let wanted = numbers(&case["k_best_assignments"]);
            let got: Vec<f64> = k_best_assignments(&problem, 8, || true).iter().map(|way| sum(way, &score)).collect();
            assert_eq!(got.len(), wanted.len(), "{}", case["name"]);
            assert!(
                got.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-12),
                "{}: {got:?} {wanted:?}",
                case["name"]
            );
        }
    }
}
