//! The rank of the best matching item of a query.
//!
//! The "one hit counts" rule of Kiros et al., "Unifying Visual-Semantic Embeddings", 2014, and of all papers since: an
//! image that looks for captions is served by whichever of its captions comes first.

/// The place of the best matching item, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    /// Items before it; of equal scores the lower index comes first.
    pub rank: usize,
    /// The rank if every tie were won: items with a higher score.
    pub optimistic: usize,
    /// The rank if every tie were lost: items with a higher score, and items that do not match with the same score.
    pub pessimistic: usize,
}

/// The rank of the best of `positives` among the items that `scores` belong to, or `None` when there are no positives.
///
/// # Shapes
/// - `scores`: `n_items`, higher is closer
/// - `positives`: indices into `scores` of the items that match, in any order
///
/// # Edge cases
/// A score that is not a number counts as −∞, so that a broken model never looks good.
///
/// # Panics
/// An index of `positives` is no item.
///
/// # Cost
/// `O(n_items)` time, no extra memory.
#[must_use]
pub fn best_rank(scores: &[f32], positives: &[usize]) -> Option<Rank> {
    let mut best: Option<(f32, usize)> = None;
    for &item in positives {
        let score = number(scores[item]);
        match best {
            Some((top, index)) if score < top || (score == top && item > index) => {}
            _ => best = Some((score, item)),
        }
    }
    let (best, index) = best?;

    let mut rank = Rank { rank: 0, optimistic: 0, pessimistic: 0 };
    for (block, scores) in scores.chunks(BLOCK).enumerate() {
        rank.optimistic += count(scores, |score| score > best);
        // What is not a number is −∞.
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

/// Items looked at together: in nearly all blocks there is no tie, and counting is branch-free.
const BLOCK: usize = 256;

/// How many scores fit; 32 bits a lane, so that the compiler may use vector instructions.
fn count(block: &[f32], fits: impl Fn(f32) -> bool) -> usize {
    block.iter().map(|&score| u32::from(fits(score))).sum::<u32>() as usize
}

/// Not a number counts as −∞.
fn number(score: f32) -> f32 {
    score.max(f32::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    fn rank(scores: &[f32], positives: &[usize]) -> (usize, usize, usize) {
        let rank = best_rank(scores, positives).expect("there are positives");
        (rank.rank, rank.optimistic, rank.pessimistic)
    }

    /// The definition, word by word: sort, then look for the first match.
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
        // All equal: the index decides; a second positive is no rival.
        assert_eq!(rank(&[0.5; 4], &[2, 3]), (2, 0, 2));
        assert_eq!(rank(&[0.5; 4], &[3, 0]), (0, 0, 2));
        assert_eq!(best_rank(&[0.5; 4], &[]), None);
    }

    #[test]
    fn not_a_number_is_the_worst_score() {
        assert_eq!(rank(&[f32::NAN, 0.0, -1.0], &[0]), (2, 2, 2));
        assert_eq!(rank(&[f32::NAN; 3], &[1]), (1, 0, 2));
        assert_eq!(rank(&[f32::NAN, 0.0, f32::NEG_INFINITY], &[1]), (0, 0, 0));
        assert_eq!(rank(&[f32::NAN, f32::INFINITY, 3.0], &[2]), (1, 1, 1));
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    fn equals_sorting_on_scores_full_of_ties() {
        let mut sample = Sample::new(7, &[]);
        for case in 0..300 {
            let scores: Vec<f32> = (0..=sample.below(700)).map(|_| sample.below(6) as f32 / 8.0).collect();
            let positives: Vec<usize> = (0..=sample.below(4)).map(|_| sample.below(scores.len())).collect();
            assert_eq!(rank(&scores, &positives), reference(&scores, &positives), "case {case}");
        }
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn moving_items_that_have_unique_scores_leaves_the_rank() {
        let mut sample = Sample::new(8, &[]);
        let scores: Vec<f32> = (0..500).map(|_| sample.unit() as f32).collect();
        for _ in 0..20 {
            let mut order: Vec<usize> = (0..scores.len()).collect();
            sample.shuffle(&mut order);
            let moved: Vec<f32> = order.iter().map(|&item| scores[item]).collect();
            let moved_positive = order.iter().position(|&item| item == 42).expect("every item moved somewhere");
            assert_eq!(rank(&moved, &[moved_positive]), rank(&scores, &[42]));
        }
    }
}
