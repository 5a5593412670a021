//! Trained model as files: `model.safetensors` (parameters with the names of published checkpoints) and `model.json`.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tch::Device;

use super::device::{device_of_rank, set_thread_count};
use super::family::attention::WordAttention;
use super::family::concept_graph::with_image_words;
use super::family::encode;
use super::family::encode::EncodedItems;
use super::family::model::Model;
use super::family::registry::ModelConfig;
use super::pair_scores::{CaptionBlocks, PairScoring, StreamedItems, StreamedScores};
use super::safetensors_file::NamedTensors;
use super::tensor_slices::to_vec;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::{CancelToken, Resources};
use pairloom_kernels::text::{Tokenizer, Vocabulary};
use pairloom_spec::family::scan::AttentionDirection;
use pairloom_spec::input_spec::InputSpec;
use pairloom_spec::networks::Network;

/// Name of the file with the parameters.
pub const PARAMETERS_FILE: &str = "model.safetensors";
/// Name of the file with the description of the model.
pub const DESCRIPTION_FILE: &str = "model.json";

/// Description of a trained model: everything except its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelDescription {
    /// Family of the model and its settings.
    #[serde(flatten)]
    pub config: ModelConfig,
    /// Epoch of the parameters, from 0.
    pub epoch: u64,
    /// Number of optimiser steps done.
    pub step: u64,
    /// Sum of the six recalls on the validation split in percent, if there was one.
    pub rsum: Option<f64>,
    /// Tokenizer of captions.
    pub tokenizer: Tokenizer,
    /// Settings of the training.
    pub settings: serde_json::Value,
    /// Words in the order of their token ids.
    pub vocabulary: Vec<String>,
}

impl ModelDescription {
    /// Reads the bytes of [`DESCRIPTION_FILE`].
    ///
    /// # Errors
    /// Bytes that are not a description of a model.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes)
            .map_err(|error| Error::data(format!("not a description of a model: {error}")).context(DESCRIPTION_FILE))
    }
}

/// Trained model, ready to encode images and captions.
#[derive(Debug)]
pub struct TrainedModel {
    config: ModelConfig,
    model: Box<dyn Model>,
    /// CNN that was fine-tuned with the model; its L2-normalised features are the model's input.
    pub network: Option<Network>,
    vocabulary: Vocabulary,
    tokenizer: Tokenizer,
    cancel: CancelToken,
}

impl TrainedModel {
    /// Reads the files of a model, whose contents `file` returns by name. From then on libtorch uses the threads of
    /// `resources`, and encoding can be cancelled.
    ///
    /// # Errors
    /// The device is not available, or as [`TrainedModel::read`].
    pub fn open(file: impl FnMut(&str) -> Result<Bytes>, resources: &Resources) -> Result<Self> {
        Self::open_on_rank(file, resources, 0)
    }

    /// As [`TrainedModel::open`], on the GPU of a rank of this machine.
    pub fn open_on_rank(
        mut file: impl FnMut(&str) -> Result<Bytes>,
        resources: &Resources,
        local_rank: usize,
    ) -> Result<Self> {
        set_thread_count(resources.threads);
        let device = device_of_rank(resources.device, local_rank)?;
        let model = Self::read(&file(DESCRIPTION_FILE)?, &file(PARAMETERS_FILE)?, device)?;
        Ok(Self { cancel: resources.cancel.clone(), ..model })
    }

    /// Reads the two files of a model.
    ///
    /// # Errors
    /// A file that is damaged, or files that do not fit each other.
    pub fn read(description: &[u8], parameters: &[u8], device: Device) -> Result<Self> {
        let description = ModelDescription::read(description)?;
        let vocabulary =
            Vocabulary::from_words(description.vocabulary).map_err(|e| Error::data(e).context(DESCRIPTION_FILE))?;
        let in_parameters = |error: Error| error.context(PARAMETERS_FILE);
        let words = vocabulary.words().len();
        let described = description.config.input_spec().words;
        if described != 0 && described != words {
            return Err(
                Error::data(format!("`words` is {described}, `vocabulary` has {words}")).context(DESCRIPTION_FILE)
            );
        }
        let network = description.config.input_spec().pictures.map(|pictures| pictures.network);
        let config = description.config.with_vocabulary_size(words).without_network();
        let mut named = NamedTensors::from_bytes(parameters).map_err(in_parameters)?;
        let model = config.load(&mut named, "", device).map_err(in_parameters)?;
        let (tokenizer, cancel) = (description.tokenizer, CancelToken::new());
        Ok(Self { config, model, network, vocabulary, tokenizer, cancel })
    }

    /// Description of the data that the model is for.
    #[must_use]
    pub fn input_spec(&self) -> &InputSpec {
        self.model.input_spec()
    }

