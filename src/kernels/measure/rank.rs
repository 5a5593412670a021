//! Rank of the best matching item of a query.
//!
//! As in Kiros et al., "Unifying Visual-Semantic Embeddings", 2014, and all papers since, only the first of the
//! matching items counts, such as the best of the captions of an image.

/// Rank of the best matching item, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BestMatchRank {
    /// Number of items before it; ties go to the lower index.
    pub rank: usize,
    /// Rank if it came first in every tie: the number of items with a higher score.
    pub optimistic: usize,
    /// Rank if it came last in every tie: the number of items with a higher score, and of non-matching items with an
    /// equal one.
    pub pessimistic: usize,
}

/// Rank of the best of `positives` among all items, or `None` if there are no positives.
///
/// # Shapes
/// - `scores`: score of each of `n_items` items; higher is closer
/// - `positives`: indices of the matching items, in any order
///
/// # Edge cases
/// NaN counts as −∞, so that a model that computes NaN gets a bad rank.
///
/// # Panics
/// An index of `positives` is out of bounds.
///
/// # Cost
/// `O(n_items)` time, no extra memory.
#[must_use]
pub fn best_rank(scores: &[f32], positives: &[usize]) -> Option<BestMatchRank> {
    let mut best: Option<(f32, usize)> = None;
    for &item in positives {
        let score = number(scores[item]);
        match best {
            Some((top, index)) if score < top || (score == top && item > index) => {}
            _ => best = Some((score, item)),
        }
    }
    let (best, index) = best?;

    let mut rank = BestMatchRank { rank: 0, optimistic: 0, pessimistic: 0 };
    for (block, scores) in scores.chunks(BLOCK).enumerate() {
        rank.optimistic += count(scores, |score| score > best);
        // NaN counts as −∞.
        if best > f32::NEG_INFINITY && count(scores, |score| score == best) == 0 {
            continue;
        }
        for (offset, &score) in scores.iter().enumerate() {
            let item = block * BLOCK + offset;
            if number(score) == best && !positives.contains(&item) {
                rank.pessimistic += 1;
                rank.rank += usize::from(item < index);
            }
        }
    }
    // So far `rank` and `pessimistic` hold ties alone.
    rank.rank += rank.optimistic;
    rank.pessimistic += rank.optimistic;
    Some(rank)
}

/// Number of items that are counted together: most blocks have no tie, and counting is branch-free.
const BLOCK: usize = 256;

/// Number of scores that satisfy a condition; counted in 32 bits, so that the compiler can vectorise.
fn count(block: &[f32], fits: impl Fn(f32) -> bool) -> usize {
    block.iter().map(|&score| u32::from(fits(score))).sum::<u32>() as usize
}

/// Replaces NaN by −∞.
fn number(score: f32) -> f32 {
    score.max(f32::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    fn rank(scores: &[f32], positives: &[usize]) -> (usize, usize, usize) {
        let rank = best_rank(scores, positives).expect("there are positives");
        (rank.rank, rank.optimistic, rank.pessimistic)
    }

    /// The definition: sort, then find the first match.
    fn reference(scores: &[f32], positives: &[usize]) -> (usize, usize, usize) {
        let place = |tie: &dyn Fn(usize) -> usize| {
            let mut order: Vec<usize> = (0..scores.len()).collect();
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(tie(a).cmp(&tie(b))));
            order.iter().position(|item| positives.contains(item)).expect("there are positives")
        };
        (
            place(&|item| item),
            place(&|item| usize::from(!positives.contains(&item))),
            place(&|item| usize::from(positives.contains(&item))),
        )
    }

    #[test]
    fn the_best_positive_counts_and_ties_go_to_the_lower_index() {
        assert_eq!(rank(&[0.1, 0.9, 0.5], &[1]), (0, 0, 0));
        assert_eq!(rank(&[0.1, 0.9, 0.5], &[0]), (2, 2, 2));
        // The best of several positives counts.
        assert_eq!(rank(&[0.1, 0.9, 0.5], &[0, 2]), (1, 1, 1));
        // All scores are equal: the index decides; a second positive does not count against the first.
        assert_eq!(rank(&[0.5; 4], &[2, 3]), (2, 0, 2));
        assert_eq!(rank(&[0.5; 4], &[3, 0]), (0, 0, 2));
        assert_eq!(best_rank(&[0.5; 4], &[]), None);
    }

    #[test]
    fn nan_is_the_worst_score() {
        assert_eq!(rank(&[f32::NAN, 0.0, -1.0], &[0]), (2, 2, 2));
        assert_eq!(rank(&[f32::NAN; 3], &[1]), (1, 0, 2));
        assert_eq!(rank(&[f32::NAN, 0.0, f32::NEG_INFINITY], &[1]), (0, 0, 0));
        assert_eq!(rank(&[f32::NAN, f32::INFINITY, 3.0], &[2]), (1, 1, 1));
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    fn equals_sorting_on_scores_full_of_ties() {
        let mut rng = Rng::new(7, &[]);
        for case in 0..300 {
            let scores: Vec<f32> = (0..=rng.uniform_below(700)).map(|_| rng.uniform_below(6) as f32 / 8.0).collect();
            let positives: Vec<usize> = (0..=rng.uniform_below(4)).map(|_| rng.uniform_below(scores.len())).collect();
            assert_eq!(rank(&scores, &positives), reference(&scores, &positives), "case {case}");
        }
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn permuting_items_with_unique_scores_keeps_the_rank() {
        let mut rng = Rng::new(8, &[]);
        let scores: Vec<f32> = (0..500).map(|_| rng.uniform() as f32).collect();
        for _ in 0..20 {
            let mut order: Vec<usize> = (0..scores.len()).collect();
            rng.shuffle(&mut order);
            let moved: Vec<f32> = order.iter().map(|&item| scores[item]).collect();
            let moved_positive = order.iter().position(|&item| item == 42).expect("every item moved somewhere");
            assert_eq!(rank(&moved, &[moved_positive]), rank(&scores, &[42]));
        }
    }
}
