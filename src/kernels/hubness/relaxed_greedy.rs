//! Greedy matching and relaxed greedy matching: takes pairs by descending score while the query and the item have
//! capacity.
//!
//! Liu and Ye, "Improved Text-Image Matching by Mitigating Visual Semantic Hubs", submitted to EMNLP 2019, algorithm 1,
//! after Kollias, Mohammadi, Grama, "Network Similarity Decomposition (NSD)", TKDE 2012. For pools with too many pairs
//! to sort, lists of candidates are extended on demand ([`IncrementalMatching`]).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::method::{DenseScores, ParameterProblems};

/// Parameters of relaxed greedy matching. It visits all pairs of a query and an item by descending score (ties: the
/// lower query, then the lower item) and takes a pair if the query has fewer than k items and the item fewer queries
/// than its capacity.
///
/// There is one matching for each cut-off k: a query is a hit if one of its at most k items matches. λ = 1 is greedy
/// matching, λ = ∞ gives the nearest neighbours. Scores of different queries must be comparable. Transductive: the
/// items of a query depend on all queries.
///
/// # Cost
/// `O(Q·L·log Q)` with lists of L candidates
/// ([`IncrementalMatching`]).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GreedyRelaxation {
    /// Relaxation, λ ≥ 1: the capacity of an item, in multiples of its equal share of the queries.
    pub lambda: f64,
    /// Rule for the capacity of an item.
    pub capacity: CapacityRule,
}

/// Rule for the capacity of an item: the largest number of queries that it may be matched with. The rules differ if
/// there are more queries than items, as with five captions of each image.
///
/// The paper does not say how it applies its algorithm to five captions of each image. Its table 4 has R@1 above 20 % for
/// λ = 1 from text to image, which `strict` cannot reach. In its figure 3, N₁₀ is at most 20 for λ = 2, while `scaled`
/// allows 100. `slices` has both, with the N₁₀ of one slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapacityRule {
    /// `round(λ·k)`, multiplied by queries / items if there are more queries than items, rounded up. The matching ends
    /// when every query has k items. So all five captions of an image can be matched with it.
    #[default]
    Scaled,
    /// `round(λ·k)`, as in the pseudo-code of the paper on all captions. The matching ends after `k·min(queries, items)`
    /// pairs. With five captions of each image, at most a fifth of the captions get an item if λ·k rounds to k.
    Strict,
    /// `round(λ·k)` in each of several matchings, as the tables of the paper imply: the first captions of all images are
    /// matched with the images, then the second captions, and so on.
    Slices,
}

/// Slices of a direction: the first queries of all images, the second queries of all images, and so on.
///
/// # Shapes
/// - `image_of`: image of each query
/// - result: indices of the queries of each slice, ascending; one slice if every image has one query
#[must_use]
pub fn query_slices(image_of: &[usize]) -> Vec<Vec<usize>> {
    let mut seen = vec![0; image_of.iter().max().map_or(0, |last| last + 1)];
    let mut slices: Vec<Vec<usize>> = Vec::new();
    for (query, &image) in image_of.iter().enumerate() {
        if seen[image] == slices.len() {
            slices.push(Vec::new());
        }
        slices[seen[image]].push(query);
        seen[image] += 1;
    }
    slices
}

/// Limits of a matching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchingLimits {
    /// Largest number of items of a query: the cut-off k.
    pub items_per_query: usize,
    /// Largest number of queries of an item: its capacity.
    pub queries_per_item: usize,
    /// Largest number of pairs in total.
    pub total_pairs: usize,
}

impl GreedyRelaxation {
    /// Problems of the parameters.
    #[must_use]
    pub fn problems(&self) -> ParameterProblems {
        let wrong = self.lambda.is_nan() || self.lambda < 1.0;
        wrong.then(|| ("lambda", format!("got {}, expected at least 1", self.lambda))).into_iter().collect()
    }

    /// Limits of the matching for the cut-off `k`, or of the matching of each slice. Halves are rounded up. No query gets more
    /// than all items, whatever `k` is.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "λ is at least 1; large values saturate"
    )]
    pub fn limits(&self, k: usize, queries: usize, items: usize) -> MatchingLimits {
        let relaxed = (self.lambda * k as f64 + 0.5).floor();
        match self.capacity {
            CapacityRule::Strict | CapacityRule::Slices => MatchingLimits {
                items_per_query: k.min(items),
                queries_per_item: relaxed as usize,
                total_pairs: k.saturating_mul(queries.min(items)),
            },
            CapacityRule::Scaled => {
                let share = (queries as f64 / items.max(1) as f64).max(1.0);
                MatchingLimits {
                    items_per_query: k.min(items),
                    queries_per_item: (relaxed * share).ceil() as usize,
                    total_pairs: k.saturating_mul(queries),
                }
            }
        }
    }
}

