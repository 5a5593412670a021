//! Linear layer that libtorch differentiates, and whose products this project's kernels compute.

#![expect(unsafe_code, reason = "functions that libtorch differentiates are C++")]

use std::ffi::{c_int, c_void};

use az::SaturatingAs;
use tch::Tensor;

use super::linear::{LayerFactors, LayerProduct};
use super::matmul::MatmulPrecision;
use crate::kernels::product::{ElementType, has_avx512};
use crate::model::tensor_slices::{is_f32_slice, thread_count};

type Kernel = extern "C" fn(c_int, *const f32, *const f32, *mut f32, *const i64, bool);

unsafe extern "C" {
    fn pairloom_linear(x: *const c_void, w: *const c_void, kernel: Kernel, bf16: bool) -> *mut c_void;
}

/// `x · wᵀ`, `[n, m]` from `[n, k]` and `[m, k]`, with gradients in both. Kernels of this project compute it and its
/// gradients where they apply.
pub fn differentiable_linear(x: &Tensor, w: &Tensor, precision: MatmulPrecision) -> Tensor {
    let own = precision != MatmulPrecision::MixedByLibtorch && has_avx512(precision.element_type());
    if !(own && is_f32_slice(x) && is_f32_slice(w) && x.numel() > 0) {
        return precision.matmul(x, &w.tr());
    }
    let bf16 = precision.element_type() == ElementType::Bf16;
    // SAFETY: both pointers are tensors of libtorch, which are valid for the call, and the kernel has the signature of
    // the C++ source.
    let made = unsafe { pairloom_linear(x.as_ptr().cast(), w.as_ptr().cast(), multiply, bf16) };
    assert!(!made.is_null(), "libtorch computes a linear layer of {:?} and {:?}", x.size(), w.size());
    // SAFETY: the function returned a new tensor, which nothing else owns.
    unsafe { Tensor::from_ptr(made.cast()) }
}

/// Kernel of the products. A panic ends the process, since it must not unwind into C++.
extern "C" fn multiply(product: c_int, a: *const f32, b: *const f32, out: *mut f32, sizes: *const i64, bf16: bool) {
    // SAFETY: the caller passes three sizes.
    let sizes = unsafe { std::slice::from_raw_parts(sizes, 3) };
    let [rows, columns, depth]: [usize; 3] = [sizes[0], sizes[1], sizes[2]].map(SaturatingAs::saturating_as);
    let product = match product {
        0 => LayerProduct::Output,
        1 => LayerProduct::InputGradient,
        _ => LayerProduct::WeightGradient,
    };
    if rows == 0 || columns == 0 {
        return;
    }
    // SAFETY: the first factor has so many values, which the caller keeps alive and does not change meanwhile.
    let a = unsafe { std::slice::from_raw_parts(a, rows * depth) };
    // SAFETY: as above.
    let b = unsafe { std::slice::from_raw_parts(b, columns * depth) };
    // SAFETY: the result is a new tensor of `rows · columns` values, which nothing else reads or writes.
    let out = unsafe { std::slice::from_raw_parts_mut(out, rows * columns) };
    let element_type = if bf16 { ElementType::Bf16 } else { ElementType::F32 };
    LayerFactors { product, values: [a, b], sizes: [rows, columns, depth], element_type }.multiply(out, thread_count());
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

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
            let wanted = gradients(Kind::Double, &|x, w| x.matmul(&w.tr()));
            for (precision, most) in [(MatmulPrecision::F32, 1e-5), (MatmulPrecision::Mixed, 2e-2)] {
                let found = gradients(Kind::Float, &|x, w| differentiable_linear(x, w, precision));
                for (got, wanted) in found.iter().zip(&wanted) {
                    let [error, size] = [got - wanted, wanted.shallow_clone()].map(|of| of.norm().double_value(&[]));
                    assert!(error < most * size, "{precision:?} {n} × {m}: {error} of {size}");
                }
            }
        }
        // Only the gradients that are wanted are computed.
        let [x, w] =
            [Tensor::ones([2, 3], (Kind::Float, Device::Cpu)), Tensor::ones([4, 3], (Kind::Float, Device::Cpu))];
        let w = w.set_requires_grad(true);
        let y = differentiable_linear(&x, &w, MatmulPrecision::F32);
        let found = Tensor::run_backward(&[y.sum(None::<Kind>)], &[&w], false, false);
        assert_eq!(found[0], Tensor::full([4, 3], 2.0, (Kind::Float, Device::Cpu)));
    }
}
