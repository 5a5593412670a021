//! Word vectors and GRU of captions, with the parameter names of the published checkpoints.

use super::parameters::{ParameterInit, ParameterSpec, gru_suffixes, tensor_width};
use pairloom_base::error::Result;
pub use pairloom_spec::family::WORD_VECTORS;
use pairloom_spec::input_spec::InputSpec;

/// Prefix of the parameters of the GRU.
pub(super) const CAPTION_GRU: &str = "txt_enc.rnn";

/// Word vectors and a GRU over them, in one or two directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptionGru {
    /// Width of the word vectors.
    pub word: usize,
    /// Width of the state of each direction.
    pub state: usize,
    /// True if there is a second direction, from the last word to the first.
    pub bidirectional: bool,
}

impl CaptionGru {
    /// Number of directions.
    #[must_use]
    pub fn directions(&self) -> usize {
        1 + usize::from(self.bidirectional)
    }

    /// Specifications of the parameters: the word vectors, U(±0.1); then for each direction of the GRU, U(±1/√h),
    /// `weight_ih`, `weight_hh`, `bias_ih` and `bias_hh`.
    ///
    /// # Errors
    /// A width that no tensor can have.
    pub fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>> {
        let (word, state, words) = (tensor_width(self.word)?, tensor_width(self.state)?, tensor_width(data.words)?);
        let vectors = ParameterSpec {
            trainable: !data.words_frozen,
            ..ParameterSpec::new(WORD_VECTORS, &[words, word], ParameterInit::Uniform(0.1))
        };
        let of_gru =
            gru_suffixes(self.directions()).flat_map(|suffix| ParameterSpec::gru(CAPTION_GRU, suffix, word, state));
        Ok(std::iter::once(vectors).chain(of_gru).collect())
    }
}
