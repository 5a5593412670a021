//! States of a GRU, in one or two directions, after every vector of sequences.

use tch::Tensor;

use super::gru::{GruInput, RecurrenceTape, StateGradient};
use super::packed_captions::PackedCaptions;
use super::{index_tensor, to_i64};
use pairloom_spec::precision::MatmulPrecision;

/// Forward pass of a GRU over packed sequences: its states, and the tensors that the backward pass needs.
///
/// `weights` of all methods are, for each direction, `W_ih`, `W_hh`, `b_ih` and `b_hh`.
#[derive(Debug)]
pub struct SequenceTape {
    packed: PackedCaptions,
    /// Vectors of the distinct words, `[u, w]`.
    vectors: Tensor,
    directions: Vec<GruDirection>,
}

/// One direction of the GRU.
#[derive(Debug)]
struct GruDirection {
    /// Row of each word in the vectors of the distinct words, in the order of this direction.
    token_rows: Vec<usize>,
    /// For the reverse direction: index of each word in the forward order.
    reverse: Option<Vec<usize>>,
    tape: RecurrenceTape,
}

impl SequenceTape {
    /// Runs the GRU over sequences of at least one word each; `vectors` are those of the distinct words, `[u, w]`.
    #[must_use]
    pub fn forward(packed: PackedCaptions, vectors: Tensor, weights: &[Tensor], precision: MatmulPrecision) -> Self {
        let directions = weights.chunks_exact(4).enumerate();
        let directions = directions.map(|(direction, weights)| {
            let reverse = (direction > 0).then(|| packed.reversed_order());
            let token_rows = match &reverse {
                Some(reverse) => reverse.iter().map(|&row| packed.token_rows[row]).collect(),
                None => packed.token_rows.clone(),
            };
            let tape =
                GruInput { vectors: &vectors, token_rows: &token_rows, packed: &packed, weights, precision }.forward();
            GruDirection { token_rows, reverse, tape }
        });
        let directions = directions.collect();
        Self { packed, vectors, directions }
    }

    /// The packed sequences.
    pub(super) fn packed(&self) -> &PackedCaptions {
        &self.packed
    }

    /// States after every word in packed order, `[n, h]`: the mean over the directions.
    pub(super) fn every(&self, weights: &[Tensor]) -> Tensor {
        let every: Vec<usize> = (0..self.packed.token_rows.len()).collect();
        self.mean_over_directions(weights, |reverse| reverse.unwrap_or(&every))
    }

    /// States after every word, sequence by sequence in the order given, `[n, h]`: the mean over the directions.
    pub fn by_sequence(&self, weights: &[Tensor]) -> Tensor {
        let order = self.packed.caption_order();
        let reversed: Option<Vec<usize>> = self
            .directions
            .iter()
            .find_map(|direction| direction.reverse.as_ref())
            .map(|reverse| order.iter().map(|&word| reverse[word]).collect());
        self.mean_over_directions(weights, |reverse| reverse.and(reversed.as_deref()).unwrap_or(&order))
    }

    /// Mean over the directions of the states after the words that `rows` returns, given the order of a reverse direction.
    pub(super) fn mean_over_directions<'s>(
        &'s self,
        weights: &[Tensor],
        rows: impl Fn(Option<&'s [usize]>) -> &'s [usize],
    ) -> Tensor {
        let states = self.directions.iter();
        let states = states.map(|direction| direction.tape.states_at(rows(direction.reverse.as_deref()), &weights[1]));
        let sum = states.reduce(|a, b| a + b).expect("a GRU has a direction");
        if self.directions.len() == 1 { sum } else { sum / to_i64(self.directions.len()) }
    }

    /// Computes the gradients in the vectors of the distinct words, if `of_vectors`, and in the weights, in their order,
    /// from that in the mean states in packed order.
    #[must_use]
    pub(super) fn backward(
        self,
        gradient: StateGradient<'_>,
        weights: &[Tensor],
        of_vectors: bool,
        precision: MatmulPrecision,
    ) -> (Option<Tensor>, Vec<Tensor>) {
        let Self { packed, vectors, directions } = self;
        let (StateGradient::LastWord(d) | StateGradient::EveryWord(d)) = gradient;
        let device = d.device();
        let d = if directions.len() == 1 { d.shallow_clone() } else { d / to_i64(directions.len()) };
        let mut vectors_gradient = of_vectors.then(|| vectors.zeros_like());
        let mut gradients = Vec::with_capacity(weights.len());
        for (GruDirection { token_rows, reverse, tape }, weights) in directions.into_iter().zip(weights.chunks_exact(4))
        {
            let input = GruInput { vectors: &vectors, token_rows: &token_rows, packed: &packed, weights, precision };
            let found = match (gradient, reverse) {
                (StateGradient::LastWord(_), _) => {
                    input.backward(tape, StateGradient::LastWord(&d), vectors_gradient.as_mut())
                }
                (StateGradient::EveryWord(_), None) => {
                    input.backward(tape, StateGradient::EveryWord(&d), vectors_gradient.as_mut())
                }
                (StateGradient::EveryWord(_), Some(reverse)) => {
                    let reversed = d.index_select(0, &index_tensor(&reverse, device));
                    input.backward(tape, StateGradient::EveryWord(&reversed), vectors_gradient.as_mut())
                }
            };
            gradients.extend(found);
        }
        (vectors_gradient, gradients)
    }

    /// As [`Self::backward`], from the gradient in [`Self::by_sequence`].
    #[must_use]
    pub fn backward_by_sequence(
        self,
        d: &Tensor,
        weights: &[Tensor],
        of_vectors: bool,
        precision: MatmulPrecision,
    ) -> (Option<Tensor>, Vec<Tensor>) {
        let order = index_tensor(&self.packed.caption_order(), d.device());
        let d = d.empty_like().index_copy(0, &order, d);
        self.backward(StateGradient::EveryWord(&d), weights, of_vectors, precision)
    }
}

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
