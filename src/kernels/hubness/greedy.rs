//! Greedy matching and relaxed greedy matching: the best pairs first, as long as neither end is taken too often.
//!
//! Liu and Ye, "Improved Text-Image Matching by Mitigating Visual Semantic Hubs", submitted to EMNLP 2019, algorithm 1, after
//! Kollias, Mohammadi, Grama, "Network Similarity Decomposition (NSD)", TKDE 2012.

use super::matrix::Matrix;
use super::problems::Problems;

/// All pairs of queries and items, the highest score first (of equal scores the lower query, then the lower item), are taken
/// one after the other if the query has fewer than k items and the item fewer queries than its capacity.
///
/// One matching for each cut-off k: a query is hit if a matching item is among the at most k that it got. λ = 1 is greedy
/// matching, λ = ∞ the nearest neighbours. Scores are those of any method whose scores of different queries can be compared.
/// Transductive: every query's items depend on all queries.
///
/// # Cost
/// `O(Q·L·log Q)` with lists of L candidates ([`Matching`](super::matching::Matching)).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelaxedGreedy {
    /// Relaxation, λ ≥ 1: how many times its share of the queries an item may take.
    pub lambda: f64,
    /// How capacities follow from it.
    pub capacity: Capacity,
}

/// How many queries an item may be given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// `round(λ·k)` times the queries that there are for each item, rounded up, where there are more queries than items; the
    /// matching ends when every query has its k items. So five captions an image can all find their image.
    Scaled,
    /// The printed pseudo-code: `round(λ·k)`, and the end after `k·min(queries, items)` pairs. With five captions an image at
    /// most a fifth of the captions get an answer where λ·k rounds to k.
    Strict,
}

/// What a matching may not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Items of a query: the cut-off k.
    pub query: usize,
    /// Queries of an item.
    pub item: usize,
    /// Pairs altogether.
    pub pairs: usize,
}

impl RelaxedGreedy {
    /// What is wrong with the free numbers.
    #[must_use]
    pub fn problems(&self) -> Problems {
        let wrong = self.lambda.is_nan() || self.lambda < 1.0;
        wrong.then(|| ("lambda", format!("got {}, wanted at least 1", self.lambda))).into_iter().collect()
    }

    /// The limits of a matching for the cut-off `k`. Halves round up.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "λ is at least 1; more is cut off")]
    pub fn limits(&self, k: usize, queries: usize, items: usize) -> Limits {
        let relaxed = (self.lambda * k as f64 + 0.5).floor();
        match self.capacity {
            Capacity::Strict => Limits { query: k, item: relaxed as usize, pairs: k * queries.min(items) },
            Capacity::Scaled => {
                let share = (queries as f64 / items.max(1) as f64).max(1.0);
                Limits { query: k, item: (relaxed * share).ceil() as usize, pairs: k * queries }
            }
        }
    }
}

/// The definition: for every query its items, in the order in which it got them.
///
/// # Cost
/// `O(n·log n)` for n pairs: all of them are sorted.
#[must_use]
pub fn relaxed_greedy(scores: &Matrix, limits: Limits) -> Vec<Vec<usize>> {
    let mut pairs: Vec<usize> = (0..scores.values.len()).collect();
    // Stable, and adding 0 makes −0 and 0 one.
    pairs.sort_by(|&a, &b| (scores.values[b] + 0.0).total_cmp(&(scores.values[a] + 0.0)));
    let (mut rows, mut columns) = (vec![Vec::new(); scores.queries], vec![0; scores.items]);
    let mut matched = 0;
    for pair in pairs {
        let (query, item) = (pair / scores.items, pair % scores.items);
        if matched == limits.pairs {
            break;
        }
        if rows[query].len() < limits.query && columns[item] < limits.item {
            rows[query].push(item);
            columns[item] += 1;
            matched += 1;
        }
    }
    rows
}
