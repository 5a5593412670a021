//! The columns, packed once for all passes.

use super::vectors::Vectors;
use crate::kernels::product::{COLUMNS, Extent, Lanes, Right};
use crate::search::threads::in_parts;

/// Panels that are packed together, by one thread.
const TOGETHER: usize = 32;

/// All columns as the right factor of a product, and what bounds must know of both sides.
#[derive(Debug)]
pub(super) struct Packed {
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
        Self { groups: groups.into_iter().flatten().collect(), extents }
    }

    /// Panel `i` of the columns.
    pub fn panel(&self, i: usize) -> &[u32] {
        self.groups[i / TOGETHER].panel(i % TOGETHER)
    }

    /// Norms of the rows and of the columns, as they are packed.
    pub fn extents(&self) -> [&[Extent]; 2] {
        self.extents.each_ref().map(Vec::as_slice)
    }
}
