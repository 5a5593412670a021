//! Columns packed for the product kernel, once for all passes.

use super::vector_matrix::VectorMatrix;
use crate::threads::parallel_ranges;
use pairloom_kernels::product::{ElementType, NormBound, RightFactor, TILE_COLUMNS};

/// Number of panels that a thread packs at a time.
const PANELS_PER_GROUP: usize = 32;

/// All columns as the right factor of a product, and the norms of both sides for error bounds.
#[derive(Debug)]
pub(super) struct PackedVectors {
    groups: Vec<RightFactor>,
    /// Norms of the rows and of the columns.
    norm_bounds: [Vec<NormBound>; 2],
}

impl PackedVectors {
    pub fn new(element_type: ElementType, rows: &VectorMatrix<'_>, columns: &VectorMatrix<'_>, threads: usize) -> Self {
        let width = columns.width();
        let group = |group: usize| {
            let first = group * PANELS_PER_GROUP * TILE_COLUMNS;
            let count = (columns.len() - first).min(PANELS_PER_GROUP * TILE_COLUMNS);
            RightFactor::from_columns(element_type, width, count, |j| columns.row(first + j))
        };
        let groups = columns.len().div_ceil(PANELS_PER_GROUP * TILE_COLUMNS);
        let groups = parallel_ranges(threads, groups, |part| part.map(group).collect::<Vec<_>>());
        let norm_bounds = [rows, columns].map(|vectors| {
            let norm_bound = |i: usize| match element_type {
                ElementType::F32 => NormBound { norm: vectors.norms()[i], packing_error: 0.0 },
                ElementType::Bf16 => NormBound::of_packed(element_type, vectors.row(i)),
            };
            parallel_ranges(threads, vectors.len(), |part| part.map(norm_bound).collect::<Vec<_>>()).concat()
        });
        Self { groups: groups.into_iter().flatten().collect(), norm_bounds }
    }

    /// Returns panel `i` of the columns.
    pub fn panel(&self, i: usize) -> &[u32] {
        self.groups[i / PANELS_PER_GROUP].panel(i % PANELS_PER_GROUP)
    }

    /// Returns the norms of the packed rows and columns.
    pub fn norm_bounds(&self) -> [&[NormBound]; 2] {
        self.norm_bounds.each_ref().map(Vec::as_slice)
    }
}
