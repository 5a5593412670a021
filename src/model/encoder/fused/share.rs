//! Who computes which units, and what the threads tell each other.

use std::ops::Range;
use std::sync::{Barrier, OnceLock};

use crate::kernels::gates::Units;
use crate::kernels::product::{COLUMNS, Lanes, Left};

/// A batch of packed captions as one direction of a GRU reads it. Matrices are row-major; the gates of the GRU's rows come in
/// the order r, z, n.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'v> {
    /// Captions that have a word at each position.
    pub sizes: &'v [usize],
    /// Row of each word in `vectors`.
    pub words: &'v [usize],
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
    /// What is multiplied.
    pub lanes: Lanes,
}

impl<'v> Reading<'v> {
    /// Units of the state, h.
    pub(super) fn units(&self) -> usize {
        self.b_hh.len() / 3
    }

    /// Width of a word vector, w.
    pub(super) fn word(&self) -> usize {
        self.w_ih.len() / self.b_ih.len().max(1)
    }

    /// Distinct words, u.
    pub(super) fn distinct(&self) -> usize {
        self.vectors.len() / self.word().max(1)
    }

    /// Vector of distinct word `i`.
    pub(super) fn vector(&self, i: usize) -> &'v [f32] {
        &self.vectors[i * self.word()..][..self.word()]
    }

    /// The first word of each position.
    pub(super) fn starts(&self) -> Vec<usize> {
        let before = self.sizes.iter().scan(0, |next, &size| {
            *next += size;
            Some(*next - size)
        });
        before.collect()
    }
}

/// Units of one thread: whole panels of a product's right factor. Its rows in memory hold them panel by panel, filled up with
/// units that are always 0; where there are gates, panel by panel r, z, n.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share {
    /// Its units.
    pub units: Range<usize>,
    /// Panels.
    pub panels: usize,
}

impl Share {
    /// The units of a state dealt out to at most `threads` threads.
    pub(super) fn deal(units: usize, threads: usize) -> Vec<Self> {
        let panels = units.div_ceil(COLUMNS);
        let threads = threads.clamp(1, panels.max(1));
        let cut = |i: usize| panels * i / threads;
        let share =
            |i: usize| Self { units: cut(i) * COLUMNS..(cut(i + 1) * COLUMNS).min(units), panels: cut(i + 1) - cut(i) };
        (0..threads).map(share).collect()
    }

    /// Values of a row of states.
    pub(super) fn width(&self) -> usize {
        self.panels * COLUMNS
    }

    /// The row of a weight of the GRU, of `h` units, that value `i` of a row of gates belongs to, if any.
    pub(super) fn gate_row(&self, i: usize, h: usize) -> Option<usize> {
        let (panel, gate, unit) = (i / (3 * COLUMNS), i / COLUMNS % 3, i % COLUMNS);
        let unit = self.units.start + panel * COLUMNS + unit;
        (unit < self.units.end).then_some(gate * h + unit)
    }

    /// The values of a bias of the GRU for each panel.
    pub(super) fn bias(&self, bias: &[f32]) -> Vec<[Units; 3]> {
        let value = |i| self.gate_row(i, bias.len() / 3).map_or(0.0, |row| bias[row]);
        let panel = |p| std::array::from_fn(|g| std::array::from_fn(|i| value((p * 3 + g) * COLUMNS + i)));
        (0..self.panels).map(panel).collect()
    }
}

/// What the threads of one pass have in common.
#[derive(Debug)]
pub(super) struct Team {
    /// All have come this far.
    barrier: Barrier,
    members: usize,
    /// What each member published at each place.
    published: Vec<OnceLock<Left>>,
}

impl Team {
    pub(super) fn new(members: usize, places: usize) -> Self {
        let published = (0..members * places).map(|_| OnceLock::new()).collect();
        Self { barrier: Barrier::new(members), members, published }
    }

    /// Publishes `left` of `member` at `place`, and waits until all have.
    pub(super) fn exchange(&self, place: usize, member: usize, left: Left) -> impl Iterator<Item = &Left> + Clone {
        drop(self.published[place * self.members + member].set(left));
        self.barrier.wait();
        self.published[place * self.members..][..self.members].iter().filter_map(OnceLock::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_dealt_out_in_whole_panels() {
        let deal = |units, threads| Share::deal(units, threads).into_iter().map(|s| s.units).collect::<Vec<_>>();
        assert_eq!(deal(1024, 2), [0..512, 512..1024]);
        assert_eq!(deal(100, 3), [0..32, 32..64, 64..100]);
        assert_eq!(deal(4, 8).as_slice(), std::slice::from_ref(&(0..4)));
        let share = &Share::deal(100, 3)[2];
        assert_eq!((share.panels, share.width()), (2, 64));
        assert_eq!(share.gate_row(0, 100), Some(64));
        assert_eq!(share.gate_row(3 * COLUMNS + COLUMNS, 100), Some(100 + 96));
        assert_eq!(share.gate_row(3 * COLUMNS + 4, 100), None);
    }
}
