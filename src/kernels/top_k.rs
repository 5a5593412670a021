//! Top-k selection: the k best items of a query, without a full sort.

/// An item and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredItem {
    /// Index of the item.
    pub item: usize,
    /// Its score; higher is better.
    pub score: f32,
}

/// The `k` items with the highest scores, best first; ties by lower index.
///
/// # Shapes
/// - `scores`: `n_items`
/// - result: `min(k, n_items)`
///
/// # Edge cases
/// NaN counts as −∞.
///
/// # Cost
/// `O(n_items)` comparisons and, for scores in random order, `O(k² · log(n_items / k))` moves; `O(k)` memory.
#[must_use]
pub fn top_k(scores: &[f32], k: usize) -> Vec<ScoredItem> {
    if k == 0 {
        return Vec::new();
    }
    let mut best = TopK::new(k);
    for (block, scores) in scores.chunks(BLOCK).enumerate() {
        // Most blocks have no score above the threshold.
        if best.threshold().is_some_and(|threshold| count_matching(scores, |score| score > threshold) == 0) {
            continue;
        }
        for (offset, &score) in scores.iter().enumerate() {
            best.offer(ScoredItem { item: block * BLOCK + offset, score: nan_to_neg_infinity(score) });
        }
    }
    best.items
}

/// Number of scores that are compared with the threshold at once.
const BLOCK: usize = 256;

/// Number of scores that satisfy `fits`, counted in 32 bits, so that the compiler can use vector instructions.
fn count_matching(block: &[f32], fits: impl Fn(f32) -> bool) -> u32 {
    block.iter().map(|&score| u32::from(fits(score))).sum()
}

/// The `k` best items so far. Items are offered in ascending order of index.
struct TopK {
    k: usize,
    items: Vec<ScoredItem>,
}

impl TopK {
    fn new(k: usize) -> Self {
        Self { k, items: Vec::with_capacity(k.min(1024)) }
    }

    /// The score that a new item must exceed; `None` while there are fewer than `k` items.
    fn threshold(&self) -> Option<f32> {
        if self.items.len() < self.k { None } else { Some(self.items.last().map_or(f32::INFINITY, |last| last.score)) }
    }

    fn offer(&mut self, new: ScoredItem) {
        if let Some(threshold) = self.threshold() {
            if new.score <= threshold {
                return;
            }
            self.items.pop();
        }
        let place = self.items.partition_point(|old| old.score >= new.score);
        self.items.insert(place, new);
    }
}

/// Replaces NaN with −∞.
fn nan_to_neg_infinity(score: f32) -> f32 {
    score.max(f32::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    fn items(best: &[ScoredItem]) -> Vec<usize> {
        best.iter().map(|scored| scored.item).collect()
    }

    #[test]
    fn the_largest_scores_come_first_and_ties_go_by_index() {
        assert_eq!(items(&top_k(&[0.1, 0.9, 0.5], 2)), [1, 2]);
        assert_eq!(items(&top_k(&[0.5, 0.5, 0.7, 0.5], 3)), [2, 0, 1]);
        assert_eq!(items(&top_k(&[0.5, 0.7], 9)), [1, 0]);
        assert_eq!(items(&top_k(&[f32::NAN, -1.0, f32::NAN], 3)), [1, 0, 2]);
        assert!(top_k(&[0.5], 0).is_empty() && top_k(&[], 3).is_empty());
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    fn agrees_with_a_full_sort() {
        let mut rng = Rng::new(4, &[]);
        for _ in 0..300 {
            let scores: Vec<f32> = (0..=rng.uniform_below(400)).map(|_| rng.uniform_below(50) as f32 / 500.0).collect();
            let k = rng.uniform_below(12);
            let mut order: Vec<usize> = (0..scores.len()).collect();
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
            order.truncate(k);
            assert_eq!(items(&top_k(&scores, k)), order);
        }
    }
}
