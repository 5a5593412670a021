//! [`DifferenceProducts`] that libtorch differentiates.

#![expect(unsafe_code, reason = "functions that libtorch differentiates are C++")]

use std::ffi::c_void;

use az::SaturatingAs;
use tch::{Reduction, Tensor};

use super::difference_products::{DifferenceGradients, DifferenceProducts, DifferenceSizes};
use crate::kernels::product::{ElementType, has_avx512};
use crate::model::encoder::MatmulPrecision;
use crate::model::family::graph::Graph;
use crate::model::tensor_slices::{is_f32_slice, thread_count};

type Forward = extern "C" fn(*const *const f32, *const i64, bool, *mut f32);
type Backward = extern "C" fn(*const *const f32, *const i64, bool, *const f32, *const *mut f32);

unsafe extern "C" {
    fn pairloom_difference_layer(
        inputs: *const *const c_void,
        forward: Forward,
        backward: Backward,
        bf16: bool,
    ) -> *mut c_void;
}

/// Inputs of the layer, as those of [`DifferenceProducts`]: `[a, r, n]`, `[a, r, d]`, `[n, d]`, `[s, d]` and `[s]`.
pub(super) struct DifferenceInputs<'t> {
    pub weights: &'t Tensor,
    pub regions: &'t Tensor,
    pub words: &'t Tensor,
    pub layer: &'t Tensor,
    pub bias: &'t Tensor,
}

impl DifferenceInputs<'_> {
    /// Computes the output, `[a, n, s]`, with gradients in all inputs. Kernels of this project compute it and its
    /// gradients where they apply.
    pub fn output(&self, graph: &Graph<'_>) -> Tensor {
        let precision = graph.precision();
        let inputs = [self.weights, self.regions, self.words, self.layer, self.bias];
        let own = precision != MatmulPrecision::MixedByLibtorch && has_avx512(precision.element_type());
        if own && inputs.iter().all(|input| is_f32_slice(input)) {
            by_kernels(inputs, precision.element_type() == ElementType::Bf16)
        } else {
            self.by_libtorch(graph)
        }
    }

    fn by_libtorch(&self, graph: &Graph<'_>) -> Tensor {
        let attended = graph.matmul(&self.weights.transpose(1, 2), self.regions);
        let [images, words, width] = <[i64; 3]>::try_from(attended.size()).unwrap_or_default();
        // Squared differences in one pass over the vectors, which are the most memory of a step; so is the gradient.
        let squares = attended.mse_loss(&self.words.unsqueeze(0).expand_as(&attended), Reduction::None);
        let output = graph.matmul_transposed(&squares.view([images * words, width]), self.layer) + self.bias;
        output.view([images, words, -1])
    }
}

fn by_kernels(inputs: [&Tensor; 5], bf16: bool) -> Tensor {
    let pointers = inputs.map(|input| input.as_ptr().cast::<c_void>());
    // SAFETY: the pointers are tensors of libtorch, which are valid for the call, and the kernels have the signatures of
    // the C++ source.
    let made = unsafe { pairloom_difference_layer(pointers.as_ptr(), forward, backward, bf16) };
    assert!(!made.is_null(), "libtorch computes a layer of differences of {:?}", inputs.map(Tensor::size));
    // SAFETY: the function returned a new tensor, which nothing else owns.
    unsafe { Tensor::from_ptr(made.cast()) }
}

/// Kernel of the output. A panic ends the process, since it must not unwind into C++.
extern "C" fn forward(inputs: *const *const f32, sizes: *const i64, bf16: bool, out: *mut f32) {
    // SAFETY: the caller passes five inputs of these sizes.
    let products = unsafe { read_inputs(inputs, sizes, bf16) };
    let DifferenceSizes { images, words, outputs, .. } = products.sizes;
    // SAFETY: the output is a new tensor of so many values, which nothing else reads or writes.
    let out = unsafe { values_mut(out, images * words * outputs) };
    products.forward(out, thread_count());
}

/// Kernel of the gradients. A panic ends the process, since it must not unwind into C++.
extern "C" fn backward(
    inputs: *const *const f32,
    sizes: *const i64,
    bf16: bool,
    d: *const f32,
    gradients: *const *mut f32,
) {
    // SAFETY: the caller passes five inputs of these sizes.
    let products = unsafe { read_inputs(inputs, sizes, bf16) };
    let DifferenceSizes { images, words, outputs, .. } = products.sizes;
    // SAFETY: the gradient has the shape of the output.
    let d = unsafe { values(d, images * words * outputs) };
    // SAFETY: the caller passes five gradients.
    let found = unsafe { std::slice::from_raw_parts(gradients, 5) };
    let lengths = [products.weights, products.regions, products.words, products.layer, products.bias].map(<[f32]>::len);
    let part = |input: usize| {
        // SAFETY: the gradient is a new tensor of the shape of its input, which nothing else reads or writes, and is taken
        // once.
        unsafe { values_mut(found[input], lengths[input]) }
    };
    let gradients =
        DifferenceGradients { weights: part(0), regions: part(1), words: part(2), layer: part(3), bias: part(4) };
    products.backward(d, gradients, thread_count());
}