/// The definition: returns the items of every query, in the order in which they were matched.
///
/// # Cost
/// `O(n·log n)` for n pairs: all of them are sorted.
#[must_use]
pub fn relaxed_greedy(scores: &DenseScores, limits: MatchingLimits) -> Vec<Vec<usize>> {
    let mut pairs: Vec<usize> = (0..scores.values.len()).collect();
    // The sort is stable; adding 0 turns −0 into 0.
    pairs.sort_by(|&a, &b| (scores.values[b] + 0.0).total_cmp(&(scores.values[a] + 0.0)));
    let (mut rows, mut columns) = (vec![Vec::new(); scores.queries], vec![0; scores.items]);
    let mut matched = 0;
    for pair in pairs {
        let (query, item) = (pair / scores.items, pair % scores.items);
        if matched == limits.total_pairs {
            break;
        }
        if rows[query].len() < limits.items_per_query && columns[item] < limits.queries_per_item {
            rows[query].push(item);
            columns[item] += 1;
            matched += 1;
        }
    }
    rows
}

/// Candidate item of a query, with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatchCandidate {
    /// Index of the item.
    pub item: usize,
    /// Score of the pair; not NaN.
    pub score: f64,
}

/// Greedy matching in progress. Its result is that of [`relaxed_greedy`],
/// computed from the first candidates of each query only.
///
/// [`IncrementalMatching::advance`] runs until the matching is done, or until queries have used up their candidates
/// before they have all their items. The matching is undetermined from there on, because the next candidate of such a
/// query is unknown. `advance` returns these queries, the caller extends their lists
/// ([`IncrementalMatching::extend_lists`]), and the matching continues from the point where the first of them ran out
/// of candidates. An item that is full stays full, so only open items are further candidates
/// ([`IncrementalMatching::open_items`]), and lists stay short even if many queries rank the same hubs first.
///
/// # Cost
/// One heap operation for each candidate that is visited; 16 bytes for each candidate.
#[derive(Debug, Clone)]
pub struct IncrementalMatching {
    limits: MatchingLimits,
    lists: Vec<Vec<MatchCandidate>>,
    /// For each query, true if its list of candidates is its whole ranking.
    is_complete: Vec<bool>,
    state: MatchingState,
}

/// State of a matching.
#[derive(Debug, Clone)]
struct MatchingState {
    /// Next candidate of every query that does not wait.
    queue: BinaryHeap<QueuedCandidate>,
    /// Queries without a queued candidate: all before the start, later those that need longer lists.
    waiting: Vec<usize>,
    /// Position of the next candidate in the list of each query.
    positions: Vec<usize>,
    taken: Vec<Vec<MatchCandidate>>,
    /// Number of queries that each item is matched with.
    item_counts: Vec<usize>,
    pairs: usize,
}

/// Next candidate of a query, in the queue.
#[derive(Debug, Clone, Copy, PartialEq)]
struct QueuedCandidate {
    score: f64,
    query: usize,
}

impl IncrementalMatching {
    /// Matching without any pairs yet.
    ///
    /// # Shapes
    /// - `lists`: for every query the beginning of its ranking of all `items`, best first (ties: the lower index)
    #[must_use]
    pub fn new(limits: MatchingLimits, items: usize, lists: Vec<Vec<MatchCandidate>>) -> Self {
        let count = lists.len();
        let state = MatchingState {
            queue: BinaryHeap::with_capacity(count),
            waiting: if limits.items_per_query > 0 { (0..count).collect() } else { Vec::new() },
            positions: vec![0; count],
            taken: vec![Vec::new(); count],
            item_counts: vec![0; items],
            pairs: 0,
        };
        let is_complete = lists.iter().map(|list| list.len() >= items).collect();
        Self { limits, lists, is_complete, state }
    }

