//! Gated recurrent unit (GRU) over captions of different lengths, with its gradient, on tensors.
//!
//! Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", EMNLP 2014, in the form that PyTorch
//! documents. With `x = W_ih·w + b_ih`, the input product of word `w`, and `q = W_hh·h + b_hh`:
//!
//! ```text
//! r = σ(x_r + q_r)    z = σ(x_z + q_z)    n = tanh(x_n + r∘q_n)    h' = (1 − z)∘n + z∘h
//! ```
//!
//! Used for f64 (golden tests and gradient checks), and on CPUs without AVX-512. On other CPUs `fused` computes the same
//! in f32 or bf16 with this project's kernels, and on GPUs [`GraphTape`] with cuDNN; [`GruInput`] chooses.
//!
//! Differences from libtorch's GRU: the gradient of `W_hh` is one product over all word positions after the loop
//! instead of one small product for each position, and the input product of a word that occurs several times in a batch
//! is computed once. For n words the forward pass needs about 6·h²·n multiplications and the backward pass twice as
//! many.

use tch::{Device, Kind, Tensor};

use super::fused::{self, FusedInput};
use super::linear::PrecisionProducts;
use super::packed_captions::PackedCaptions;
use super::{index_tensor, to_i64};
use crate::tensor_slices::{as_mut_slice, as_slice, is_f32_slice, thread_count};
use pairloom_kernels::product::has_avx512;
use pairloom_spec::precision::MatmulPrecision;

/// Tensors of a forward pass over `n` words in [packed](super::packed_captions::PackedCaptions) order that the backward
/// pass needs.
#[derive(Debug)]
pub struct GruTape {
    /// r, z, n of every word, `[n, 3h]`.
    gates: Tensor,
    /// q of every word, `[n, 3h]`.
    recurrent: Tensor,
    /// h' of every word, `[n, h]`.
    states: Tensor,
}

/// Gradients of a GRU.
#[derive(Debug)]
pub struct GruGradients {
    /// Gradient of the input products, `[n, 3h]`.
    pub inputs: Tensor,
    /// Gradient of `W_hh`, `[3h, h]`.
    pub weight: Tensor,
    /// Gradient of `b_hh`, `[3h]`.
    pub bias: Tensor,
}

/// Runs the GRU over all words, from h = 0, without recording a graph. The input products `inputs`, `[n, 3h]`, are
/// overwritten; `weight` is `W_hh`, `[3h, h]`; `bias` is `b_hh`, `[3h]`; `sizes` are the batch sizes of the packed
/// captions.
#[must_use]
pub fn forward(inputs: Tensor, weight: &Tensor, bias: &Tensor, sizes: &[usize], precision: MatmulPrecision) -> GruTape {
    let h = weight.size()[1];
    let words = inputs.size()[0];
    let gates = inputs;
    let recurrent = Tensor::empty([words, 3 * h], (gates.kind(), gates.device()));
    let states = Tensor::empty([words, h], (gates.kind(), gates.device()));
    let across = precision.cast_factor(weight).tr();
    let mut start = 0;
    for (t, &size) in sizes.iter().enumerate() {
        let size = to_i64(size);
        let mut q = recurrent.narrow(0, start, size);
        let before = (t > 0).then(|| states.narrow(0, start - to_i64(sizes[t - 1]), size));
        match (&before, precision) {
            (Some(before), MatmulPrecision::F32) => drop(bias.addmm_out(&q, before, &across)),
            (Some(before), MatmulPrecision::Mixed | MatmulPrecision::MixedByLibtorch) => {
                q.copy_(&precision.cast_factor(before).mm(&across));
                let _ = q.g_add_(bias);
            }
            (None, _) => q.copy_(bias),
        }
        let gate = gates.narrow(0, start, size);
        let mut rz = gate.narrow(1, 0, 2 * h);
        let _ = rz.g_add_(&q.narrow(1, 0, 2 * h)).sigmoid_();
        let mut n = gate.narrow(1, 2 * h, h);
        let _ = n.addcmul_(&gate.narrow(1, 0, h), &q.narrow(1, 2 * h, h)).tanh_();
        let z = gate.narrow(1, h, h);
        let mut state = states.narrow(0, start, size);
        match &before {
            Some(before) => drop(n.lerp_tensor_out(&state, before, &z)),
            None => state.copy_(&(&n - &n * &z)),
        }
        start += size;
    }
    GruTape { gates, recurrent, states }
}

impl GruTape {
    /// State after every word, `[n, h]`.
    pub fn states(&self) -> &Tensor {
        &self.states
    }

