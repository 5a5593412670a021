//! States of a GRU, in one or two directions, after every word of captions.

use tch::Tensor;

use super::matmul::MatmulPrecision;
use super::packed_captions::PackedCaptions;
use super::pooling::{index_tensor, to_i64};
use super::recurrence::{GruInput, RecurrenceTape, StateGradient};

/// Forward pass of a GRU over captions: its states, and the tensors that the backward pass needs.
///
/// `parameters` of all methods are the word vectors and, for each direction, `W_ih`, `W_hh`, `b_ih` and `b_hh`.
#[derive(Debug)]
pub struct WordStatesTape {
    packed: PackedCaptions,
    /// Token ids of the rows of `vectors`.
    token_ids: Vec<i64>,
    /// Vectors of the distinct words, `[u, w]`; with a mask those of all words, `[n, w]`.
    vectors: Tensor,
    /// Factors of the vectors.
    mask: Option<Tensor>,
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

impl WordStatesTape {
    /// Runs the GRU over captions of at least one word each. The word vectors are multiplied by `mask`, `[n, w]`, with a
    /// row for each word, caption by caption: a mask of dropout.
    #[must_use]
    pub fn forward(
        captions: &[&[i32]],
        parameters: &[Tensor],
        mask: Option<&Tensor>,
        precision: MatmulPrecision,
    ) -> Self {
        let device = parameters[0].device();
        let packed = PackedCaptions::new(captions);
        let (token_rows, token_ids) = match mask {
            None => (packed.token_rows.clone(), packed.distinct_token_ids.clone()),
            // Words with factors of their own are distinct.
            Some(_) => {
                let token_id = |&row: &usize| packed.distinct_token_ids[row];
                ((0..packed.token_rows.len()).collect(), packed.token_rows.iter().map(token_id).collect())
            }
        };
        let vectors = parameters[0].index_select(0, &Tensor::from_slice(&token_ids).to_device(device));
        let mask =
            mask.map(|mask| mask.zeros_like().index_copy(0, &index_tensor(&packed.caption_order(), device), mask));
        let vectors = mask.as_ref().map_or_else(|| vectors.shallow_clone(), |mask| &vectors * mask);
        let directions = parameters[1..].chunks_exact(4).enumerate();
        let directions = directions.map(|(direction, weights)| {
            let reverse = (direction > 0).then(|| packed.reversed_order());
            let words = match &reverse {
                Some(reverse) => reverse.iter().map(|&row| token_rows[row]).collect(),
                None => token_rows.clone(),
            };
            let tape =
                GruInput { vectors: &vectors, token_rows: &words, packed: &packed, weights, precision }.forward();
            GruDirection { token_rows: words, reverse, tape }
        });
        let directions = directions.collect();
        Self { packed, token_ids, vectors, mask, directions }
    }

    /// The packed captions.
    pub fn packed(&self) -> &PackedCaptions {
        &self.packed
    }

    /// States after every word in packed order, `[n, h]`: the mean over the directions.
    pub fn every(&self, parameters: &[Tensor]) -> Tensor {
        let every: Vec<usize> = (0..self.packed.token_rows.len()).collect();
        self.mean_over_directions(parameters, |direction| direction.reverse.as_deref().unwrap_or(&every))
    }

    /// State after the last word of each caption, longest caption first, `[b, h]`: the mean over the directions. The
    /// last word of the reverse direction is the first of the caption.
    pub fn last(&self, parameters: &[Tensor]) -> Tensor {
        let last = self.packed.last_words();
        self.mean_over_directions(parameters, |_| &last)
    }

    fn mean_over_directions<'s>(
        &'s self,
        parameters: &[Tensor],
        rows: impl Fn(&'s GruDirection) -> &'s [usize],
    ) -> Tensor {
        let states = self.directions.iter().map(|direction| direction.tape.states_at(rows(direction), &parameters[2]));
        let sum = states.reduce(|a, b| a + b).expect("a GRU has a direction");
        if self.directions.len() == 1 { sum } else { sum / to_i64(self.directions.len()) }
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
        let Self { packed, token_ids, vectors, mask, directions } = self;
        let (StateGradient::LastWord(d) | StateGradient::EveryWord(d)) = gradient;
        let device = d.device();
        let d = if directions.len() == 1 { d.shallow_clone() } else { d / to_i64(directions.len()) };
        let mut vectors_gradient = (!words_frozen).then(|| vectors.zeros_like());
        let mut gradients = vec![None];
        for (GruDirection { token_rows: words, reverse, tape }, weights) in
            directions.into_iter().zip(parameters[1..].chunks_exact(4))
        {
            let input = GruInput { vectors: &vectors, token_rows: &words, packed: &packed, weights, precision };
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
            gradients.extend(found.map(Some));
        }
        let rows = Tensor::from_slice(&token_ids).to_device(device);
        gradients[0] = vectors_gradient.map(|found| match mask {
            None => parameters[0].zeros_like().index_copy(0, &rows, &found),
            Some(mask) => parameters[0].zeros_like().index_add(0, &rows, &(found * mask)),
        });
        gradients
    }

    /// States after every word, caption by caption in the order given, `[n, h]`.
    pub fn by_caption(&self, parameters: &[Tensor]) -> Tensor {
        let order = index_tensor(&self.packed.caption_order(), parameters[0].device());
        self.every(parameters).index_select(0, &order)
    }

    /// Computes the gradients in the parameters, in their order, from that in [`WordStatesTape::by_caption`]. The first
    /// is `None` if the word vectors are frozen.
    #[must_use]
    pub fn backward_by_caption(
        self,
        d: &Tensor,
        parameters: &[Tensor],
        words_frozen: bool,
        precision: MatmulPrecision,
    ) -> Vec<Option<Tensor>> {
        let order = index_tensor(&self.packed.caption_order(), d.device());
        let d = d.zeros_like().index_copy(0, &order, d);
        self.backward(StateGradient::EveryWord(&d), parameters, words_frozen, precision)
    }
}
