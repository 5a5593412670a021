//! The k best items of a query, without sorting the rest.

/// An item and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// Index of the item.
    pub item: usize,
    /// Its score, higher is closer.
    pub score: f32,
}

/// The `k` items of the highest scores, best first; of equal scores the lower index comes first.
///
/// # Shapes
/// - `scores`: `n_items`
/// - result: `min(k, n_items)`
///
/// # Edge cases
/// A score that is not a number counts as −∞.
///
/// # Cost
/// `O(n_items)` comparisons and, in random order, `O(k² · log(n_items / k))` moves; `O(k)` memory.
#[must_use]
pub fn top_k(scores: &[f32], k: usize) -> Vec<Scored> {
    if k == 0 {
        return Vec::new();
    }
    let mut best = Best::new(k);
    for (block, scores) in scores.chunks(BLOCK).enumerate() {
        // In nearly all blocks nothing is good enough.
        if best.bar().is_some_and(|bar| count(scores, |score| score > bar) == 0) {
            continue;
        }
        for (offset, &score) in scores.iter().enumerate() {
            best.offer(Scored { item: block * BLOCK + offset, score: number(score) });
        }
    }
    best.items
}

/// Items looked at together.
const BLOCK: usize = 256;

/// How many scores fit; 32 bits a lane, so that the compiler may use vector instructions.
fn count(block: &[f32], fits: impl Fn(f32) -> bool) -> u32 {
    block.iter().map(|&score| u32::from(fits(score))).sum()
}

/// The best of the items so far, which come in the order of their index.
struct Best {
    k: usize,
    items: Vec<Scored>,
}

impl Best {
    fn new(k: usize) -> Self {
        Self { k, items: Vec::with_capacity(k.min(1024)) }
    }

    /// The score that a new item must exceed; `None` while any item will do.
    fn bar(&self) -> Option<f32> {
        if self.items.len() < self.k { None } else { Some(self.items.last().map_or(f32::INFINITY, |last| last.score)) }
    }

    fn offer(&mut self, new: Scored) {
        if let Some(bar) = self.bar() {
            if new.score <= bar {
                return;
            }
            self.items.pop();
        }
        let place = self.items.partition_point(|old| old.score >= new.score);
        self.items.insert(place, new);
    }
}

/// Not a number counts as −∞.
fn number(score: f32) -> f32 {
    score.max(f32::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    fn items(best: &[Scored]) -> Vec<usize> {
        best.iter().map(|scored| scored.item).collect()
    }

    #[test]
    fn the_largest_come_first_and_of_equal_ones_the_lower_index() {
        assert_eq!(items(&top_k(&[0.1, 0.9, 0.5], 2)), [1, 2]);
        assert_eq!(items(&top_k(&[0.5, 0.5, 0.7, 0.5], 3)), [2, 0, 1]);
        assert_eq!(items(&top_k(&[0.5, 0.7], 9)), [1, 0]);
        assert_eq!(items(&top_k(&[f32::NAN, -1.0, f32::NAN], 3)), [1, 0, 2]);
        assert!(top_k(&[0.5], 0).is_empty() && top_k(&[], 3).is_empty());
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    fn equals_sorting() {
        let mut sample = Sample::new(4, &[]);
        for _ in 0..300 {
            let scores: Vec<f32> = (0..=sample.below(400)).map(|_| sample.below(50) as f32 / 500.0).collect();
            let k = sample.below(12);
            let mut order: Vec<usize> = (0..scores.len()).collect();
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
            order.truncate(k);
            assert_eq!(items(&top_k(&scores, k)), order);
        }
    }
}
