//! Exact scores for one thread, those of duplicate vectors once.

use super::duplicates::Duplicates;
use super::side::Side;
use super::source::Scores;
use crate::error::Result;
use az::SaturatingAs;

/// Exact scores for one thread, with those of its last pairs at hand once there are [`Duplicates`].
#[derive(Debug, Default)]
pub(in crate::search) struct ExactCache<'d> {
    duplicates: Option<&'d Duplicates>,
    /// A pair and its score.
    slots: Vec<(u64, f32)>,
}

/// Pairs at hand: 2 to this power.
const SLOTS: u32 = 12;

impl<'d> ExactCache<'d> {
    /// Looks scores up from now on.
    pub fn look_up(&mut self, duplicates: &'d Duplicates) {
        self.duplicates = Some(duplicates);
        // No pair has this number: vectors are fewer than 2³².
        self.slots = vec![(u64::MAX, 0.0); 1 << SLOTS];
    }

    /// As [`Scores::exact`].
    pub fn exact(
        &mut self,
        source: &dyn Scores,
        side: Side,
        query: usize,
        items: &[usize],
        scores: &mut Vec<f32>,
    ) -> Result<()> {
        let Some(duplicates) = self.duplicates else { return source.exact(side, query, items, scores) };
        scores.clear();
        let mut one = Vec::with_capacity(1);
        for &item in items {
            let pair = duplicates.pair(side, query, item);
            // Fibonacci hashing.
            let slot = pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS);
            let slot = &mut self.slots[slot.saturating_as::<usize>()];
            if slot.0 != pair {
                source.exact(side, query, &[item], &mut one)?;
                *slot = (pair, one[0]);
            }
            scores.push(slot.1);
        }
        Ok(())
    }
}