    /// Largest number of regions of an image; `None` if there is no limit.
    #[must_use]
    pub fn max_regions(&self) -> Option<usize> {
        self.model.max_regions()
    }

    /// Encodes at least one image from row-major features or regions, `width` values for each image.
    ///
    /// # Errors
    /// A number of values that is not a multiple of `width`.
    pub fn encode_images(&self, images: &[f32], width: usize) -> Result<EncodedItems> {
        encode::images(&*self.model, images, width, &self.cancel)
    }

    /// Encodes at least one caption from the token ids of [`TrainedModel::token_ids`].
    ///
    /// # Errors
    /// No caption.
    pub fn encode_captions(&self, captions: &[&[i32]]) -> Result<EncodedItems> {
        encode::captions(&*self.model, captions, &self.cancel)
    }

    /// No images, encoded.
    pub fn no_images(&self) -> Result<EncodedItems> {
        Ok(encode::encode_nothing(&*self.model)?.0)
    }

    /// No captions, encoded.
    pub fn no_captions(&self) -> Result<EncodedItems> {
        Ok(encode::encode_nothing(&*self.model)?.1)
    }

    /// Vectors of encoded items, row-major.
    ///
    /// # Errors
    /// The scores of the model do not follow from one vector of an image and one of a caption.
    pub fn single_vectors(&self, encoded: &EncodedItems) -> Result<Vec<f32>> {
        if self.model.similarity().is_none() {
            return Err(Error::data(
                "the scores of this model do not follow from one vector of an image and one of a caption",
            )
            .hint("use `score_pairs` in place of `embed`, and evaluate its `scores`"));
        }
        encode::single_vectors(encoded)
    }

    /// Encodes captions, given as the token ids of [`TrainedModel::token_ids`], for [`TrainedModel::scores`].
    pub fn encode_caption_blocks(&self, captions: &[&[i32]]) -> Result<CaptionBlocks> {
        CaptionBlocks::encode(&*self.model, captions, &self.cancel)
    }

    /// Scores of encoded images with encoded captions, row-major with a row for each image, computed on `threads`
    /// threads. `ids` are those of images and captions, for messages.
    pub fn scores(
        &self,
        images: &EncodedItems,
        captions: &CaptionBlocks,
        ids: [&[i64]; 2],
        threads: usize,
    ) -> Result<Vec<f32>> {
        let scoring = PairScoring { config: &self.config, ids, threads, cancel: &self.cancel };
        scoring.compute(&*self.model, images, captions)
    }

    /// Source of the scores of images with captions for a search on `threads` threads, which stores none of them.
    ///
    /// # Errors
    /// As [`StreamedScores`] says.
    pub fn streamed_scores<'i>(&self, items: StreamedItems<'i>, threads: usize) -> Result<StreamedScores<'i>> {
        StreamedScores::new((&self.config, &*self.model), items, threads, &self.cancel)
    }

    /// Attention between the words of one encoded caption and the regions of one encoded image: weights
    /// `[words, regions]`, row-major, and their direction.
    ///
    /// # Errors
    /// The model has no such attention.
    pub fn word_attention(
        &self,
        image: &EncodedItems,
        caption: &EncodedItems,
    ) -> Result<(Vec<f32>, AttentionDirection)> {
        let Some(WordAttention { weights, direction }) = self.model.word_attention(image, caption) else {
            return Err(Error::data("this model has no attention between words and regions")
                .hint("models of `scan` and `sgraf` have one"));
        };
        Ok((to_vec(&weights.contiguous())?, direction))
    }

    /// Word of a token id of [`TrainedModel::token_ids`].
    #[must_use]
    pub fn word(&self, token_id: i32) -> &str {
        let number = usize::try_from(token_id).ok();
        number.and_then(|number| self.vocabulary.words().get(number)).map_or("<unk>", String::as_str)
    }

    /// Tokenizer of the model.
    #[must_use]
    pub fn tokenizer(&self) -> Tokenizer {
        self.tokenizer
    }

    /// True if a caption is read with the words of all captions of its image: all captions of an image must be given to
    /// [`TrainedModel::add_image_words`] together.
    #[must_use]
    pub fn reads_image_words(&self) -> bool {
        self.model.reads_image_words()
    }

    /// Adds to each caption the words of the other captions of its image, if the model reads them.
    pub fn add_image_words(&self, token_ids: &mut [Vec<i32>], image_ids: &[i64]) {
        if self.reads_image_words() {
            with_image_words(token_ids, image_ids);
        }
    }

    /// Token ids of `caption`, with `<start>` and `<end>`.
    pub fn token_ids(&self, caption: &str) -> Result<Vec<i32>> {
        self.vocabulary.encode_caption(self.tokenizer, caption).map_err(Error::data)
    }
}
