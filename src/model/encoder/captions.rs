//! Encoder of captions: word vectors, a GRU in one or two directions, pooling, L2 norm.

use tch::Tensor;

use super::matmul::MatmulPrecision;
use super::normalize::{self, NormalizeTape};
use super::packed_captions::PackedCaptions;
use super::pooling::{CaptionPooling, index_tensor, max, max_backward, mean, mean_backward, to_i64};
use super::recurrence::{self, GruInput, StateGradient};

/// Options of the encoder of captions.
#[derive(Debug, Clone, Copy)]
pub struct CaptionOptions {
    /// Pooling of the states of a caption.
    pub pooling: CaptionPooling,
    /// True if embeddings end with |·|.
    pub absolute: bool,
    /// True if word vectors get no gradient.
    pub words_frozen: bool,
}

/// Tensors that the backward pass needs.
#[derive(Debug)]
pub struct CaptionTape {
    packed: PackedCaptions,
    /// Vectors of the distinct words, `[u, w]`.
    vectors: Tensor,
    directions: Vec<GruDirection>,
    /// Position of the word with the largest value, `[b, d]`, with [`CaptionPooling::Max`].
    argmax: Option<Tensor>,
    unit: NormalizeTape,
}

/// One direction of the GRU.
#[derive(Debug)]
struct GruDirection {
    /// Row of each word in the vectors of the distinct words, in the order of this direction.
    token_rows: Vec<usize>,
    /// For the reverse direction: index of each word in the forward order.
    reverse: Option<Vec<usize>>,
    tape: recurrence::RecurrenceTape,
}

/// Computes the embeddings `[n, d]` of captions, in the order given. `parameters` are the word vectors and, for each
/// direction, `W_ih`, `W_hh`, `b_ih` and `b_hh`.
pub fn forward(
    captions: &[&[i32]],
    parameters: &[Tensor],
    options: CaptionOptions,
    precision: MatmulPrecision,
) -> (Tensor, CaptionTape) {
    let device = parameters[0].device();
    let packed = PackedCaptions::new(captions);
    let vectors = parameters[0].index_select(0, &Tensor::from_slice(&packed.distinct_token_ids).to_device(device));
    let directions: Vec<GruDirection> = parameters[1..]
        .chunks_exact(4)
        .enumerate()
        .map(|(direction, weights)| {
            let reverse = (direction > 0).then(|| packed.reversed_order());
            let words = match &reverse {
                Some(reverse) => reverse.iter().map(|&row| packed.token_rows[row]).collect(),
                None => packed.token_rows.clone(),
            };
            let tape =
                GruInput { vectors: &vectors, token_rows: &words, packed: &packed, weights, precision }.forward();
            GruDirection { token_rows: words, reverse, tape }
        })
        .collect();

    let every: Vec<usize> = (0..packed.token_rows.len()).collect();
    let last = packed.last_words();
    let states = directions.iter().map(|direction| match (options.pooling, &direction.reverse) {
        // The last word of one direction is the first word of the other.
        (CaptionPooling::Last, _) => direction.tape.states_at(&last, &parameters[2]),
        (CaptionPooling::Mean | CaptionPooling::Max, None) => direction.tape.states_at(&every, &parameters[2]),
        (CaptionPooling::Mean | CaptionPooling::Max, Some(reverse)) => {
            direction.tape.states_at(reverse, &parameters[2])
        }
    });
    let sum = states.reduce(|a, b| a + b).expect("a GRU has a direction");
    let states = if directions.len() == 1 { sum } else { sum / to_i64(directions.len()) };
    let (pooled, argmax) = match options.pooling {
        CaptionPooling::Last => (states, None),
        CaptionPooling::Mean => (mean(&states, &packed), None),
        CaptionPooling::Max => {
            let (pooled, argmax) = max(&states, &packed);
            (pooled, Some(argmax))
        }
    };
    let (out, unit) = normalize::forward(
        pooled.index_select(0, &index_tensor(&packed.unsorted_indices, device)),
        true,
        options.absolute,
    );
    (out, CaptionTape { packed, vectors, directions, argmax, unit })
}

impl CaptionTape {
    /// Computes the gradients in the parameters, in their order, from that in the embeddings, `[n, d]`. The first is
    /// `None` if word vectors are frozen.
    #[must_use]
    pub fn backward(
        self,
        d: &Tensor,
        parameters: &[Tensor],
        options: CaptionOptions,
        precision: MatmulPrecision,
    ) -> Vec<Option<Tensor>> {
        let Self { packed, vectors, directions, argmax, unit } = self;
        let device = d.device();
        let d = unit.backward(d);
        let d = d.zeros_like().index_copy(0, &index_tensor(&packed.unsorted_indices, device), &d);
        let d = if directions.len() == 1 { d } else { d / to_i64(directions.len()) };
        let d = match (options.pooling, argmax) {
            (CaptionPooling::Mean, _) => mean_backward(&d, &packed),
            (CaptionPooling::Max, Some(argmax)) => max_backward(&d, &argmax, &packed),
            _ => d,
        };

        let mut vectors_gradient = (!options.words_frozen).then(|| vectors.zeros_like());
        let mut gradients = vec![None];
        for (GruDirection { token_rows: words, reverse, tape }, weights) in
            directions.into_iter().zip(parameters[1..].chunks_exact(4))
        {
            let input = GruInput { vectors: &vectors, token_rows: &words, packed: &packed, weights, precision };
            let aligned = reverse.filter(|_| options.pooling != CaptionPooling::Last);
            let d =
                aligned.map_or_else(|| d.shallow_clone(), |reverse| d.index_select(0, &index_tensor(&reverse, device)));
            let state_gradient = if options.pooling == CaptionPooling::Last {
                StateGradient::LastWord(&d)
            } else {
                StateGradient::EveryWord(&d)
            };
            gradients.extend(input.backward(tape, state_gradient, vectors_gradient.as_mut()).map(Some));
        }
        let distinct = Tensor::from_slice(&packed.distinct_token_ids).to_device(device);
        gradients[0] = vectors_gradient.map(|found| parameters[0].zeros_like().index_copy(0, &distinct, &found));
        gradients
    }
}
