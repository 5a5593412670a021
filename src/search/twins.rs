//! Vectors that are there many times, whose scores are all in doubt and all the same.
//!
//! Where a model has collapsed, or a column was filled with one value, no two scores differ, and each would be computed
//! exactly. An exact score is a function of the two vectors alone, so it is computed once for vectors that are equal.

use std::collections::HashMap;

use super::exact::Exact;
use super::scoring::Side;
use super::threads::in_parts;
use super::vectors::Vectors;

/// Of every row and of every column the number of the vector that it equals, bit for bit.
#[derive(Debug)]
pub(super) struct Twins([Vec<u32>; 2]);

/// Pairs for each pair of different vectors, from which on it is worth looking a score up.
const WORTH: usize = 8;

impl Twins {
    /// `None` where too few are equal.
    ///
    /// # Cost
    /// A digest of every vector.
    pub fn of(exact: &Exact<'_>, threads: usize) -> Option<Self> {
        let (rows, different_rows) = numbers(exact.rows, threads);
        let (columns, different_columns) = numbers(exact.columns, threads);
        let worth = different_rows * different_columns <= rows.len() * columns.len() / WORTH;
        worth.then_some(Self([rows, columns]))
    }

    /// The same for pairs of equal vectors.
    fn pair(&self, side: Side, query: usize, item: usize) -> u64 {
        let (row, column) = if side == Side::Rows { (query, item) } else { (item, query) };
        u64::from(self.0[0][row]) << 32 | u64::from(self.0[1][column])
    }
}

/// Which of the different vectors each one is, and how many there are.
fn numbers(vectors: &Vectors<'_>, threads: usize) -> (Vec<u32>, usize) {
    let digest = |i: usize| {
        let bytes: Vec<u8> = vectors.row(i).iter().flat_map(|value| value.to_le_bytes()).collect();
        *blake3::hash(&bytes).as_bytes()
    };
    let digests = in_parts(threads, vectors.len(), |part| part.map(digest).collect::<Vec<_>>());
    let (mut numbers, mut next) = (HashMap::new(), 0);
    let number = |digest: [u8; 32]| {
        *numbers.entry(digest).or_insert_with(|| {
            next += 1;
            next - 1
        })
    };
    let numbers: Vec<u32> = digests.into_iter().flatten().map(number).collect();
    (numbers, next as usize)
}

/// Exact scores as [`Exact`] computes them, with those of a thread's last pairs at hand once there are twins.
#[derive(Debug, Default)]
pub(super) struct Scores<'t> {
    twins: Option<&'t Twins>,
    /// A pair and its score.
    slots: Vec<(u64, f32)>,
}

/// Pairs at hand: 2 to this power.
const SLOTS: u32 = 12;

impl<'t> Scores<'t> {
    /// From now on with twins.
    pub fn with(&mut self, twins: &'t Twins) {
        self.twins = Some(twins);
        // No pair has this number: vectors are fewer than 2³².
        self.slots = vec![(u64::MAX, 0.0); 1 << SLOTS];
    }

    /// As [`Exact::scores`].
    pub fn of(
        &mut self,
        exact: &Exact<'_>,
        side: Side,
        query: usize,
        items: impl Iterator<Item = usize>,
        scores: &mut Vec<f32>,
    ) {
        let Some(twins) = self.twins else { return exact.scores(side, query, items, scores) };
        scores.clear();
        let mut one = Vec::with_capacity(1);
        for item in items {
            let pair = twins.pair(side, query, item);
            // Fibonacci hashing.
            let slot = pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS);
            let slot = &mut self.slots[usize::try_from(slot).unwrap_or(0)];
            if slot.0 != pair {
                exact.scores(side, query, std::iter::once(item), &mut one);
                *slot = (pair, one[0]);
            }
            scores.push(slot.1);
        }
    }
}
