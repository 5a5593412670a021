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
//! in f32 or bf16 with this project's kernels, and on GPUs `graph_gru` with cuDNN; `recurrence` chooses.
//!
//! Differences from libtorch's GRU: the gradient of `W_hh` is one product over all word positions after the loop
//! instead of one small product for each position, and the input product of a word that occurs several times in a batch
//! is computed once. For n words the forward pass needs about 6·h²·n multiplications and the backward pass twice as
//! many.

use tch::{Kind, Tensor};

use super::matmul::{MatmulPrecision, PrecisionProducts};
use super::pooling::{index_tensor, to_i64};

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
