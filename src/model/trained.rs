//! A trained model as files: `model.safetensors` (parameters, named as in the published checkpoints) and `model.json`.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tch::Device;

use super::cnn::Network;
use super::device::{to_tch, use_threads};
use super::family::encode;
use super::family::encoded::Encoded;
use super::family::list::Config;
use super::family::model::Model;
use super::named::Named;
use super::scores::ModelScores;
use crate::error::{Error, Result};
use crate::kernels::text::{Tokenizer, Vocabulary};
use crate::runtime::{self, Cancel};

/// The file of the parameters.
pub const PARAMETERS: &str = "model.safetensors";
/// The file that says what they are parameters of.
pub const DESCRIPTION: &str = "model.json";

/// What is not in the parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The family of the model, and what it is made of.
    #[serde(flatten)]
    pub config: Config,
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

/// A trained model, ready to embed.
#[derive(Debug)]
pub struct Trained {
    config: Config,
    model: Box<dyn Model>,
    /// The network whose unit features of pictures it was trained with, if that was trained with it.
    pub network: Option<Network>,
    vocabulary: Vocabulary,
    tokenizer: Tokenizer,
}

impl Trained {
    /// Reads the files of a model for a stage, by `file` from name to content; libtorch then works on `threads` threads.
    ///
    /// # Errors
    /// The device is not there, or as [`Trained::read`].
    pub fn open(mut file: impl FnMut(&str) -> Result<Bytes>, device: runtime::Device, threads: usize) -> Result<Self> {
        use_threads(threads);
        let device = to_tch(device)?;
        Self::read(&file(DESCRIPTION)?, &file(PARAMETERS)?, device)
    }

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
        let described = description.config.data().words;
        if described != 0 && described != words {
            return Err(Error::data(format!("`words` is {described}, `vocabulary` has {words}")).context(DESCRIPTION));
        }
        let network = description.config.data().pictures.map(|pictures| pictures.network);
        let config = description.config.for_words(words).on_features();
        let mut named = Named::from_bytes(parameters).map_err(in_parameters)?;
        let model = config.take(&mut named, "", device).map_err(in_parameters)?;
        Ok(Self { config, model, network, vocabulary, tokenizer: description.tokenizer })
    }

    /// Values of the feature of an image.
    #[must_use]
    pub fn image_values(&self) -> usize {
        self.model.data().image_values()
    }

    /// Encodes any number of images, at least one, from their features, row-major.
    ///
    /// # Errors
    /// `features` are no whole number of them.
    pub fn encode_images(&self, features: &[f32]) -> Result<Encoded> {
        encode::images(&*self.model, features)
    }

    /// Encodes any number of captions, at least one, from the numbers of their words, as [`Trained::words`] gives them.
    ///
    /// # Errors
    /// A caption without a word.
    pub fn encode_captions(&self, captions: &[&[i32]]) -> Result<Encoded> {
        encode::captions(&*self.model, captions)
    }

    /// The vectors of encoded items, row-major.
    ///
    /// # Errors
    /// Scores of the model do not follow from one vector of an image and one of a caption.
    pub fn vectors(&self, encoded: &Encoded) -> Result<Vec<f32>> {
        if self.model.similarity().is_none() {
            return Err(Error::data(
                "the scores of this model do not follow from one vector of an image and one of a caption",
            )
            .hint("leave out `embed`, and evaluate with `scores = { model = …, features = …, captions = … }`"));
        }
        encode::vectors(encoded)
    }

    /// Scores of images with captions by what they are encoded as, computed on `threads` threads.
    ///
    /// # Errors
    /// As [`ModelScores::new`].
    pub fn scores(
        &self,
        sides: [Encoded; 2],
        ids: [&[i64]; 2],
        threads: usize,
        cancel: &Cancel,
    ) -> Result<ModelScores> {
        ModelScores::new(&self.config, &*self.model, sides, ids, threads, cancel)
    }

    /// How the model cuts captions into words.
    #[must_use]
    pub fn tokenizer(&self) -> Tokenizer {
        self.tokenizer
    }

    /// The numbers of the words of `caption`, `<start>` and `<end>` among them.
    ///
    /// # Errors
    /// As [`Vocabulary::encode_caption`].
    pub fn words(&self, caption: &str) -> Result<Vec<i32>> {
        self.vocabulary.encode_caption(self.tokenizer, caption).map_err(Error::data)
    }
}
