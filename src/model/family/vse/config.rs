//! Description of a VSE++ model as plain data, and the specifications of its parameters.

use serde::{Deserialize, Serialize};

use crate::encoder::{CaptionOptions, CaptionPooling};
use crate::family::caption_gru::CaptionGru;
use crate::family::parameters::{ParameterSpec, tensor_width};
use crate::similarity::EmbeddingSimilarity;
use pairloom_base::error::Result;
use pairloom_spec::input_spec::InputSpec;

/// Description of a joint embedding of images and captions, without parameters.
///
/// Images: features (or raw images through a fine-tuned CNN) → linear → L2 norm. Captions: word vectors → GRU →
/// pooling over the words → L2 norm. With [`absolute`](Self::absolute) both end with |·|.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VseConfig {
    /// Description of the data that the model is for.
    #[serde(flatten)]
    pub data: InputSpec,
    /// Width of the word vectors.
    pub word: usize,
    /// Width of the joint space and of the state of the GRU.
    #[serde(rename = "embedding")]
    pub joint: usize,
    /// True for a bidirectional GRU. The states of the two directions, each as wide as the joint space, are averaged
    /// word by word, as in SCAN (Lee et al., ECCV 2018); elsewhere in the literature two states of half the width are
    /// concatenated.
    #[serde(default)]
    pub bidirectional: bool,
    /// Pooling of the states of a caption.
    #[serde(default)]
    pub pooling: CaptionPooling,
    /// True if both embeddings end with |·|: order embeddings (Vendrov et al., ICLR 2016) live in the positive orthant.
    #[serde(default)]
    pub absolute: bool,
    /// Similarity of an image and a caption. Cosine if absent, as in the description of an imported checkpoint.
    #[serde(default)]
    pub similarity: EmbeddingSimilarity,
    /// True if embeddings of images are L2-normalised in training. UVS (Kiros et al., 2014) normalises them only for
    /// search, as a model does where this is false.
    #[serde(default = "yes")]
    pub normalize_images: bool,
}

fn yes() -> bool {
    true
}

impl VseConfig {
    /// Describes the model of VSE++ (Faghri et al., BMVC 2018) with these widths.
    #[must_use]
    pub fn new(image: usize, words: usize, word: usize, joint: usize) -> Self {
        Self {
            data: InputSpec::for_features(image, words),
            word,
            joint,
            bidirectional: false,
            pooling: CaptionPooling::Last,
            absolute: false,
            similarity: EmbeddingSimilarity::Cosine,
            normalize_images: true,
        }
    }

    /// Word vectors and GRU of captions.
    #[must_use]
    pub fn caption_gru(&self) -> CaptionGru {
        CaptionGru { word: self.word, state: self.joint, bidirectional: self.bidirectional }
    }

    /// Options of the encoder of captions.
    pub(super) fn caption_options(&self) -> CaptionOptions {
        let Self { pooling, absolute, .. } = *self;
        CaptionOptions { pooling, absolute, words_frozen: self.data.words_frozen }
    }

    /// Specifications of the parameters without those of the CNN: the linear layer of images, U(±√(6/(D+d))) with zero
    /// bias; the word vectors, U(±0.1); then for each direction of the GRU, U(±1/√d), `weight_ih`, `weight_hh`,
    /// `bias_ih` and `bias_hh`.
    ///
    /// # Errors
    /// A width that no tensor can have.
    pub fn parameter_specs(&self) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(self.data.image)?, tensor_width(self.joint)?);
        let mut all = ParameterSpec::linear("img_enc.fc", joint, image).to_vec();
        all.extend(self.caption_gru().parameter_specs(&self.data)?);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::caption_gru::WORD_VECTORS;

    #[test]
    fn names_are_those_of_the_published_checkpoints() {
        let mut config = VseConfig { bidirectional: true, ..VseConfig::new(8, 30, 5, 4) };
        config.data.words_frozen = true;
        let parameters = config.parameter_specs().expect("widths");
        let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        assert_eq!(names[..4], ["img_enc.fc.weight", "img_enc.fc.bias", WORD_VECTORS, "txt_enc.rnn.weight_ih_l0"]);
        assert_eq!((names.len(), names[10]), (11, "txt_enc.rnn.bias_hh_l0_reverse"));
        assert!(parameters.iter().all(|parameter| parameter.trainable == (parameter.name != WORD_VECTORS)));
    }

    #[test]
    fn fields_missing_in_an_older_description_default_to_vse() {
        let config: VseConfig = serde_json::from_str(r#"{"image": 8, "word": 5, "embedding": 4}"#).expect("a model");
        assert_eq!(config, VseConfig::new(8, 0, 5, 4));
        let config = VseConfig { pooling: CaptionPooling::Max, absolute: true, ..config };
        assert_eq!(serde_json::from_str::<VseConfig>(&serde_json::json!(config).to_string()).expect("a model"), config);
    }
}
