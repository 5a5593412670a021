//! Description of a joint embedding as plain data, and the parameters that follow from it.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::model::encoder::{CaptionOptions, Pooling};
use crate::model::family::data::Data;
use crate::model::family::parameters::{Init, Parameter, width};
use crate::model::similarity::Similarity;

/// A joint embedding of images and captions, before it has parameters.
///
/// Images: features (or pictures, through a network that is trained too) → linear → L2 norm. Captions: word vectors →
/// GRU → pooled over the words → L2 norm. Both end with |·| where [`absolute`](Self::absolute) says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The data that it is for.
    #[serde(flatten)]
    pub data: Data,
    /// Width of the word vectors.
    pub word: usize,
    /// Width of the joint space, which is also the state of the GRU.
    #[serde(rename = "embedding")]
    pub joint: usize,
    /// True if captions are also read from their end. The states of the two directions, each as wide as the joint space,
    /// are averaged word by word, as SCAN does (Lee et al., ECCV 2018); the other choice of the literature is two states
    /// of half the width side by side.
    #[serde(default)]
    pub bidirectional: bool,
    /// How the states of a caption become one.
    #[serde(default)]
    pub pooling: Pooling,
    /// True if both embeddings end with |·|: order embeddings (Vendrov et al., ICLR 2016) live in the positive orthant.
    #[serde(default)]
    pub absolute: bool,
    /// Similarity of an image and a caption. A checkpoint that was converted does not say; then they are cosines.
    #[serde(default)]
    pub similarity: Similarity,
    /// True if images are normalised while training. UVS (Kiros et al., 2014) normalises them only afterwards, when they
    /// are searched; so does a model without this.
    #[serde(default = "yes")]
    pub normalize_images: bool,
}

fn yes() -> bool {
    true
}

/// The vectors of the words.
pub(super) const WORDS: &str = "txt_enc.embed.weight";

impl Config {
    /// The model of VSE++ (Faghri et al., BMVC 2018) with these widths.
    #[must_use]
    pub fn vse(image: usize, words: usize, word: usize, joint: usize) -> Self {
        Self {
            data: Data::features(image, words),
            word,
            joint,
            bidirectional: false,
            pooling: Pooling::Last,
            absolute: false,
            similarity: Similarity::Cosine,
            normalize_images: true,
        }
    }

    /// Directions in which captions are read.
    #[must_use]
    pub fn directions(&self) -> usize {
        1 + usize::from(self.bidirectional)
    }

    /// How captions are encoded.
    pub(super) fn captions(&self) -> CaptionOptions {
        let Self { pooling, absolute, .. } = *self;
        CaptionOptions { pooling, absolute, words_frozen: self.data.words_frozen }
    }

    /// The parameters beside those of the network that reads pictures: the linear layer of images U(±√(6/(D+d))) with zero
    /// bias, word vectors U(±0.1), then for each direction of the GRU, U(±1/√d), `weight_ih`, `weight_hh`, `bias_ih`,
    /// `bias_hh`.
    ///
    /// # Errors
    /// A width that no tensor can have.
    pub fn parameters(&self) -> Result<Vec<Parameter>> {
        let (image, word) = (width(self.data.image)?, width(self.word)?);
        let (joint, words) = (width(self.joint)?, width(self.data.words)?);
        #[expect(clippy::cast_precision_loss, reason = "widths are below 2^31")]
        let (linear, recurrent) = ((6.0 / (image + joint) as f64).sqrt(), 1.0 / (joint as f64).sqrt());
        let parameter = |name: &str, shape: &[i64], bound| Parameter::new(name, shape, Init::Uniform(bound));
        let mut all = vec![
            parameter("img_enc.fc.weight", &[joint, image], linear),
            parameter("img_enc.fc.bias", &[joint], 0.0),
            Parameter { trained: !self.data.words_frozen, ..parameter(WORDS, &[words, word], 0.1) },
        ];
        for suffix in ["", "_reverse"].into_iter().take(self.directions()) {
            for (what, shape) in [
                ("weight_ih", [3 * joint, word].as_slice()),
                ("weight_hh", &[3 * joint, joint]),
                ("bias_ih", &[3 * joint]),
                ("bias_hh", &[3 * joint]),
            ] {
                all.push(parameter(&format!("txt_enc.rnn.{what}_l0{suffix}"), shape, recurrent));
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_published_checkpoints() {
        let mut config = Config { bidirectional: true, ..Config::vse(8, 30, 5, 4) };
        config.data.words_frozen = true;
        let parameters = config.parameters().expect("widths");
        let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        assert_eq!(names[..4], ["img_enc.fc.weight", "img_enc.fc.bias", WORDS, "txt_enc.rnn.weight_ih_l0"]);
        assert_eq!((names.len(), names[10]), (11, "txt_enc.rnn.bias_hh_l0_reverse"));
        assert!(parameters.iter().all(|parameter| parameter.trained == (parameter.name != WORDS)));
    }

    #[test]
    fn what_an_older_description_leaves_out_is_vse() {
        let config: Config = serde_json::from_str(r#"{"image": 8, "word": 5, "embedding": 4}"#).expect("a model");
        assert_eq!(config, Config::vse(8, 0, 5, 4));
        let config = Config { pooling: Pooling::Max, absolute: true, ..config };
        assert_eq!(serde_json::from_str::<Config>(&serde_json::json!(config).to_string()).expect("a model"), config);
    }
}
