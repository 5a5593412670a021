//! GRU of libtorch, which on GPUs is cuDNN's. Its graph of gradients is kept for the backward pass.
//!
//! The formula is that of [`gru`](super::gru), in f32 throughout. A kernel of cuDNN computes many words; `gru` starts some
//! forty kernels for each position of a word, which takes longer than to compute them.

use tch::{Kind, Tensor};

use super::packed_captions::PackedCaptions;
use super::pooling::{index_tensor, to_i64};
use super::state_gradient::StateGradient;

/// cuDNN's number of a GRU.
const CUDNN_GRU: i64 = 3;

/// Forward pass over `n` words in packed order, and its graph.
#[derive(Debug)]
pub(super) struct GraphTape {
    /// Vectors of the distinct words, `W_ih`, `W_hh`, `b_ih`, `b_hh`.
    inputs: [Tensor; 5],
    /// State after every word, `[n, h]`.
    states: Tensor,
}

impl GraphTape {
    /// Runs the GRU over all words, from h = 0. `vectors` are those of the distinct words, `[u, w]`; `token_rows` has the
    /// row of each word; `weights` are `W_ih`, `W_hh`, `b_ih`, `b_hh`.
    pub(super) fn forward(
        vectors: &Tensor,
        token_rows: &[usize],
        weights: &[Tensor; 4],
        packed: &PackedCaptions,
    ) -> Self {
        let [w_ih, w_hh, b_ih, b_hh] = weights.each_ref().map(|weight| weight.detach().copy());
        let h = w_hh.size()[1];
        if vectors.device().is_cuda() {
            // Moves the weights into one piece of memory, as cuDNN wants them. Otherwise libtorch does it, with a warning.
            let all = [&w_ih, &w_hh, &b_ih, &b_hh];
            tch::no_grad(|| {
                let width = w_ih.size()[1];
                drop(Tensor::internal_cudnn_rnn_flatten_weight(&all, 4, width, CUDNN_GRU, h, 0, 1, true, false));
            });
        }
        let inputs = [vectors.detach(), w_ih, w_hh, b_ih, b_hh].map(|input| input.set_requires_grad(true));
        // libtorch wants the sizes on the CPU.
        let sizes = index_tensor(&packed.batch_sizes, tch::Device::Cpu);
        let captions = to_i64(packed.unsorted_indices.len());
        let states = tch::with_grad(|| {
            let words = inputs[0].index_select(0, &index_tensor(token_rows, vectors.device()));
            let start = Tensor::zeros([1, captions, h], (words.kind(), words.device()));
            let (states, _) = Tensor::gru_data(&words, &sizes, &start, &inputs[1..], true, 1, 0.0, true, false);
            states
        });
        Self { inputs, states }
    }

    /// State after every word, `[n, h]`, without its graph.
    pub(super) fn states(&self) -> Tensor {
        self.states.detach()
    }

    /// Computes the gradients of the vectors, `[u, w]`, and of `W_ih`, `W_hh`, `b_ih` and `b_hh`.
    pub(super) fn backward(self, gradient: StateGradient<'_>, packed: &PackedCaptions) -> [Tensor; 5] {
        let found = tch::with_grad(|| {
            let weighted = match gradient {
                StateGradient::EveryWord(d) => &self.states * d.detach(),
                StateGradient::LastWord(d) => {
                    let last = index_tensor(&packed.last_words(), d.device());
                    self.states.index_select(0, &last) * d.detach()
                }
            };
            Tensor::run_backward(&[weighted.sum(None::<Kind>)], &self.inputs, false, false)
        });
        found.try_into().expect("a gradient for each input")
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::encoder::gru;
    use crate::encoder::matmul::MatmulPrecision;

    /// States and gradients of the loops of `gru`, which golden files check, in f64.
    #[test]
    fn states_and_gradients_are_those_of_the_loop() {
        tch::manual_seed(5);
        let random = |size: &[i64]| Tensor::randn(size, (Kind::Double, Device::Cpu));
        let packed = PackedCaptions::new(&[&[1, 2, 1], &[4, 1, 2, 7, 4], &[7]]);
        let (w, h) = (3, 4);
        let vectors = random(&[to_i64(packed.distinct_token_ids.len()), w]);
        let weights = [random(&[3 * h, w]), random(&[3 * h, h]), random(&[3 * h]), random(&[3 * h])];
        let rows = index_tensor(&packed.token_rows, Device::Cpu);
        let near = |got: &Tensor, wanted: &Tensor| {
            let difference = f64::try_from((got - wanted).abs().max()).expect("a number");
            assert!(got.size() == wanted.size() && difference < 1e-12, "{difference}");
        };
        for every in [true, false] {
            let tape = GraphTape::forward(&vectors, &packed.token_rows, &weights, &packed);
            let products = vectors.matmul(&weights[0].tr()) + &weights[2];
            let inputs = products.index_select(0, &rows);
            let (sizes, precision) = (&packed.batch_sizes, MatmulPrecision::F32);
            let wanted = gru::forward(inputs, &weights[1], &weights[3], sizes, precision);
            near(&tape.states(), wanted.states());
            let (d, d_states) = if every {
                let d = random(&[9, h]);
                (d.shallow_clone(), d)
            } else {
                let d = random(&[3, h]);
                let last = index_tensor(&packed.last_words(), Device::Cpu);
                (d.shallow_clone(), Tensor::zeros([9, h], (Kind::Double, Device::Cpu)).index_copy(0, &last, &d))
            };
            let gradient = if every { StateGradient::EveryWord(&d) } else { StateGradient::LastWord(&d) };
            let found = tape.backward(gradient, &packed);
            let wanted = wanted.backward(&d_states, &weights[1], sizes, precision);
            let per_word = vectors.new_zeros([vectors.size()[0], 3 * h], (Kind::Double, Device::Cpu));
            let per_word = per_word.index_add(0, &rows, &wanted.inputs);
            near(&found[0], &per_word.matmul(&weights[0]));
            near(&found[1], &per_word.tr().matmul(&vectors));
            near(&found[2], &wanted.weight);
            near(&found[3], &per_word.sum_dim_intlist([0i64].as_slice(), false, None::<Kind>));
            near(&found[4], &wanted.bias);
        }
    }
}
