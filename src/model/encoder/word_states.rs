//! States of a GRU, in one or two directions, after every word of captions.

use tch::Tensor;

use super::matmul::MatmulPrecision;
use super::packed_captions::PackedCaptions;
use super::sequence_states::SequenceTape;
use super::state_gradient::StateGradient;

/// Forward pass of a GRU over captions: its states, and the tensors that the backward pass needs.
///
/// `parameters` of all methods are the word vectors and, for each direction, `W_ih`, `W_hh`, `b_ih` and `b_hh`.
#[derive(Debug)]
pub struct WordStatesTape {
    states: SequenceTape,
}

impl WordStatesTape {
    /// Runs the GRU over captions of at least one word each.
    #[must_use]
    pub fn forward(captions: &[&[i32]], parameters: &[Tensor], precision: MatmulPrecision) -> Self {
        let packed = PackedCaptions::new(captions);
        let vectors = parameters[0].index_select(0, &packed.distinct_rows(parameters[0].device()));
        Self { states: SequenceTape::forward(packed, vectors, &parameters[1..], precision) }
    }

    /// The packed captions.
    pub fn packed(&self) -> &PackedCaptions {
        self.states.packed()
    }

    /// States after every word in packed order, `[n, h]`: the mean over the directions.
    pub fn every(&self, parameters: &[Tensor]) -> Tensor {
        self.states.every(&parameters[1..])
    }

    /// State after the last word of each caption, longest caption first, `[b, h]`: the mean over the directions. The
    /// last word of the reverse direction is the first of the caption.
    pub fn last(&self, parameters: &[Tensor]) -> Tensor {
        let last = self.packed().last_words();
        self.states.mean_over_directions(&parameters[1..], |_| &last)
    }

    /// Computes the gradients in the parameters, in their order, from that in the mean states. The first is `None` if
    /// the word vectors are frozen.
    #[must_use]
    pub(super) fn backward(
        self,
        gradient: StateGradient<'_>,
        parameters: &[Tensor],
        words_frozen: bool,
        precision: MatmulPrecision,
    ) -> Vec<Option<Tensor>> {
        let rows = self.packed().distinct_rows(parameters[0].device());
        let (vectors, weights) = self.states.backward(gradient, &parameters[1..], !words_frozen, precision);
        let vectors = vectors.map(|found| parameters[0].zeros_like().index_copy(0, &rows, &found));
        std::iter::once(vectors).chain(weights.into_iter().map(Some)).collect()
    }
}
