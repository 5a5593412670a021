//! One direction of a GRU over the word vectors of a batch: our own kernels where there are some, libtorch elsewhere.

use tch::{Kind, Tensor};

use super::fused::{self, Reading};
use super::gru;
use super::packed::Packed;
use super::pool::{number, rows};
use super::product::Precision;
use crate::kernels::product::vectors;
use crate::model::slices::{is_slice, threads, values, values_mut};

/// What a direction reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'t> {
    /// Vectors of the distinct words, `[u, w]`.
    pub vectors: &'t Tensor,
    /// Row of each word in `vectors`.
    pub words: &'t [usize],
    /// The batch.
    pub packed: &'t Packed,
    /// `W_ih`, `W_hh`, `b_ih`, `b_hh`.
    pub weights: &'t [Tensor],
    /// What products are computed in.
    pub precision: Precision,
}

/// What the backward pass needs.
#[derive(Debug)]
pub(super) enum Tape {
    Fused(fused::Tape),
    Tensors(gru::Tape),
}

/// The gradient of the states.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pull<'t> {
    /// Of the state after the last word of each caption, longest caption first, `[b, h]`.
    Last(&'t Tensor),
    /// Of every state, `[n, h]`.
    Words(&'t Tensor),
}

impl<'t> Input<'t> {
    /// What our own kernels read, where they can.
    fn reading(&self) -> Option<Reading<'t>> {
        let lanes = self.precision.lanes();
        let [w_ih, w_hh, b_ih, b_hh] = self.weights else { return None };
        let can = vectors(lanes) && is_slice(self.vectors) && self.weights.iter().all(is_slice);
        can.then(|| Reading {
            sizes: &self.packed.sizes,
            words: self.words,
            vectors: values(self.vectors),
            w_ih: values(w_ih),
            w_hh: values(w_hh),
            b_ih: values(b_ih),
            b_hh: values(b_hh),
            lanes,
        })
    }

    /// The states after every word.
    pub(super) fn forward(&self) -> Tape {
        if let Some(reading) = self.reading() {
            return Tape::Fused(fused::Tape::forward(&reading, threads()));
        }
        let Self { weights, precision, .. } = *self;
        // A word that occurs more than once has one input product.
        let products = precision.product(self.vectors, &weights[0].tr()).g_add_(&weights[2]);
        let inputs = products.index_select(0, &rows(self.words, products.device()));
        Tape::Tensors(gru::forward(inputs, &weights[1], &weights[3], &self.packed.sizes, precision))
    }

    /// Gradients of `W_ih`, `W_hh`, `b_ih`, `b_hh`; that of the vectors of the distinct words, `[u, w]`, is added to
    /// `of_vectors`, where it is wanted.
    pub(super) fn backward(&self, tape: Tape, pull: Pull<'_>, of_vectors: Option<&mut Tensor>) -> [Tensor; 4] {
        match (tape, self.reading()) {
            (Tape::Fused(tape), Some(reading)) => self.backward_fused(tape, &reading, pull, of_vectors),
            (Tape::Tensors(tape), _) => self.backward_of_tensors(tape, pull, of_vectors),
            (Tape::Fused(_), None) => unreachable!("what could be read for the forward pass still can"),
        }
    }

    fn backward_fused(
        &self,
        tape: fused::Tape,
        reading: &Reading<'_>,
        pull: Pull<'_>,
        of_vectors: Option<&mut Tensor>,
    ) -> [Tensor; 4] {
        let mut found = [0, 1, 2, 3].map(|i| self.weights[i].empty_like());
        let [w_ih, w_hh, b_ih, b_hh] = found.each_mut().map(values_mut);
        let gradients = fused::Gradients { vectors: of_vectors.map(values_mut), w_ih, w_hh, b_ih, b_hh };
        let (Pull::Last(d) | Pull::Words(d)) = pull;
        let d = d.contiguous();
        let pull = match pull {
            Pull::Last(_) => fused::Pull::Last(values(&d)),
            Pull::Words(_) => fused::Pull::Words(values(&d)),
        };
        tape.backward(reading, pull, gradients);
        found
    }

    fn backward_of_tensors(&self, tape: gru::Tape, pull: Pull<'_>, of_vectors: Option<&mut Tensor>) -> [Tensor; 4] {
        let Self { weights, precision, .. } = *self;
        let d_states = match pull {
            Pull::Words(d) => d.shallow_clone(),
            Pull::Last(d) => tape.states().zeros_like().index_copy(0, &rows(&self.packed.last(), d.device()), d),
        };
        let found = tape.backward(&d_states, &weights[1], &self.packed.sizes, precision);
        // Every occurrence of a word adds to the gradient of its one input product.
        let per_word =
            Tensor::zeros([self.vectors.size()[0], found.inputs.size()[1]], (d_states.kind(), d_states.device()));
        let per_word = per_word.index_add(0, &rows(self.words, d_states.device()), &found.inputs);
        if let Some(of_vectors) = of_vectors {
            let _ = of_vectors.g_add_(&precision.product(&per_word, &weights[0]));
        }
        let bias = per_word.sum_dim_intlist([0i64].as_slice(), false, None::<Kind>);
        [precision.product(&per_word.tr(), self.vectors), found.weight, bias, found.bias]
    }
}

impl Tape {
    /// The states after the words `chosen`, `[len, h]`.
    pub(super) fn rows(&self, chosen: &[usize], like: &Tensor) -> Tensor {
        match self {
            Self::Tensors(tape) => tape.states().index_select(0, &rows(chosen, like.device())),
            Self::Fused(tape) => {
                let size = [number(chosen.len()), like.size()[1]];
                let mut out = Tensor::empty(size, (like.kind(), like.device()));
                tape.states(chosen.iter().copied(), values_mut(&mut out));
                out
            }
        }
    }
}
