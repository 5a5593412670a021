//! Matrix products of a linear layer `y = x · wᵀ`, with this project's kernels where they apply and libtorch elsewhere;
//! with gradients by hand, or differentiated by libtorch.

use std::ops::Range;

use tch::{Device, Kind, Tensor};

use super::to_i64;
use crate::autograd_node::differentiable;
use crate::tensor_slices::{as_mut_slice, as_slice, is_f32_slice, thread_count};
use pairloom_kernels::product::{
    ElementType, LeftFactor, RightFactor, TILE_COLUMNS, TILE_ROWS, Tile, add_product, has_avx512,
};

use pairloom_spec::precision::MatmulPrecision;

/// Number of columns that a thread packs together.
const PACKED_COLUMNS: usize = 8 * TILE_COLUMNS;

/// Number of rows that are multiplied together. Their factor fits the L2 cache beside a panel of the other.
const ROWS_PER_BLOCK: usize = 8 * TILE_ROWS;

/// Number of rows for each column from which on threads share the rows, not the columns.
const TALL: usize = 4;

/// `x · wᵀ`, `[n, m]` from `[n, k]` and `[m, k]`.
pub fn matmul_transposed(x: &Tensor, w: &Tensor, precision: MatmulPrecision) -> Tensor {
    let Some([n, m, k]) = kernel_sizes(x, w, [0, 0], precision) else { return precision.matmul(x, &w.tr()) };
    multiply(LayerProduct::Output, [x, w], [n, m, k], precision)
}

/// `dᵀ · x`, `[m, k]` from `[n, m]` and `[n, k]`: gradient of `w`.
pub(super) fn weight_gradient(d: &Tensor, x: &Tensor, precision: MatmulPrecision) -> Tensor {
    let Some([m, k, n]) = kernel_sizes(d, x, [1, 1], precision) else { return precision.matmul(&d.tr(), x) };
    multiply(LayerProduct::WeightGradient, [d, x], [m, k, n], precision)
}

/// `d · w`, `[n, k]` from `[n, m]` and `[m, k]`: gradient of `x`.
pub(super) fn input_gradient(d: &Tensor, w: &Tensor, precision: MatmulPrecision) -> Tensor {
    let Some([n, k, m]) = kernel_sizes(d, w, [0, 1], precision) else { return precision.matmul(d, w) };
    multiply(LayerProduct::InputGradient, [d, w], [n, k, m], precision)
}

/// True if this project's kernels compute the products of a layer with these inputs.
pub(super) fn kernels_apply(inputs: [&Tensor; 2], precision: MatmulPrecision) -> bool {
    has_avx512(precision.element_type()) && inputs.iter().all(|input| is_f32_slice(input)) && inputs[0].numel() > 0
}

/// Sizes of the dimensions `of` of `a` and of `b`, which are those of their product, then the size of their common
/// dimension. `None` if libtorch must compute the product.
fn kernel_sizes(a: &Tensor, b: &Tensor, dimensions: [usize; 2], precision: MatmulPrecision) -> Option<[usize; 3]> {
    let size = |tensor: &Tensor, dimension: usize| usize::try_from(tensor.size()[dimension]).ok();
    kernels_apply([a, b], precision).then_some(())?;
    Some([size(a, dimensions[0])?, size(b, dimensions[1])?, size(a, 1 - dimensions[0])?])
}

fn multiply(
    product: LayerProduct,
    factors: [&Tensor; 2],
    [rows, columns, depth]: [usize; 3],
    precision: MatmulPrecision,
) -> Tensor {
    let mut out = Tensor::empty([to_i64(rows), to_i64(columns)], (Kind::Float, Device::Cpu));
    let factors = LayerFactors {
        product,
        values: factors.map(as_slice),
        sizes: [rows, columns, depth],
        element_type: precision.element_type(),
    };
    factors.multiply(as_mut_slice(&mut out), thread_count());
    out
}

/// Product of a linear layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LayerProduct {
    /// `x · wᵀ`.
    Output,
    /// `d · w`, gradient of `x`.
    InputGradient,
    /// `dᵀ · x`, gradient of `w`.
    WeightGradient,
}

