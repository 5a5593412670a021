//! Cache of exact scores of duplicate vectors, for one thread.

use super::duplicates::Duplicates;
use super::side::MatrixSide;
use super::source::Scores;
use az::SaturatingAs;
use pairloom_base::error::Result;

/// Exact scores for one thread. With [`Duplicates`] it caches the scores of the latest pairs, direct-mapped.
#[derive(Debug, Default)]
pub(crate) struct ExactCache<'d> {
    duplicates: Option<&'d Duplicates>,
    /// Class number of a pair, and its score.
    slots: Vec<(u64, f32)>,
}

/// Base-2 logarithm of the number of slots.
const SLOT_BITS: u32 = 12;

impl<'d> ExactCache<'d> {
    /// Caches scores from now on.
    pub fn use_duplicates(&mut self, duplicates: &'d Duplicates) {
        self.duplicates = Some(duplicates);
        // No pair has this number: vectors are fewer than 2³².
        self.slots = vec![(u64::MAX, 0.0); 1 << SLOT_BITS];
    }

    /// As [`Scores::exact_scores`].
    pub fn exact_scores(
        &mut self,
        source: &dyn Scores,
        side: MatrixSide,
        query: usize,
        items: &[usize],
        scores: &mut Vec<f32>,
    ) -> Result<()> {
        let Some(duplicates) = self.duplicates else { return source.exact_scores(side, query, items, scores) };
        scores.clear();
        let mut one = Vec::with_capacity(1);
        for &item in items {
            let pair = duplicates.pair_class(side, query, item);
            // Fibonacci hashing.
            let slot = pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS);
            let slot = &mut self.slots[slot.saturating_as::<usize>()];
            if slot.0 != pair {
                source.exact_scores(side, query, &[item], &mut one)?;
                *slot = (pair, one[0]);
            }
            scores.push(slot.1);
        }
        Ok(())
    }
}
