//! The columns, packed once for all passes.

use super::scoring::Scoring;
use super::threads::in_parts;
use super::vectors::Vectors;
use crate::kernels::product::{COLUMNS, Extent, Lanes, Right};

/// Panels that are packed together, by one thread.
const TOGETHER: usize = 32;

/// All columns as the right factor of a product, and what bounds must know of both sides.
#[derive(Debug)]
pub(super) struct Packed {
    pub lanes: Lanes,
    groups: Vec<Right>,
    /// Of the rows and of the columns.
    extents: [Vec<Extent>; 2],
}

impl Packed {
    pub fn new(lanes: Lanes, rows: &Vectors<'_>, columns: &Vectors<'_>, threads: usize) -> Self {
        let width = columns.width();
        let group = |group: usize| {
            let first = group * TOGETHER * COLUMNS;
            let count = (columns.len() - first).min(TOGETHER * COLUMNS);
            Right::from_columns(lanes, width, count, |j| columns.row(first + j))
        };
        let groups = columns.len().div_ceil(TOGETHER * COLUMNS);
        let groups = in_parts(threads, groups, |part| part.map(group).collect::<Vec<_>>());
        let extents = [rows, columns].map(|vectors| {
            let extent = |i: usize| match lanes {
                Lanes::F32 => Extent { norm: vectors.norms()[i], lost: 0.0 },
                Lanes::Bf16 => Extent::of(lanes, vectors.row(i)),
            };
            in_parts(threads, vectors.len(), |part| part.map(extent).collect::<Vec<_>>()).concat()
        });
        Self { lanes, groups: groups.into_iter().flatten().collect(), extents }
    }

    /// Nothing packed: something else computes the scores, in f32.
    pub fn elsewhere(rows: &Vectors<'_>, columns: &Vectors<'_>) -> Self {
        let extents = [rows, columns]
            .map(|vectors| vectors.norms().iter().map(|&norm| Extent::elsewhere(norm, vectors.width())).collect());
        Self { lanes: Lanes::F32, groups: Vec::new(), extents }
    }

    /// Panel `i` of the columns.
    pub fn panel(&self, i: usize) -> &[u32] {
        self.groups[i / TOGETHER].panel(i % TOGETHER)
    }

    /// For every row, and for every column, a bound on how far its scores with anything on the other side are from the exact
    /// ones, and one on their absolute values.
    pub fn errors(&self, scoring: Scoring, width: usize) -> [Vec<(f64, f64)>; 2] {
        let largest =
            self.extents.each_ref().map(|extents| extents.iter().copied().fold(Extent::default(), Extent::max));
        let bounds = |side: usize| {
            let other = largest[1 - side];
            let bound = |&extent: &Extent| (scoring.error(width, extent, other), scoring.largest(extent, other));
            self.extents[side].iter().map(bound).collect()
        };
        [bounds(0), bounds(1)]
    }
}
