//! Linear layer that libtorch differentiates, and whose products this project's kernels compute.

use tch::Tensor;

use super::linear;
use super::matmul::{MatmulPrecision, PrecisionProducts};
use crate::autograd_node::differentiable;

/// `x · wᵀ`, `[n, m]` from `[n, k]` and `[m, k]`, with gradients in both. Kernels of this project compute it and its
/// gradients where they apply.
pub fn differentiable_linear(x: &Tensor, w: &Tensor, precision: MatmulPrecision) -> Tensor {
    if precision == MatmulPrecision::MixedByLibtorch || !linear::kernels_apply([x, w], precision) {
        return precision.matmul(x, &w.tr());
    }
    let [saved_x, saved_w] = [x.detach(), w.detach()];
    let output = linear::forward(&saved_x, &saved_w, precision);
    differentiable(&output, &[x, w], move |d, wanted| {
        let d = d.contiguous();
        let of_x = wanted[0].then(|| linear::input_gradient(&d, &saved_w, precision));
        let of_w = wanted[1].then(|| linear::weight_gradient(&d, &saved_x, precision));
        vec![of_x, of_w]
    })
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
