//! One direction of a GRU over the word vectors of a batch: with this project's kernels where they apply, cuDNN on GPUs, and
//! libtorch elsewhere.

use tch::{Kind, Tensor};

use super::fused::{self, FusedInput};
use super::graph_gru::GraphTape;
use super::gru;
use super::matmul::{MatmulPrecision, PrecisionProducts};
use super::packed_captions::PackedCaptions;
use super::pooling::{index_tensor, to_i64};
use super::state_gradient::StateGradient;
use crate::tensor_slices::{as_mut_slice, as_slice, is_f32_slice, thread_count};
use pairloom_kernels::product::has_avx512;

/// Inputs of one direction of a GRU.
#[derive(Debug, Clone, Copy)]
pub(super) struct GruInput<'t> {
    /// Vectors of the distinct words, `[u, w]`.
    pub vectors: &'t Tensor,
    /// Row of each word in `vectors`.
    pub token_rows: &'t [usize],
    /// Packed captions of the batch.
    pub packed: &'t PackedCaptions,
    /// `W_ih`, `W_hh`, `b_ih`, `b_hh`.
    pub weights: &'t [Tensor],
    /// Precision of matrix products.
    pub precision: MatmulPrecision,
}

/// Tape of the forward pass for the backward pass.
#[derive(Debug)]
pub(super) enum RecurrenceTape {
    Fused(fused::FusedTape),
    Graph(GraphTape),
    Tensors(gru::GruTape),
}

impl<'t> GruInput<'t> {
    /// Inputs of the fused kernels; `None` if they do not apply.
    fn fused_input(&self) -> Option<FusedInput<'t>> {
        let element_type = self.precision.element_type();
        let [w_ih, w_hh, b_ih, b_hh] = self.weights else { return None };
        let applies = self.precision != MatmulPrecision::MixedByLibtorch
            && has_avx512(element_type)
            && is_f32_slice(self.vectors)
            && self.weights.iter().all(is_f32_slice);
        applies.then(|| FusedInput {
            batch_sizes: &self.packed.batch_sizes,
            token_rows: self.token_rows,
            vectors: as_slice(self.vectors),
            w_ih: as_slice(w_ih),
            w_hh: as_slice(w_hh),
            b_ih: as_slice(b_ih),
            b_hh: as_slice(b_hh),
            element_type,
        })
    }

    /// Weights for cuDNN; `None` on the CPU.
    fn weights_on_gpu(&self) -> Option<&'t [Tensor; 4]> {
        let applies = self.vectors.device().is_cuda() && self.vectors.kind() == Kind::Float;
        self.weights.try_into().ok().filter(|_| applies)
    }

    /// Computes the states after every word.
    pub(super) fn forward(&self) -> RecurrenceTape {
        if let Some(input) = self.fused_input() {
            return RecurrenceTape::Fused(fused::FusedTape::forward(&input, thread_count()));
        }
        let Self { weights, precision, .. } = *self;
        if let Some(weights) = self.weights_on_gpu() {
            return RecurrenceTape::Graph(GraphTape::forward(self.vectors, self.token_rows, weights, self.packed));
        }
        // The input product of a word that occurs more than once is computed once.
        let products = precision.matmul(self.vectors, &weights[0].tr()).g_add_(&weights[2]);
        let inputs = products.index_select(0, &index_tensor(self.token_rows, products.device()));
        RecurrenceTape::Tensors(gru::forward(inputs, &weights[1], &weights[3], &self.packed.batch_sizes, precision))
    }

    /// Computes the gradients of `W_ih`, `W_hh`, `b_ih` and `b_hh`. The gradient of the vectors of the distinct words,
    /// `[u, w]`, is added to `vectors_gradient` if it is given.
    pub(super) fn backward(
        &self,
        tape: RecurrenceTape,
        state_gradient: StateGradient<'_>,
        vectors_gradient: Option<&mut Tensor>,
    ) -> [Tensor; 4] {
        match (tape, self.fused_input()) {
            (RecurrenceTape::Fused(tape), Some(input)) => {
                self.backward_fused(tape, &input, state_gradient, vectors_gradient)
            }
            (RecurrenceTape::Graph(tape), _) => {
                let [vectors, weights @ ..] = tape.backward(state_gradient, self.packed);
                if let Some(vectors_gradient) = vectors_gradient {
                    let _ = vectors_gradient.g_add_(&vectors);
                }
                weights
            }
            (RecurrenceTape::Tensors(tape), _) => self.backward_tensors(tape, state_gradient, vectors_gradient),
            (RecurrenceTape::Fused(_), None) => unreachable!("the fused kernels applied in the forward pass"),
        }
    }

    fn backward_fused(
        &self,
        tape: fused::FusedTape,
        input: &FusedInput<'_>,
        state_gradient: StateGradient<'_>,
        vectors_gradient: Option<&mut Tensor>,
    ) -> [Tensor; 4] {
        let mut found = [0, 1, 2, 3].map(|i| self.weights[i].empty_like());
        let [w_ih, w_hh, b_ih, b_hh] = found.each_mut().map(as_mut_slice);
        let gradients = fused::GradientBuffers { vectors: vectors_gradient.map(as_mut_slice), w_ih, w_hh, b_ih, b_hh };
        let (StateGradient::LastWord(d) | StateGradient::EveryWord(d)) = state_gradient;
        let d = d.contiguous();
        let state_gradient = match state_gradient {
            StateGradient::LastWord(_) => fused::FusedStateGradient::LastWord(as_slice(&d)),
            StateGradient::EveryWord(_) => fused::FusedStateGradient::EveryWord(as_slice(&d)),
        };
        tape.backward(input, state_gradient, gradients);
        found
    }

    fn backward_tensors(
        &self,
        tape: gru::GruTape,
        state_gradient: StateGradient<'_>,
        vectors_gradient: Option<&mut Tensor>,
    ) -> [Tensor; 4] {
        let Self { weights, precision, .. } = *self;
        let d_states = match state_gradient {
            StateGradient::EveryWord(d) => d.shallow_clone(),
            StateGradient::LastWord(d) => {
                tape.states().zeros_like().index_copy(0, &index_tensor(&self.packed.last_words(), d.device()), d)
            }
        };
        let found = tape.backward(&d_states, &weights[1], &self.packed.batch_sizes, precision);
        // The gradients of all occurrences of a word are summed in its input product.
        let per_word =
            Tensor::zeros([self.vectors.size()[0], found.inputs.size()[1]], (d_states.kind(), d_states.device()));
        let per_word = per_word.index_add(0, &index_tensor(self.token_rows, d_states.device()), &found.inputs);
        if let Some(vectors_gradient) = vectors_gradient {
            let _ = vectors_gradient.g_add_(&precision.matmul(&per_word, &weights[0]));
        }
        let bias = per_word.sum_dim_intlist([0i64].as_slice(), false, None::<Kind>);
        [precision.matmul(&per_word.tr(), self.vectors), found.weight, bias, found.bias]
    }
}

impl RecurrenceTape {
    /// States after the words `chosen`, `[len, h]`.
    pub(super) fn states_at(&self, chosen: &[usize], like: &Tensor) -> Tensor {
        match self {
            Self::Graph(tape) => tape.states().index_select(0, &index_tensor(chosen, like.device())),
            Self::Tensors(tape) => tape.states().index_select(0, &index_tensor(chosen, like.device())),
            Self::Fused(tape) => {
                let size = [to_i64(chosen.len()), like.size()[1]];
                let mut out = Tensor::empty(size, (like.kind(), like.device()));
                tape.states(chosen.iter().copied(), as_mut_slice(&mut out));
                out
            }
        }
    }
}
