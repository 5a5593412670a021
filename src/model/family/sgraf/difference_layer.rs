//! [`DifferenceProducts`] that libtorch differentiates.

use az::SaturatingAs;
use tch::{Reduction, Tensor};

use super::difference_products::{DifferenceGradients, DifferenceProducts, DifferenceSizes};
use crate::autograd_node::differentiable;
use crate::encoder::MatmulPrecision;
use crate::family::graph::Graph;
use crate::tensor_slices::{as_mut_slice, as_slice, is_f32_slice, thread_count};
use pairloom_kernels::product::{ElementType, has_avx512};

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
            by_kernels(inputs, precision.element_type())
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

fn by_kernels(inputs: [&Tensor; 5], element_type: ElementType) -> Tensor {
    let saved = inputs.map(Tensor::detach);
    let products = layer_products(&saved, element_type);
    let DifferenceSizes { images, words, outputs, .. } = products.sizes;
    let size = [images, words, outputs].map(SaturatingAs::saturating_as::<i64>);
    let mut output = Tensor::empty(size, (saved[0].kind(), saved[0].device()));
    products.forward(as_mut_slice(&mut output), thread_count());
    differentiable(&output, &inputs, move |d, _| {
        let d = d.contiguous();
        let mut found = saved.each_ref().map(Tensor::empty_like);
        let [weights, regions, words, layer, bias] = found.each_mut().map(as_mut_slice);
        let gradients = DifferenceGradients { weights, regions, words, layer, bias };
        layer_products(&saved, element_type).backward(as_slice(&d), gradients, thread_count());
        found.map(Some).into()
    })
}

/// Products of the layer with these inputs.
fn layer_products(inputs: &[Tensor; 5], element_type: ElementType) -> DifferenceProducts<'_> {
    let size = |input: usize, dimension: usize| inputs[input].size()[dimension].saturating_as::<usize>();
    let sizes = DifferenceSizes {
        images: size(0, 0),
        regions: size(0, 1),
        words: size(0, 2),
        width: size(1, 2),
        outputs: size(3, 0),
    };
    let [weights, regions, words, layer, bias] = inputs.each_ref().map(as_slice);
    DifferenceProducts { weights, regions, words, layer, bias, sizes, element_type }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::family::parameters::{ParameterSpec, Parameters};
    use pairloom_kernels::random::Rng;
    use pairloom_spec::input_spec::InputSpec;

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