/// Factors of a product of `rows × columns` values, row-major: `x` or `d`, and `w` or `x`.
#[derive(Debug, Clone, Copy)]
struct LayerFactors<'f> {
    product: LayerProduct,
    values: [&'f [f32]; 2],
    /// Numbers of rows and columns of the product, and the common size of the factors.
    sizes: [usize; 3],
    element_type: ElementType,
}

impl LayerFactors<'_> {
    /// Computes the product on several threads.
    fn multiply(&self, out: &mut [f32], threads: usize) {
        let [rows, columns, _] = self.sizes;
        if out.is_empty() {
            return;
        }
        if rows >= TALL * columns {
            self.share_rows(out, rows.div_ceil(threads).next_multiple_of(ROWS_PER_BLOCK));
        } else {
            let groups = columns.div_ceil(PACKED_COLUMNS);
            self.share_columns(out, groups.div_ceil(threads).max(1) * PACKED_COLUMNS);
        }
    }

    /// Packs rows of the left factor.
    fn pack_left(&self, rows: Range<usize>) -> LeftFactor {
        let ([all, _, depth], values, kind) = (self.sizes, self.values[0], self.element_type);
        match self.product {
            LayerProduct::Output | LayerProduct::InputGradient => {
                LeftFactor::from_rows(kind, rows.len(), depth, |i| &values[(rows.start + i) * depth..][..depth])
            }
            LayerProduct::WeightGradient => {
                LeftFactor::from_columns(kind, rows.len(), depth, |k| &values[k * all..][rows.clone()])
            }
        }
    }

    /// Packs columns of the right factor.
    fn pack_right(&self, columns: Range<usize>) -> RightFactor {
        let ([_, all, depth], values, kind) = (self.sizes, self.values[1], self.element_type);
        match self.product {
            LayerProduct::Output => RightFactor::from_columns(kind, depth, columns.len(), |j| {
                &values[(columns.start + j) * depth..][..depth]
            }),
            LayerProduct::InputGradient | LayerProduct::WeightGradient => {
                RightFactor::from_rows(kind, depth, columns.len(), |k| &values[k * all..][columns.clone()])
            }
        }
    }

    /// Each thread computes some rows, with the whole right factor.
    fn share_rows(&self, out: &mut [f32], rows_per_thread: usize) {
        let columns = self.sizes[1];
        let right = self.pack_right(0..columns);
        let work = |thread: usize, rows: &mut [f32]| {
            for (block, rows) in rows.chunks_mut(ROWS_PER_BLOCK * columns).enumerate() {
                let first = thread * rows_per_thread + block * ROWS_PER_BLOCK;
                let left = self.pack_left(first..first + rows.len() / columns);
                let mut rows: Vec<&mut [f32]> = rows.chunks_exact_mut(columns).collect();
                self.multiply_block(left.panels().map(|(_, panel)| panel), &mut rows, 0, &right);
            }
        };
        let work = &work;
        std::thread::scope(|scope| {
            let mut parts = out.chunks_mut(rows_per_thread * columns).enumerate();
            let own = parts.next();
            for (thread, rows) in parts {
                scope.spawn(move || work(thread, rows));
            }
            if let Some((thread, rows)) = own {
                work(thread, rows);
            }
        });
    }

    /// Each thread computes a piece of every row, with the whole left factor.
    fn share_columns(&self, out: &mut [f32], columns_per_thread: usize) {
        let [rows, columns, _] = self.sizes;
        let left = self.pack_left(0..rows);
        let mut pieces: Vec<Vec<&mut [f32]>> =
            (0..columns.div_ceil(columns_per_thread)).map(|_| Vec::with_capacity(rows)).collect();
        for row in out.chunks_exact_mut(columns) {
            pieces.iter_mut().zip(row.chunks_mut(columns_per_thread)).for_each(|(piece, row)| piece.push(row));
        }
        let left = &left;
        std::thread::scope(|scope| {
            let mut work: Vec<_> = pieces
                .into_iter()
                .enumerate()
                .map(|(thread, piece)| move || self.multiply_columns(left, piece, thread * columns_per_thread))
                .collect();
            let last = work.pop();
            for work in work {
                scope.spawn(work);
            }
            if let Some(work) = last {
                work();
            }
        });
    }

    fn multiply_columns(&self, left: &LeftFactor, mut rows: Vec<&mut [f32]>, start: usize) {
        let columns = rows.first().map_or(0, |row| row.len());
        for first in (0..columns).step_by(PACKED_COLUMNS) {
            let right = self.pack_right(start + first..start + columns.min(first + PACKED_COLUMNS));
            for (block, rows) in rows.chunks_mut(ROWS_PER_BLOCK).enumerate() {
                let panels = rows.len().div_ceil(TILE_ROWS);
                let panels = (0..panels).map(|number| left.panel(block * (ROWS_PER_BLOCK / TILE_ROWS) + number));
                self.multiply_block(panels, rows, first, &right);
            }
        }
    }

    /// Multiplies a block of rows, whose `left` panels are given, by packed columns, which are those of the product from
    /// `first` on.
    fn multiply_block<'l>(
        &self,
        left: impl Iterator<Item = &'l [u32]>,
        rows: &mut [&mut [f32]],
        first: usize,
        right: &RightFactor,
    ) {
        let left: Vec<&[u32]> = left.collect();
        for (panel, (width, right)) in right.panels().enumerate() {
            for (left, out) in left.iter().zip(rows.chunks_mut(TILE_ROWS)) {
                let mut product = Tile::ZERO;
                add_product(self.element_type, out.len(), left, right, &mut product);
                for (out, values) in out.iter_mut().zip(&product.0) {
                    out[first + panel * TILE_COLUMNS..][..width].copy_from_slice(&values[..width]);
                }
            }
        }
    }
}

