//! Matrix products of a linear layer, with this project's kernels where they apply and libtorch elsewhere.

use std::ops::Range;

use tch::Tensor;

use super::matmul::MatmulPrecision;
use super::pooling::to_i64;
use crate::kernels::product::{LeftFactor, RightFactor, TILE_COLUMNS, TILE_ROWS, Tile, add_product, has_avx512};
use crate::model::tensor_slices::{as_mut_slice, as_slice, is_f32_slice, thread_count};

/// Number of columns that a thread packs together.
const PACKED_COLUMNS: usize = 8 * TILE_COLUMNS;

/// Number of rows that are multiplied together. Their factor fits the L2 cache beside a panel of the other.
const ROWS_PER_BLOCK: usize = 8 * TILE_ROWS;

/// `x · wᵀ`, `[n, m]` from `[n, k]` and `[m, k]`.
pub fn forward(x: &Tensor, w: &Tensor, precision: MatmulPrecision) -> Tensor {
    let Some([n, m, k]) = kernel_sizes(x, w, 0, precision) else { return precision.matmul(x, &w.tr()) };
    let (x, w, element_type) = (as_slice(x), as_slice(w), precision.element_type());
    let left = LeftFactor::from_rows(element_type, n, k, |i| &x[i * k..][..k]);
    multiply(&left, [n, m], precision, |columns| {
        RightFactor::from_columns(element_type, k, columns.len(), |j| &w[(columns.start + j) * k..][..k])
    })
}

/// `dᵀ · x`, `[m, k]` from `[n, m]` and `[n, k]`: gradient of `w`.
pub(super) fn backward(d: &Tensor, x: &Tensor, precision: MatmulPrecision) -> Tensor {
    let Some([m, k, n]) = kernel_sizes(d, x, 1, precision) else { return precision.matmul(&d.tr(), x) };
    let (d, x, element_type) = (as_slice(d), as_slice(x), precision.element_type());
    let left = LeftFactor::from_columns(element_type, m, n, |i| &d[i * m..][..m]);
    multiply(&left, [m, k], precision, |columns| {
        RightFactor::from_rows(element_type, n, columns.len(), |i| &x[i * k..][columns.clone()])
    })
}

/// Size of dimension `of` of `a` and of `b`, then the size of their common dimension. `None` if libtorch must compute
/// the product.
fn kernel_sizes(a: &Tensor, b: &Tensor, of: usize, precision: MatmulPrecision) -> Option<[usize; 3]> {
    let can = has_avx512(precision.element_type()) && is_f32_slice(a) && is_f32_slice(b) && a.numel() > 0;
    let size = |tensor: &Tensor, dimension: usize| usize::try_from(tensor.size()[dimension]).ok();
    can.then_some(())?;
    Some([size(a, of)?, size(b, of)?, size(a, 1 - of)?])
}

/// Multiplies `left` by the right factor, whose columns `pack` packs, on several threads.
fn multiply(
    left: &LeftFactor,
    [rows, columns]: [usize; 2],
    precision: MatmulPrecision,
    pack: impl Fn(Range<usize>) -> RightFactor + Sync,
) -> Tensor {
    let mut out = Tensor::empty([to_i64(rows), to_i64(columns)], (tch::Kind::Float, tch::Device::Cpu));
    let groups = columns.div_ceil(PACKED_COLUMNS);
    let columns_per_thread = groups.div_ceil(thread_count()).max(1) * PACKED_COLUMNS;
    // Each thread computes a piece of every row.
    let mut pieces: Vec<Vec<&mut [f32]>> =
        (0..columns.div_ceil(columns_per_thread)).map(|_| Vec::with_capacity(rows)).collect();
    for row in as_mut_slice(&mut out).chunks_exact_mut(columns) {
        pieces.iter_mut().zip(row.chunks_mut(columns_per_thread)).for_each(|(piece, row)| piece.push(row));
    }
    let pack = &pack;
    std::thread::scope(|scope| {
        let mut work: Vec<_> = pieces
            .into_iter()
            .enumerate()
            .map(|(thread, piece)| move || multiply_columns(left, piece, thread * columns_per_thread, precision, pack))
            .collect();
        let last = work.pop();
        for work in work {
            scope.spawn(work);
        }
        if let Some(work) = last {
            work();
        }
    });
    out
}

fn multiply_columns(
    left: &LeftFactor,
    mut rows: Vec<&mut [f32]>,
    start: usize,
    precision: MatmulPrecision,
    pack: impl Fn(Range<usize>) -> RightFactor,
) {
    let columns = rows.first().map_or(0, |row| row.len());
    for first in (0..columns).step_by(PACKED_COLUMNS) {
        let right = pack(start + first..start + columns.min(first + PACKED_COLUMNS));
        for (block, rows) in rows.chunks_mut(ROWS_PER_BLOCK).enumerate() {
            for (panel, (width, right)) in right.panels().enumerate() {
                for (number, out) in rows.chunks_mut(TILE_ROWS).enumerate() {
                    let left = left.panel(block * (ROWS_PER_BLOCK / TILE_ROWS) + number);
                    let mut product = Tile::ZERO;
                    add_product(precision.element_type(), out.len(), left, right, &mut product);
                    for (out, values) in out.iter_mut().zip(&product.0) {
                        out[first + panel * TILE_COLUMNS..][..width].copy_from_slice(&values[..width]);
                    }
                }
            }
        }
    }
}