/// Inputs of a kernel.
///
/// # Safety
/// There are five sizes, and five inputs of these sizes, which live and do not change for `'v`.
unsafe fn read_inputs<'v>(inputs: *const *const f32, sizes: *const i64, bf16: bool) -> DifferenceProducts<'v> {
    // SAFETY: there are five.
    let sizes = unsafe { std::slice::from_raw_parts(sizes, 5) };
    let [images, regions, words, width, outputs]: [usize; 5] = std::array::from_fn(|i| sizes[i].saturating_as());
    // SAFETY: there are five.
    let inputs = unsafe { std::slice::from_raw_parts(inputs, 5) };
    let lengths = [images * regions * words, images * regions * width, words * width, outputs * width, outputs];
    let [weights, regions_of_all, words_of_all, layer, bias] = std::array::from_fn(|input| {
        // SAFETY: the input has this size.
        unsafe { values(inputs[input], lengths[input]) }
    });
    DifferenceProducts {
        weights,
        regions: regions_of_all,
        words: words_of_all,
        layer,
        bias,
        sizes: DifferenceSizes { images, regions, words, width, outputs },
        element_type: if bf16 { ElementType::Bf16 } else { ElementType::F32 },
    }
}

/// Values of a tensor; a tensor without values may have no address.
///
/// # Safety
/// There are so many values, which live and do not change for `'v`.
unsafe fn values<'v>(from: *const f32, count: usize) -> &'v [f32] {
    if count == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(from, count) }
}

/// As [`values`], to be written.
///
/// # Safety
/// There are so many values, which live for `'v`, and nothing else reads or writes them.
unsafe fn values_mut<'v>(from: *mut f32, count: usize) -> &'v mut [f32] {
    if count == 0 {
        return &mut [];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts_mut(from, count) }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::kernels::random::Rng;
    use crate::model::family::input_spec::InputSpec;
    use crate::model::family::parameters::{ParameterSpec, Parameters};

    /// Output and gradients, beside those of libtorch in f64: of shapes with one and with several tiles and groups.
    #[test]
    fn output_and_gradients_are_those_of_libtorch() {
        let spec = InputSpec::for_features(1, 1);
        let specs = ParameterSpec::linear("unused", 1, 1).to_vec();
        let parameters = Parameters::random(specs, &spec, 1, Device::Cpu).expect("parameters");
        let mut rng = Rng::new(5, &[]);
        for [a, r, n, d, s] in [[1, 1, 1, 1, 1], [3, 5, 7, 9, 11], [19, 36, 130, 70, 33]] {
            let mut random = |size: &[i64]| {
                let values: Vec<f64> = (0..size.iter().product::<i64>()).map(|_| rng.uniform() - 0.5).collect();
                // Values of f32, so that both sides start from the same.
                Tensor::from_slice(&values).view(size).to_kind(Kind::Float)
            };
            let leaves: [Tensor; 5] =
                [vec![a, r, n], vec![a, r, d], vec![n, d], vec![s, d], vec![s]].map(|size| random(&size));
            let d_out = random(&[a, n, s]);
            let run = |kind: Kind, precision: MatmulPrecision| {
                let leaves = leaves.each_ref().map(|leaf| leaf.to_kind(kind).set_requires_grad(true));
                let [weights, regions, words, layer, bias] = leaves.each_ref();
                let inputs = DifferenceInputs { weights, regions, words, layer, bias };
                let out = inputs.output(&Graph::with_gradient(&parameters, precision, None));
                let sum = (&out * d_out.to_kind(kind)).sum(None::<Kind>);
                let found = Tensor::run_backward(&[sum], &leaves, false, false);
                std::iter::once(out.detach()).chain(found).map(|of| of.to_kind(Kind::Double)).collect::<Vec<_>>()
            };
            let wanted = run(Kind::Double, MatmulPrecision::F32);
            for (precision, most) in [(MatmulPrecision::F32, 2e-6), (MatmulPrecision::Mixed, 2e-2)] {
                for (part, (got, wanted)) in run(Kind::Float, precision).iter().zip(&wanted).enumerate() {
                    let [error, size] = [got - wanted, wanted.shallow_clone()].map(|of| of.norm().double_value(&[]));
                    assert!(error <= most * size, "{precision:?} {a} × {n}, part {part}: {error} of {size}");
                }
            }
            // One thread and three have the same bits.
            let before = tch::get_num_threads();
            let found = [1, 3].map(|threads| {
                tch::set_num_threads(threads);
                run(Kind::Float, MatmulPrecision::F32)
            });
            tch::set_num_threads(before);
            assert_eq!(found[0], found[1]);
        }
    }
}