    /// Computes the gradients from the gradient of the [states](GruTape::states), `[n, h]`; `sizes` as in the forward
    /// pass.
    #[must_use]
    pub fn backward(
        self,
        d_states: &Tensor,
        weight: &Tensor,
        sizes: &[usize],
        precision: MatmulPrecision,
    ) -> GruGradients {
        let h = weight.size()[1];
        let first = to_i64(sizes.first().copied().unwrap_or(0));
        let factor = precision.cast_factor(weight);
        // Each row is the gradient of a caption's state after the word at the current position.
        let all = Tensor::zeros([first, h], (d_states.kind(), d_states.device()));
        let mut start = to_i64(sizes.iter().sum());
        for (t, &size) in sizes.iter().enumerate().rev() {
            let size = to_i64(size);
            start -= size;
            let mut state = all.narrow(0, 0, size);
            let _ = state.g_add_(&d_states.narrow(0, start, size));
            let gate = self.gates.narrow(0, start, size);
            let (mut r, mut z, mut n) = (gate.narrow(1, 0, h), gate.narrow(1, h, h), gate.narrow(1, 2 * h, h));
            let q = self.recurrent.narrow(0, start, size);
            let (mut q_r, mut q_z, mut q_n) = (q.narrow(1, 0, h), q.narrow(1, h, h), q.narrow(1, 2 * h, h));
            let before = (t > 0).then(|| self.states.narrow(0, start - to_i64(sizes[t - 1]), size));
            // ∂h'/∂z = h − n, ∂h'/∂n = 1 − z, ∂h'/∂h = z; then through σ and tanh.
            let change = before.as_ref().map_or_else(|| n.neg(), |before| before - &n);
            let d_z = Tensor::sigmoid_backward(&(change * &state), &z);
            let through = &state * &z;
            let d_n = Tensor::tanh_backward(&(&state - &through), &n);
            let d_r = Tensor::sigmoid_backward(&(&d_n * &q_n), &r);
            q_n.copy_(&(&d_n * &r));
            q_r.copy_(&d_r);
            q_z.copy_(&d_z);
            r.copy_(&d_r);
            z.copy_(&d_z);
            n.copy_(&d_n);
            if t > 0 {
                match precision {
                    MatmulPrecision::F32 => state.copy_(&through.addmm(&q, weight)),
                    MatmulPrecision::Mixed | MatmulPrecision::MixedByLibtorch => {
                        state.copy_(&(through + precision.cast_factor(&q).mm(&factor)));
                    }
                }
            }
        }
        // States before each word except the first ones, in the order of the words.
        let mut before = Vec::with_capacity(self.states.numel());
        let mut start = 0;
        for pair in sizes.windows(2) {
            before.extend(start..start + pair[1]);
            start += pair[0];
        }
        let before = self.states.index_select(0, &index_tensor(&before, self.states.device()));
        let rest = self.recurrent.narrow(0, first, self.recurrent.size()[0] - first);
        GruGradients {
            weight: precision.matmul(&rest.tr(), &before),
            bias: self.recurrent.sum_dim_intlist([0i64].as_slice(), false, None::<Kind>),
            inputs: self.gates,
        }
    }
}

// GRU of libtorch, which on GPUs is cuDNN's. Its graph of gradients is kept for the backward pass.
//
// The formula is that of `GruTape`, in f32 throughout. A kernel of cuDNN computes many words; `GruTape` starts some
// forty kernels for each position of a word, which takes longer than to compute them.

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
        let sizes = index_tensor(&packed.batch_sizes, Device::Cpu);
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

// One direction of a GRU over the word vectors of a batch: with this project's kernels where they apply, cuDNN on GPUs, and
// libtorch elsewhere.

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
    Tensors(GruTape),
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
        RecurrenceTape::Tensors(forward(inputs, &weights[1], &weights[3], &self.packed.batch_sizes, precision))
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
        tape: GruTape,
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

/// Gradient of the states.
#[derive(Debug, Clone, Copy)]
pub(super) enum StateGradient<'t> {
    /// Gradient of the state after the last word of each caption, longest caption first, `[b, h]`.
    LastWord(&'t Tensor),
    /// Gradient of every state, `[n, h]`.
    EveryWord(&'t Tensor),
}

/// True if libtorch multiplies faster than our kernels in mixed precision on this processor: if it has AMX, which our kernels
/// do not use. With AVX-512 alone our kernels are as fast, or up to twice as fast.
pub fn is_libtorch_faster() -> bool {
    // The standard library does not detect AMX yet. The kernel lists it only where it lets processes use it.
    std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| has_amx(&text))
}

fn has_amx(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "amx_bf16"))
}

#[cfg(test)]
mod tests {

    use super::*;

    /// Flags of Sapphire Rapids and of Ice Lake, shortened.
    #[test]
    fn amx_is_found_among_the_flags_of_a_processor() {
        let of =
            |flags: &str| format!("processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\nflags\t\t: {flags}\nbugs\t\t:\n");
        assert!(has_amx(&of("fpu avx512_bf16 avx512_fp16 amx_tile amx_bf16 amx_int8")));
        assert!(!has_amx(&of("fpu avx512f avx512_vnni la57 rdpid")));
        assert!(!has_amx(""));
    }

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
        let near = |got: &Tensor, expected: &Tensor| {
            let difference = f64::try_from((got - expected).abs().max()).expect("a number");
            assert!(got.size() == expected.size() && difference < 1e-12, "{difference}");
        };
        for every in [true, false] {
            let tape = GraphTape::forward(&vectors, &packed.token_rows, &weights, &packed);
            let products = vectors.matmul(&weights[0].tr()) + &weights[2];
            let inputs = products.index_select(0, &rows);
            let (sizes, precision) = (&packed.batch_sizes, MatmulPrecision::F32);
            let expected = forward(inputs, &weights[1], &weights[3], sizes, precision);
            near(&tape.states(), expected.states());
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
            let expected = expected.backward(&d_states, &weights[1], sizes, precision);
            let per_word = vectors.new_zeros([vectors.size()[0], 3 * h], (Kind::Double, Device::Cpu));
            let per_word = per_word.index_add(0, &rows, &expected.inputs);
            near(&found[0], &per_word.matmul(&weights[0]));
            near(&found[1], &per_word.tr().matmul(&vectors));
            near(&found[2], &expected.weight);
            near(&found[3], &per_word.sum_dim_intlist([0i64].as_slice(), false, None::<Kind>));
            near(&found[4], &expected.bias);
        }
    }
}
