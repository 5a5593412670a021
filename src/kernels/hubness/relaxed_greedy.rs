//! Greedy matching and relaxed greedy matching: takes pairs by descending score while the query and the item have
//! capacity.
//!
//! Liu and Ye, "Improved Text-Image Matching by Mitigating Visual Semantic Hubs", submitted to EMNLP 2019, algorithm 1,
//! after Kollias, Mohammadi, Grama, "Network Similarity Decomposition (NSD)", TKDE 2012.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dense_scores::DenseScores;
use super::parameter_checks::ParameterProblems;

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
/// ([`IncrementalMatching`](super::incremental_matching::IncrementalMatching)).
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
        wrong.then(|| ("lambda", format!("got {}, wanted at least 1", self.lambda))).into_iter().collect()
    }

    /// Limits of the matching for the cut-off `k`, or of the matching of each slice. Halves are rounded up.
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
                items_per_query: k,
                queries_per_item: relaxed as usize,
                total_pairs: k * queries.min(items),
            },
            CapacityRule::Scaled => {
                let share = (queries as f64 / items.max(1) as f64).max(1.0);
                MatchingLimits {
                    items_per_query: k,
                    queries_per_item: (relaxed * share).ceil() as usize,
                    total_pairs: k * queries,
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
