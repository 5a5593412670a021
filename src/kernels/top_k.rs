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

/// [`top_k`] by exact scores, from scores that are known up to an error.
///
/// An item whose approximate score is more than twice the error below the k-th best approximate score cannot be among the
/// best; `exact` is asked for the others only.
///
/// # Shapes
/// As [`top_k`]; `|approximate[i] − exact(i)| ≤ error` for every item. The scores of the result are exact.
///
/// # Cost
/// As [`top_k`], and as many calls of `exact` as items are in doubt, at least `k`.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "rounded outwards by the step that follows")]
pub fn top_k_within(approximate: &[f32], error: f64, exact: impl Fn(usize) -> f32, k: usize) -> Vec<Scored> {
    let Some(last) = top_k(approximate, k).last().copied() else { return Vec::new() };
    let low = ((f64::from(last.score) - 2.0 * error) as f32).next_down();
    let mut best = Best::new(k);
    for (block, scores) in approximate.chunks(BLOCK).enumerate() {
        // What is not a number is no less than −∞.
        if low > f32::NEG_INFINITY && count(scores, |score| score >= low) == 0 {
            continue;
        }
        for (offset, _) in scores.iter().enumerate().filter(|&(_, &score)| number(score) >= low) {
            let item = block * BLOCK + offset;
            best.offer(Scored { item, score: number(exact(item)) });
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
    use crate::kernels::sample::Sample;

    fn items(best: &[Scored]) -> Vec<usize> {
        best.iter().map(|scored| scored.item).collect()
    }

    #[test]
    fn hand_cases() {
        assert_eq!(items(&top_k(&[0.1, 0.9, 0.5], 2)), [1, 2]);
        assert_eq!(items(&top_k(&[0.5, 0.5, 0.7, 0.5], 3)), [2, 0, 1]);
        assert_eq!(items(&top_k(&[0.5, 0.7], 9)), [1, 0]);
        assert_eq!(items(&top_k(&[f32::NAN, -1.0, f32::NAN], 3)), [1, 0, 2]);
        assert_eq!(
            items(&top_k_within(&[f32::NAN, 0.5, f32::NAN], 0.1, |item| [f32::NAN, 0.5, f32::NAN][item], 3)),
            [1, 0, 2]
        );
        assert!(top_k(&[0.5], 0).is_empty() && top_k(&[], 3).is_empty());
        assert!(top_k_within(&[], 0.1, |_| 0.0, 3).is_empty());
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "test values are small")]
    fn equals_sorting_and_does_not_depend_on_the_error_of_its_input() {
        let mut sample = Sample::new(4, &[]);
        for _ in 0..300 {
            let exact: Vec<f32> = (0..=sample.below(400)).map(|_| sample.below(50) as f32 / 500.0).collect();
            let k = sample.below(12);
            let mut order: Vec<usize> = (0..exact.len()).collect();
            order.sort_by(|&a, &b| exact[b].total_cmp(&exact[a]).then(a.cmp(&b)));
            order.truncate(k);
            assert_eq!(items(&top_k(&exact, k)), order);

            let error = sample.unit() * 0.01;
            let approximate: Vec<f32> = exact
                .iter()
                .map(|&score| (f64::from(score) + (sample.unit() * 2.0 - 1.0) * error * 0.9999) as f32)
                .collect();
            assert_eq!(items(&top_k_within(&approximate, error, |item| exact[item], k)), order);
        }
    }
}
