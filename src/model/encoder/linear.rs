//! Products of a linear layer with our own kernels, where they can be had.

use std::ops::Range;

use tch::Tensor;

use super::pool::number;
use super::product::Precision;
use crate::kernels::product::{COLUMNS, Left, ROWS, Right, Tile, tile, vectors};
use crate::model::slices::{is_slice, threads, values, values_mut};

/// Columns that a thread packs together.
const TOGETHER: usize = 8 * COLUMNS;

/// `x · wᵀ`, `[n, m]` from `[n, k]` and `[m, k]`.
pub(super) fn forward(x: &Tensor, w: &Tensor, precision: Precision) -> Tensor {
    let Some([n, m, k]) = sizes(x, w, 0, precision) else { return precision.product(x, &w.tr()) };
    let (x, w, lanes) = (values(x), values(w), precision.lanes());
    let left = Left::from_rows(lanes, n, k, |i| &x[i * k..][..k]);
    product(&left, [n, m], precision, |columns| {
        Right::from_columns(lanes, k, columns.len(), |j| &w[(columns.start + j) * k..][..k])
    })
}

/// `dᵀ · x`, `[m, k]` from `[n, m]` and `[n, k]`: the gradient of `w`.
pub(super) fn backward(d: &Tensor, x: &Tensor, precision: Precision) -> Tensor {
    let Some([m, k, n]) = sizes(d, x, 1, precision) else { return precision.product(&d.tr(), x) };
    let (d, x, lanes) = (values(d), values(x), precision.lanes());
    let left = Left::from_columns(lanes, m, n, |i| &d[i * m..][..m]);
    product(&left, [m, k], precision, |columns| {
        Right::from_rows(lanes, n, columns.len(), |i| &x[i * k..][columns.clone()])
    })
}

/// Sizes of the two matrices that differ, then the one they share, dimension 1 − `of` of both; `None` where libtorch is to
/// multiply.
fn sizes(a: &Tensor, b: &Tensor, of: usize, precision: Precision) -> Option<[usize; 3]> {
    let can = vectors(precision.lanes()) && is_slice(a) && is_slice(b) && a.numel() > 0;
    let size = |tensor: &Tensor, dimension: usize| usize::try_from(tensor.size()[dimension]).ok();
    can.then_some(())?;
    Some([size(a, of)?, size(b, of)?, size(a, 1 - of)?])
}

/// The product of `left` and the right factor that `pack` gives the columns of, dealt out to threads.
fn product(
    left: &Left,
    [rows, columns]: [usize; 2],
    precision: Precision,
    pack: impl Fn(Range<usize>) -> Right + Sync,
) -> Tensor {
    let mut out = Tensor::empty([number(rows), number(columns)], (tch::Kind::Float, tch::Device::Cpu));
    let groups = columns.div_ceil(TOGETHER);
    let share = groups.div_ceil(threads()).max(1) * TOGETHER;
    // Each thread has a piece of every row.
    let mut pieces: Vec<Vec<&mut [f32]>> = (0..columns.div_ceil(share)).map(|_| Vec::with_capacity(rows)).collect();
    for row in values_mut(&mut out).chunks_exact_mut(columns) {
        pieces.iter_mut().zip(row.chunks_mut(share)).for_each(|(piece, row)| piece.push(row));
    }
    let pack = &pack;
    std::thread::scope(|scope| {
        let mut work: Vec<_> = pieces
            .into_iter()
            .enumerate()
            .map(|(thread, piece)| move || columns_of(left, piece, thread * share, precision, pack))
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

fn columns_of(
    left: &Left,
    mut rows: Vec<&mut [f32]>,
    start: usize,
    precision: Precision,
    pack: impl Fn(Range<usize>) -> Right,
) {
    let columns = rows.first().map_or(0, |row| row.len());
    for first in (0..columns).step_by(TOGETHER) {
        let right = pack(start + first..start + columns.min(first + TOGETHER));
        for (panel, (width, right)) in right.panels().enumerate() {
            for ((count, left), out) in left.panels().zip(rows.chunks_mut(ROWS)) {
                let mut product = Tile::ZERO;
                tile(precision.lanes(), count, left, right, &mut product);
                for (out, values) in out.iter_mut().zip(&product.0) {
                    out[first + panel * COLUMNS..][..width].copy_from_slice(&values[..width]);
                }
            }
        }
    }
}