/// Matrix products in a precision.
pub trait PrecisionProducts {
    /// Converts a factor to the type in which it is multiplied.
    fn cast_factor(self, tensor: &Tensor) -> Tensor;

    /// `a · b`, in the type of `a`. Both have two dimensions, or both three: a batch of products.
    fn matmul(self, a: &Tensor, b: &Tensor) -> Tensor;
}

impl PrecisionProducts for MatmulPrecision {
    fn cast_factor(self, tensor: &Tensor) -> Tensor {
        match self {
            Self::F32 => tensor.shallow_clone(),
            Self::Mixed | Self::MixedByLibtorch => tensor.to_kind(Kind::BFloat16),
        }
    }

    fn matmul(self, a: &Tensor, b: &Tensor) -> Tensor {
        match self {
            Self::F32 => a.matmul(b),
            Self::Mixed | Self::MixedByLibtorch => self.cast_factor(a).matmul(&self.cast_factor(b)).to_kind(a.kind()),
        }
    }
}

/// `x · wᵀ`, `[n, m]` from `[n, k]` and `[m, k]`, with gradients in both. Kernels of this project compute it and its
/// gradients where they apply.
pub fn differentiable_linear(x: &Tensor, w: &Tensor, precision: MatmulPrecision) -> Tensor {
    if precision == MatmulPrecision::MixedByLibtorch || !kernels_apply([x, w], precision) {
        return precision.matmul(x, &w.tr());
    }
    let [saved_x, saved_w] = [x.detach(), w.detach()];
    let output = matmul_transposed(&saved_x, &saved_w, precision);
    differentiable(&output, &[x, w], move |d, needed| {
        let d = d.contiguous();
        let d_input = needed[0].then(|| input_gradient(&d, &saved_w, precision));
        let d_weight = needed[1].then(|| weight_gradient(&d, &saved_x, precision));
        vec![d_input, d_weight]
    })
}

#[cfg(test)]
mod tests {

    use super::*;
    use pairloom_kernels::random::Rng;

