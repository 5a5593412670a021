//! A trained model as files: `model.safetensors` (parameters, named as in the published checkpoints) and `model.json`.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Device, Tensor};

use super::cnn::Network;
use super::form::Form;
use super::named::Named;
use super::vse::Vse;
use crate::error::{Error, Result};
use crate::kernels::text::{Vocabulary, tokens};

/// The file of the parameters.
pub const PARAMETERS: &str = "model.safetensors";
/// The file that says what they are parameters of.
pub const DESCRIPTION: &str = "model.json";

/// What is not in the parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The family of the model: `vse++`.
    #[serde(rename = "form")]
    pub family: String,
    /// What it is made of.
    #[serde(flatten)]
    pub form: Form,
    /// The epoch, from 0, that the parameters are of.
    pub epoch: u64,
    /// Optimiser steps done.
    pub step: u64,
    /// Sum of the six recalls on the validation split, percent, where there was one.
    pub rsum: Option<f64>,
    /// How captions become words.
    pub tokenizer: Tokenizer,
    /// The settings of the training.
    pub settings: serde_json::Value,
    /// The words, in the order of their numbers.
    pub vocabulary: Vec<String>,
}

impl Description {
    /// From the bytes of [`DESCRIPTION`].
    ///
    /// # Errors
    /// They are no description.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes)
            .map_err(|error| Error::data(format!("no description of a model: {error}")).context(DESCRIPTION))
    }
}

/// How captions become words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tokenizer {
    /// NLTK's `word_tokenize` on the lower-cased caption, as VSE++ and its heirs do.
    #[default]
    Treebank,
    /// The lower-cased caption split at white space.
    Whitespace,
    /// The COCO evaluation's: Stanford's Penn Treebank tokeniser, without punctuation.
    Ptb,
    /// `treebank` of the caption as Python 3 writes bytes, `b'a dog .'`: what the published codes of HAL, CVSE and SAM make
    /// of captions under Python 3. For checkpoints that were trained so.
    Python3Bytes,
}

impl Tokenizer {
    /// The words of `caption`, in lower case.
    #[must_use]
    pub fn words(self, caption: &str) -> Vec<String> {
        self.kernel().words(caption, true)
    }

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.kernel().name()
    }

    /// The tokeniser itself.
    #[must_use]
    pub fn kernel(self) -> tokens::Tokenizer {
        match self {
            Self::Treebank => tokens::Tokenizer::Treebank,
            Self::Whitespace => tokens::Tokenizer::Whitespace,
            Self::Ptb => tokens::Tokenizer::Ptb,
            Self::Python3Bytes => tokens::Tokenizer::Python3Bytes,
        }
    }
}

/// The most words of a caption. The longest caption of COCO and Flickr30k has fewer than a hundred; a text without an end
/// would fill the memory, which grows with the words of a batch.
pub const MOST_WORDS: usize = 1000;

/// The numbers of the words of `caption`, `<start>` and `<end>` among them.
///
/// # Errors
/// More words than [`MOST_WORDS`].
pub fn encode(vocabulary: &Vocabulary, tokenizer: Tokenizer, caption: &str) -> Result<Vec<i64>> {
    let words = tokenizer.words(caption);
    if words.len() > MOST_WORDS {
        return Err(Error::data(format!("{} words, wanted at most {MOST_WORDS}", words.len())));
    }
    Ok(vocabulary.encode(&words))
}

/// A trained model, ready to embed.
#[derive(Debug)]
pub struct Trained {
    /// The model, on features.
    pub vse: Vse,
    /// The network whose unit features of pictures it was trained with, if that was trained with it.
    pub network: Option<Network>,
    vocabulary: Vocabulary,
    tokenizer: Tokenizer,
}

impl Trained {
    /// Reads the two files of a model.
    ///
    /// # Errors
    /// A file that is damaged, or files that do not fit each other.
    pub fn read(description: &[u8], parameters: &[u8], device: Device) -> Result<Self> {
        let description = Description::read(description)?;
        let vocabulary =
            Vocabulary::from_words(description.vocabulary).map_err(|e| Error::data(e).context(DESCRIPTION))?;
        let in_parameters = |error: Error| error.context(PARAMETERS);
        let words = vocabulary.words().len();
        let form = description.form;
        if form.words != 0 && form.words != words {
            return Err(
                Error::data(format!("`words` is {}, `vocabulary` has {words}", form.words)).context(DESCRIPTION)
            );
        }
        let form = Form { words, ..form };
        let vse = model(&mut Named::from_bytes(parameters).map_err(in_parameters)?, form, "", device)
            .map_err(in_parameters)?;
        let network = vse.form().pictures.map(|pictures| pictures.network);
        Ok(Self { vse: vse.on_features(), network, vocabulary, tokenizer: description.tokenizer })
    }

    /// How the model cuts captions into words.
    #[must_use]
    pub fn tokenizer(&self) -> Tokenizer {
        self.tokenizer
    }

    /// The numbers of the words of `caption`, `<start>` and `<end>` among them.
    ///
    /// # Errors
    /// As [`encode`].
    pub fn encode(&self, caption: &str) -> Result<Vec<i64>> {
        encode(&self.vocabulary, self.tokenizer, caption)
    }
}

/// The parameters under their names with `prefix`.
pub(super) fn named(vse: &Vse, prefix: &str) -> Named {
    let names = vse.names().into_iter().map(|name| format!("{prefix}{name}"));
    Named { tensors: names.zip(vse.parameters().iter().map(Tensor::shallow_clone)).collect(), text: None }
}

/// The model of this form whose parameters stand under their names with `prefix`.
pub(super) fn model(named: &mut Named, form: Form, prefix: &str, device: Device) -> Result<Vse> {
    let names = Vse::names_of(&form)?;
    let parameters = names.iter().map(|name| Ok(named.take(&format!("{prefix}{name}"))?.to_device(device)));
    let parameters = parameters.collect::<Result<Vec<Tensor>>>()?;
    Vse::from_parameters(form, parameters)
}

/// The bytes of [`PARAMETERS`].
pub(super) fn parameters(vse: &Vse) -> Result<Bytes> {
    named(vse, "").to_bytes()
}
