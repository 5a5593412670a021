//! The recurrence of a gated recurrent unit with its gradient, for captions of different lengths.
//!
//! Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", EMNLP 2014, in the form that PyTorch
//! documents. With `x = W_ih·w + b_ih`, the input product of word `w`, and `q = W_hh·h + b_hh`:
//!
//! ```text
//! r = σ(x_r + q_r)    z = σ(x_z + q_z)    n = tanh(x_n + r∘q_n)    h' = (1 − z)∘n + z∘h
//! ```
//!
//! This is the form on tensors: for GPUs, for f64 (golden tests and checks of gradients), and for processors without AVX-512.
//! On others `fused` computes the same in f32 or bf16, with kernels of our own; `recurrence` chooses.
//!
//! Why not libtorch's own: it forms the gradient of `W_hh` as one small product a word position, while here it is one
//! product over all positions after the loop; and it knows nothing of words that occur more than once in a batch, whose
//! input product is needed once. Work is about 6·h²·n multiplications forward and twice that backward, for n words.

use tch::{Kind, Tensor};

use super::pool::{number, rows};
use super::product::Precision;

/// What the backward pass needs of a forward pass over `n` words in [packed](super::packed::Packed) order.
#[derive(Debug)]
pub struct Tape {
    /// r, z, n of every word, `[n, 3h]`.
    gates: Tensor,
    /// q of every word, `[n, 3h]`.
    recurrent: Tensor,
    /// h' of every word, `[n, h]`.
    states: Tensor,
}

/// Gradients of a recurrence.
#[derive(Debug)]
pub struct Gradients {
    /// Of the input products, `[n, 3h]`.
    pub inputs: Tensor,
    /// Of `W_hh`, `[3h, h]`.
    pub weight: Tensor,
    /// Of `b_hh`, `[3h]`.
    pub bias: Tensor,
}

/// Runs over all words, from h = 0. `inputs`, `[n, 3h]`, is overwritten; `weight` is `W_hh`, `[3h, h]`; `bias` is
/// `b_hh`, `[3h]`; `sizes` are those of the packed batch. Records no graph.
#[must_use]
pub fn forward(inputs: Tensor, weight: &Tensor, bias: &Tensor, sizes: &[usize], precision: Precision) -> Tape {
    let h = weight.size()[1];
    let words = inputs.size()[0];
    let gates = inputs;
    let recurrent = Tensor::empty([words, 3 * h], (gates.kind(), gates.device()));
    let states = Tensor::empty([words, h], (gates.kind(), gates.device()));
    let across = precision.factor(weight).tr();
    let mut start = 0;
    for (t, &size) in sizes.iter().enumerate() {
        let size = number(size);
        let mut q = recurrent.narrow(0, start, size);
        let before = (t > 0).then(|| states.narrow(0, start - number(sizes[t - 1]), size));
        match (&before, precision) {
            (Some(before), Precision::F32) => drop(bias.addmm_out(&q, before, &across)),
            (Some(before), Precision::Mixed) => {
                q.copy_(&precision.factor(before).mm(&across));
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
    Tape { gates, recurrent, states }
}

impl Tape {
    /// The state after every word, `[n, h]`.
    pub fn states(&self) -> &Tensor {
        &self.states
    }

    /// Gradients from those of the [states](Tape::states), `[n, h]`, with the `sizes` of the forward pass. Uses the tape up.
    #[must_use]
    pub fn backward(self, d_states: &Tensor, weight: &Tensor, sizes: &[usize], precision: Precision) -> Gradients {
        let h = weight.size()[1];
        let first = number(sizes.first().copied().unwrap_or(0));
        let factor = precision.factor(weight);
        // A row of this is the gradient of a caption's state after the word that the loop is at.
        let all = Tensor::zeros([first, h], (d_states.kind(), d_states.device()));
        let mut start = number(sizes.iter().sum());
        for (t, &size) in sizes.iter().enumerate().rev() {
            let size = number(size);
            start -= size;
            let mut state = all.narrow(0, 0, size);
            let _ = state.g_add_(&d_states.narrow(0, start, size));
            let gate = self.gates.narrow(0, start, size);
            let (mut r, mut z, mut n) = (gate.narrow(1, 0, h), gate.narrow(1, h, h), gate.narrow(1, 2 * h, h));
            let q = self.recurrent.narrow(0, start, size);
            let (mut q_r, mut q_z, mut q_n) = (q.narrow(1, 0, h), q.narrow(1, h, h), q.narrow(1, 2 * h, h));
            let before = (t > 0).then(|| self.states.narrow(0, start - number(sizes[t - 1]), size));
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
                    Precision::F32 => state.copy_(&through.addmm(&q, weight)),
                    Precision::Mixed => state.copy_(&(through + precision.factor(&q).mm(&factor))),
                }
            }
        }
        // The states before each word but the first ones, in the order of the words.
        let mut before = Vec::with_capacity(self.states.numel());
        let mut start = 0;
        for pair in sizes.windows(2) {
            before.extend(start..start + pair[1]);
            start += pair[0];
        }
        let before = self.states.index_select(0, &rows(&before, self.states.device()));
        let rest = self.recurrent.narrow(0, first, self.recurrent.size()[0] - first);
        Gradients {
            weight: precision.product(&rest.tr(), &before),
            bias: self.recurrent.sum_dim_intlist([0i64].as_slice(), false, None::<Kind>),
            inputs: self.gates,
        }
    }
}
