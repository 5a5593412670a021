//! What a joint embedding is made of, as plain data, and the parameters that follow from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cnn::Network;
use crate::error::{Error, Result};

/// A joint embedding of images and captions, before it has parameters.
///
/// Images: features (or pictures, through a network that is trained too) → linear → L2 norm. Captions: word vectors →
/// GRU → pooled over the words → L2 norm. Both end with |·| where [`absolute`](Self::absolute) says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Form {
    /// Width of the image features.
    pub image: usize,
    /// Words of the vocabulary.
    #[serde(default)]
    pub words: usize,
    /// Width of the word vectors.
    pub word: usize,
    /// Width of the joint space, which is also the state of the GRU.
    #[serde(rename = "embedding")]
    pub joint: usize,
    /// Whether captions are also read from their end. The states of the two directions, each as wide as the joint space,
    /// are averaged word by word, as SCAN does (Lee et al., ECCV 2018); the other choice of the literature is two states
    /// of half the width side by side.
    #[serde(default)]
    pub bidirectional: bool,
    /// How the states of a caption become one.
    #[serde(default)]
    pub pooling: Pooling,
    /// Whether both embeddings end with |·|: order embeddings (Vendrov et al., ICLR 2016) live in the positive orthant.
    #[serde(default)]
    pub absolute: bool,
    /// Whether images are normalised while training. UVS (Kiros et al., 2014) normalises them only afterwards, when they
    /// are searched; so does a model without this.
    #[serde(default = "yes")]
    pub normalize_images: bool,
    /// Whether word vectors stay as they were given.
    #[serde(default)]
    pub words_frozen: bool,
    /// The network whose features of pictures are `image` wide, where it is trained with the rest. Its features are
    /// normalised before the linear layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<Pictures>,
}

/// How the states after each word of a caption become one vector. Words beyond the end of a caption take no part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The state after the last word (VSE++); of the direction that starts at the end, the state after the first.
    #[default]
    Last,
    /// The mean over the words.
    Mean,
    /// The largest over the words, value by value.
    Max,
}

/// A network that reads pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pictures {
    /// The network.
    pub network: Network,
    /// Height and width of what the network sees, in pixels.
    pub side: usize,
    /// Shorter side of a picture before its centre is cut out, where it is not augmented.
    pub resize: usize,
}

fn yes() -> bool {
    true
}

/// A parameter of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Name, as in the published checkpoints of VSE++: `img_enc.fc.weight`.
    pub name: String,
    /// Sizes of its dimensions.
    pub shape: Vec<i64>,
    /// New ones are drawn from U(±bound).
    pub bound: f64,
    /// Whether training changes it.
    pub trained: bool,
}

impl Form {
    /// The model of VSE++ (Faghri et al., BMVC 2018) with these widths.
    #[must_use]
    pub fn vse(image: usize, words: usize, word: usize, joint: usize) -> Self {
        let (bidirectional, pooling, absolute, normalize_images) = (false, Pooling::Last, false, true);
        let (words_frozen, pictures) = (false, None);
        Self { image, words, word, joint, bidirectional, pooling, absolute, normalize_images, words_frozen, pictures }
    }

    /// Values of an image as it is given: its features, or its 3 × side × side pixels.
    #[must_use]
    pub fn image_values(&self) -> usize {
        self.pictures.map_or(self.image, |Pictures { side, .. }| 3 * side * side)
    }

    /// Directions in which captions are read.
    #[must_use]
    pub fn directions(&self) -> usize {
        1 + usize::from(self.bidirectional)
    }

    /// The parameters beside those of the network that reads pictures, in the order of a model's: the linear layer of
    /// images U(±√(6/(D+d))) with zero bias, word vectors U(±0.1), then for each direction of the GRU, U(±1/√d), `weight_ih`,
    /// `weight_hh`, `bias_ih`, `bias_hh`.
    ///
    /// # Errors
    /// A width that no tensor can have.
    pub fn parameters(&self) -> Result<Vec<Parameter>> {
        let size = |width: usize| {
            i64::try_from(width)
                .ok()
                .filter(|width| (1..1 << 31).contains(width))
                .ok_or_else(|| Error::data(format!("a model cannot have a width of {width}")))
        };
        let (image, word, joint, words) = (size(self.image)?, size(self.word)?, size(self.joint)?, size(self.words)?);
        #[expect(clippy::cast_precision_loss, reason = "widths are below 2^31")]
        let (linear, recurrent) = ((6.0 / (image + joint) as f64).sqrt(), 1.0 / (joint as f64).sqrt());
        let parameter = |name: &str, shape: &[i64], bound| Parameter {
            name: name.to_owned(),
            shape: shape.to_vec(),
            bound,
            trained: true,
        };
        let mut all = vec![
            parameter("img_enc.fc.weight", &[joint, image], linear),
            parameter("img_enc.fc.bias", &[joint], 0.0),
            Parameter { trained: !self.words_frozen, ..parameter("txt_enc.embed.weight", &[words, word], 0.1) },
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
        let form = Form { bidirectional: true, words_frozen: true, ..Form::vse(8, 30, 5, 4) };
        let parameters = form.parameters().expect("widths");
        let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        assert_eq!(
            names[..4],
            ["img_enc.fc.weight", "img_enc.fc.bias", "txt_enc.embed.weight", "txt_enc.rnn.weight_ih_l0"]
        );
        assert_eq!((names.len(), names[10]), (11, "txt_enc.rnn.bias_hh_l0_reverse"));
        assert!(parameters.iter().all(|parameter| parameter.trained == (parameter.name != "txt_enc.embed.weight")));
    }

    #[test]
    fn what_an_older_description_leaves_out_is_vse() {
        let form: Form = serde_json::from_str(r#"{"image": 8, "word": 5, "embedding": 4}"#).expect("a form");
        assert_eq!(form, Form::vse(8, 0, 5, 4));
        let form = Form { pooling: Pooling::Max, absolute: true, ..form };
        assert_eq!(serde_json::from_str::<Form>(&serde_json::json!(form).to_string()).expect("a form"), form);
    }
}