    /// Continues the matching. Returns the queries that need longer lists, in ascending order; none if the matching is
    /// done.
    pub fn advance(&mut self) -> Vec<usize> {
        if self.state.pairs >= self.limits.total_pairs {
            return Vec::new();
        }
        for query in std::mem::take(&mut self.state.waiting) {
            self.enqueue_next(query);
        }
        let mut short = self.state.waiting.clone();
        // Pairs that are taken while a query waits are tentative; they predict which queries run out next.
        let mut determined = (!short.is_empty()).then(|| self.state.clone());
        while self.state.pairs < self.limits.total_pairs {
            let Some(QueuedCandidate { query, .. }) = self.state.queue.pop() else { break };
            let candidate = self.lists[query][self.state.positions[query]];
            let item = candidate.item;
            self.state.positions[query] += 1;
            if self.state.item_counts[item] < self.limits.queries_per_item {
                self.state.item_counts[item] += 1;
                self.state.taken[query].push(candidate);
                self.state.pairs += 1;
            }
            let goes_on = self.state.pairs < self.limits.total_pairs
                && self.state.taken[query].len() < self.limits.items_per_query;
            if goes_on && !self.enqueue_next(query) {
                determined.get_or_insert_with(|| self.state.clone());
                short.push(query);
            }
        }
        if let Some(determined) = determined {
            self.state = determined;
        }
        short.sort_unstable();
        short
    }

    /// Items that are not full, in ascending order: the only further candidates.
    #[must_use]
    pub fn open_items(&self) -> Vec<usize> {
        (0..self.state.item_counts.len())
            .filter(|&item| self.state.item_counts[item] < self.limits.queries_per_item)
            .collect()
    }

    /// Number of the first open items of a query's ranking that are known: left in its list, or matched with it.
    #[must_use]
    pub fn known_open_count(&self, query: usize) -> usize {
        let is_open =
            |candidate: &&MatchCandidate| self.state.item_counts[candidate.item] < self.limits.queries_per_item;
        let MatchingState { positions, taken, .. } = &self.state;
        let left = self.lists[query][positions[query]..].iter().filter(is_open).count();
        left + taken[query].iter().filter(is_open).count()
    }

    /// Number of candidates in the lists of all queries except these.
    #[must_use]
    pub fn candidate_count_without(&self, queries: &[usize]) -> usize {
        let listed: usize = queries.iter().map(|&query| self.lists[query].len()).sum();
        self.lists.iter().map(Vec::len).sum::<usize>() - listed
    }

    /// Replaces the lists of some queries by longer ones.
    ///
    /// # Shapes
    /// - `longer`: query, the first open items of its ranking, and true if these are all open items
    ///
    /// # Panics
    /// A list has no more than [`IncrementalMatching::known_open_count`] candidates, and these are not all.
    pub fn extend_lists(&mut self, longer: impl IntoIterator<Item = (usize, Vec<MatchCandidate>, bool)>) {
        let mut extended = vec![false; self.lists.len()];
        for (query, mut list, whole) in longer {
            assert!(whole || list.len() > self.known_open_count(query), "the new list of query {query} is not longer");
            let taken = &self.state.taken[query];
            list.retain(|candidate| taken.iter().all(|taken| taken.item != candidate.item));
            (self.lists[query], self.is_complete[query], extended[query]) = (list, whole, true);
            self.state.positions[query] = 0;
        }
        // The queued candidates of these queries may be full by now.
        self.state.queue.retain(|next| !extended[next.query]);
        self.state.waiting.retain(|&query| !extended[query]);
        self.state.waiting.extend((0..extended.len()).filter(|&query| extended[query]));
    }

    /// Matched candidates of every query, in the order in which they were matched. Final only if the matching is done.
    #[must_use]
    pub fn matched(&self) -> &[Vec<MatchCandidate>] {
        &self.state.taken
    }

    /// Queues the next candidate of a query whose item is not full. If its list has none but is not the whole ranking,
    /// the query has to wait: returns false.
    fn enqueue_next(&mut self, query: usize) -> bool {
        let MatchingState { queue, waiting, positions, item_counts, .. } = &mut self.state;
        let rest = &self.lists[query][positions[query]..];
        positions[query] +=
            rest.iter().take_while(|candidate| item_counts[candidate.item] >= self.limits.queries_per_item).count();
        if let Some(candidate) = self.lists[query].get(positions[query]) {
            // Adding 0 turns −0 into 0.
            queue.push(QueuedCandidate { score: candidate.score + 0.0, query });
            return true;
        }
        let waits = !self.is_complete[query];
        if waits {
            waiting.push(query);
        }
        !waits
    }
}

impl Eq for QueuedCandidate {}

impl PartialOrd for QueuedCandidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for QueuedCandidate {
    /// The greatest candidate is visited next.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.query.cmp(&self.query))
    }
}
