//! Encoder of captions: word vectors, a GRU in one or two directions, pooling, L2 norm.

use tch::Tensor;

use super::matmul::MatmulPrecision;
use super::normalize::{self, NormalizeTape};
use super::pooling::{CaptionPooling, index_tensor, max, max_backward, mean, mean_backward};
use super::state_gradient::StateGradient;
use super::word_states::WordStatesTape;

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
    states: WordStatesTape,
    /// Position of the word with the largest value, `[b, d]`, with [`CaptionPooling::Max`].
    argmax: Option<Tensor>,
    unit: NormalizeTape,
}

/// Computes the embeddings `[n, d]` of captions, in the order given. `parameters` are the word vectors and, for each
/// direction, `W_ih`, `W_hh`, `b_ih` and `b_hh`.
pub fn forward(
    captions: &[&[i32]],
    parameters: &[Tensor],
    options: CaptionOptions,
    precision: MatmulPrecision,
) -> (Tensor, CaptionTape) {
    let states = WordStatesTape::forward(captions, parameters, precision);
    let packed = states.packed();
    let (pooled, argmax) = match options.pooling {
        CaptionPooling::Last => (states.last(parameters), None),
        CaptionPooling::Mean => (mean(&states.every(parameters), packed), None),
        CaptionPooling::Max => {
            let (pooled, argmax) = max(&states.every(parameters), packed);
            (pooled, Some(argmax))
        }
    };
    let unsorted = index_tensor(&packed.unsorted_indices, pooled.device());
    let (out, unit) = normalize::forward(pooled.index_select(0, &unsorted), true, options.absolute);
    (out, CaptionTape { states, argmax, unit })
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
        let Self { states, argmax, unit } = self;
        let packed = states.packed();
        let d = unit.backward(d);
        let d = d.zeros_like().index_copy(0, &index_tensor(&packed.unsorted_indices, d.device()), &d);
        let d = match (options.pooling, argmax) {
            (CaptionPooling::Mean, _) => mean_backward(&d, packed),
            (CaptionPooling::Max, Some(argmax)) => max_backward(&d, &argmax, packed),
            _ => d,
        };
        let gradient = if options.pooling == CaptionPooling::Last {
            StateGradient::LastWord(&d)
        } else {
            StateGradient::EveryWord(&d)
        };
        states.backward(gradient, parameters, options.words_frozen, precision)
    }
}
