//! Input of the fused GRU, distribution of its units to threads, and exchange between the threads.

use std::ops::Range;
use std::sync::{Barrier, OnceLock};

use pairloom_kernels::gru_cell::UnitBlock;
use pairloom_kernels::product::{ElementType, LeftFactor, TILE_COLUMNS};

/// Input of one direction of the fused GRU. Matrices are row-major; the rows of the weights are ordered by gate: r, z,
/// n.
#[derive(Debug, Clone, Copy)]
pub struct FusedInput<'v> {
    /// Number of captions that have a word at each position.
    pub batch_sizes: &'v [usize],
    /// Row of each word in `vectors`.
    pub token_rows: &'v [usize],
    /// Vectors of the distinct words, `[u, w]`.
    pub vectors: &'v [f32],
    /// `W_ih`, `[3h, w]`.
    pub w_ih: &'v [f32],
    /// `W_hh`, `[3h, h]`.
    pub w_hh: &'v [f32],
    /// `b_ih`, `[3h]`.
    pub b_ih: &'v [f32],
    /// `b_hh`, `[3h]`.
    pub b_hh: &'v [f32],
    /// Element type of the products.
    pub element_type: ElementType,
}

impl<'v> FusedInput<'v> {
    /// Number of units of the state, h.
    pub(super) fn state_size(&self) -> usize {
        self.b_hh.len() / 3
    }

    /// Width of a word vector, w.
    pub(super) fn word_dim(&self) -> usize {
        self.w_ih.len() / self.b_ih.len().max(1)
    }

    /// Number of distinct words, u.
    pub(super) fn n_distinct(&self) -> usize {
        self.vectors.len() / self.word_dim().max(1)
    }

    /// Vector of distinct word `i`.
    pub(super) fn vector(&self, i: usize) -> &'v [f32] {
        &self.vectors[i * self.word_dim()..][..self.word_dim()]
    }

    /// Index of the first word of each position.
    pub(super) fn position_starts(&self) -> Vec<usize> {
        let before = self.batch_sizes.iter().scan(0, |next, &size| {
            *next += size;
            Some(*next - size)
        });
        before.collect()
    }
}

/// Units of one thread: whole panels of a product's right factor. A row of states is stored panel by panel and padded
/// with units that are always 0; a row of gates is stored panel by panel in the order r, z, n.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ThreadUnits {
    /// Range of units.
    pub range: Range<usize>,
    /// Number of panels.
    pub panels: usize,
}

impl ThreadUnits {
    /// Distributes the units of a state to at most `threads` threads.
    pub(super) fn distribute(units: usize, threads: usize) -> Vec<Self> {
        let panels = units.div_ceil(TILE_COLUMNS);
        let threads = threads.clamp(1, panels.max(1));
        let cut = |i: usize| panels * i / threads;
        let assignment = |i: usize| Self {
            range: cut(i) * TILE_COLUMNS..(cut(i + 1) * TILE_COLUMNS).min(units),
            panels: cut(i + 1) - cut(i),
        };
        (0..threads).map(assignment).collect()
    }

    /// Number of values of a row of states, with padding.
    pub(super) fn width(&self) -> usize {
        self.panels * TILE_COLUMNS
    }

    /// Row of a GRU weight with `h` units that value `i` of a row of gates belongs to; `None` for padding.
    pub(super) fn gate_row(&self, i: usize, h: usize) -> Option<usize> {
        let (panel, gate, unit) = (i / (3 * TILE_COLUMNS), i / TILE_COLUMNS % 3, i % TILE_COLUMNS);
        let unit = self.range.start + panel * TILE_COLUMNS + unit;
        (unit < self.range.end).then_some(gate * h + unit)
    }

    /// Values of a GRU bias for each panel.
    pub(super) fn bias(&self, bias: &[f32]) -> Vec<[UnitBlock; 3]> {
        let value = |i| self.gate_row(i, bias.len() / 3).map_or(0.0, |row| bias[row]);
        let panel = |p| std::array::from_fn(|g| std::array::from_fn(|i| value((p * 3 + g) * TILE_COLUMNS + i)));
        (0..self.panels).map(panel).collect()
    }
}

/// Exchange between the threads of one pass.
#[derive(Debug)]
pub(super) struct ThreadGroup {
    /// Barrier of all threads.
    barrier: Barrier,
    members: usize,
    /// Data that each thread published at each position.
    published: Vec<OnceLock<LeftFactor>>,
}

impl ThreadGroup {
    pub(super) fn new(members: usize, places: usize) -> Self {
        let published = (0..members * places).map(|_| OnceLock::new()).collect();
        Self { barrier: Barrier::new(members), members, published }
    }

    /// Publishes `left` of thread `member` at position `place`, waits for all threads, and returns the data of all.
    pub(super) fn all_gather(
        &self,
        place: usize,
        member: usize,
        left: LeftFactor,
    ) -> impl Iterator<Item = &LeftFactor> + Clone {
        drop(self.published[place * self.members + member].set(left));
        self.barrier.wait();
        self.published[place * self.members..][..self.members].iter().filter_map(OnceLock::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_distributed_in_whole_panels() {
        let distribute =
            |units, threads| ThreadUnits::distribute(units, threads).into_iter().map(|s| s.range).collect::<Vec<_>>();
        assert_eq!(distribute(1024, 2), [0..512, 512..1024]);
        assert_eq!(distribute(100, 3), [0..32, 32..64, 64..100]);
        assert_eq!(distribute(4, 8).as_slice(), std::slice::from_ref(&(0..4)));
        let units = &ThreadUnits::distribute(100, 3)[2];
        assert_eq!((units.panels, units.width()), (2, 64));
        assert_eq!(units.gate_row(0, 100), Some(64));
        assert_eq!(units.gate_row(3 * TILE_COLUMNS + TILE_COLUMNS, 100), Some(100 + 96));
        assert_eq!(units.gate_row(3 * TILE_COLUMNS + 4, 100), None);
    }
}