    /// Each product on any number of threads, of shapes that are shared by rows and by columns.
    #[test]
    fn products_are_those_of_the_definition() {
        if !has_avx512(ElementType::F32) {
            return;
        }
        let mut rng = Rng::new(3, &[]);
        #[expect(clippy::cast_possible_truncation, reason = "factors are f32")]
        let mut values = |count: usize| (0..count).map(|_| rng.uniform() as f32 - 0.5).collect::<Vec<_>>();
        for [rows, columns, depth] in [[1, 1, 1], [5, 40, 7], [300, 33, 20], [1000, 64, 5], [70, 300, 31]] {
            let factors = [values(rows * depth), values(columns * depth)];
            for product in [LayerProduct::Output, LayerProduct::InputGradient, LayerProduct::WeightGradient] {
                let left = |i: usize, k: usize| match product {
                    LayerProduct::WeightGradient => factors[0][k * rows + i],
                    _ => factors[0][i * depth + k],
                };
                let right = |k: usize, j: usize| match product {
                    LayerProduct::Output => factors[1][j * depth + k],
                    _ => factors[1][k * columns + j],
                };
                let values = [factors[0].as_slice(), &factors[1]];
                let own =
                    LayerFactors { product, values, sizes: [rows, columns, depth], element_type: ElementType::F32 };
                let found = [1, 3].map(|threads| {
                    let mut out = vec![f32::NAN; rows * columns];
                    own.multiply(&mut out, threads);
                    out
                });
                assert_eq!(found[0], found[1], "on any number of threads");
                for (place, &got) in found[0].iter().enumerate() {
                    let (i, j) = (place / columns, place % columns);
                    let expected: f64 = (0..depth).map(|k| f64::from(left(i, k)) * f64::from(right(k, j))).sum();
                    assert!(
                        (f64::from(got) - expected).abs() < 1e-5,
                        "{product:?} {rows} × {columns}: {got} and {expected}"
                    );
                }
            }
        }
    }

    /// Output and both gradients, beside those of libtorch in f64 and of libtorch's own mixed precision.
    #[test]
    fn a_layer_and_its_gradients_are_those_of_libtorch() {
        tch::manual_seed(3);
        for [n, m, k] in [[900, 40, 33], [50, 300, 24], [1, 1, 1]] {
            let random = |rows: i64, columns: i64| Tensor::randn([rows, columns], (Kind::Float, Device::Cpu));
            let (x, w, d) = (random(n, k), random(m, k), random(n, m));
            let gradients = |kind: Kind, layer: &dyn Fn(&Tensor, &Tensor) -> Tensor| {
                let [x, w] = [&x, &w].map(|leaf| leaf.to_kind(kind).set_requires_grad(true));
                let y = layer(&x, &w);
                let sum = (&y * d.to_kind(kind)).sum(None::<Kind>);
                let found = Tensor::run_backward(&[sum], &[x, w], false, false);
                [y.detach(), found[0].shallow_clone(), found[1].shallow_clone()]
                    .map(|tensor| tensor.to_kind(Kind::Double))
            };
            let expected = gradients(Kind::Double, &|x, w| x.matmul(&w.tr()));
            for (precision, most) in [(MatmulPrecision::F32, 1e-5), (MatmulPrecision::Mixed, 2e-2)] {
                let found = gradients(Kind::Float, &|x, w| differentiable_linear(x, w, precision));
                for (got, expected) in found.iter().zip(&expected) {
                    let [error, size] =
                        [got - expected, expected.shallow_clone()].map(|tensor| tensor.norm().double_value(&[]));
                    assert!(error < most * size, "{precision:?} {n} × {m}: {error} of {size}");
                }
            }
        }
        // Only the gradients that are needed are computed.
        let [x, w] =
            [Tensor::ones([2, 3], (Kind::Float, Device::Cpu)), Tensor::ones([4, 3], (Kind::Float, Device::Cpu))];
        let w = w.set_requires_grad(true);
        let y = differentiable_linear(&x, &w, MatmulPrecision::F32);
        let found = Tensor::run_backward(&[y.sum(None::<Kind>)], &[&w], false, false);
        assert_eq!(found[0], Tensor::full([4, 3], 2.0, (Kind::Float, Device::Cpu)));
    }
}
