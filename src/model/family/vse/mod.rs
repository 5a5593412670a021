//! VSE++ (Faghri, Fleet, Kiros, Fidler, BMVC 2018) and its variants, with hand-written gradients.

use std::collections::BTreeMap;
use std::ops::Range;

use az::SaturatingAs;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::encoder::{CaptionOptions, caption_embeddings, image_embeddings};
use crate::family::encode::EncodedItems;
use crate::family::graph::CaptionGru;
use crate::family::image_rows::ImageRows;
use crate::family::model::{
    EncodedBatch, Family, GlobalLossContext, LocalBatch, Model, PublishedCheckpoint, ScoreGradients, ScoredBatch,
};
use crate::family::parameters::{ParameterSpec, Parameters, tensor_width};
use crate::family::published::{CheckpointLayout, CheckpointShapes, read_checkpoint};
use crate::similarity::SimilarityScores;
use pairloom_base::error::{Error, Result};
use pairloom_spec::family::vse::{CaptionPooling, VseSettings};
use pairloom_spec::input_spec::InputSpec;
use pairloom_spec::precision::MatmulPrecision;
use pairloom_spec::similarity::{EmbeddingSimilarity, OrderPenalty};

use pairloom_spec::family::vse::PublishedVseSettings;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod published_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod edge_tests;

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

/// Index of the first parameter of the caption encoder, after those of the linear layer.
const FIRST_CAPTION_PARAMETER: usize = 2;

/// Joint embedding of images and captions. Parameters have the names of the published checkpoints of VSE++.
#[derive(Debug)]
pub struct Vse {
    config: VseConfig,
    parameters: Parameters,
    precision: MatmulPrecision,
}

impl Vse {
    /// Creates the model with parameters that fit [`VseConfig::parameter_specs`].
    #[must_use]
    pub fn new(config: VseConfig, parameters: Parameters) -> Self {
        Self { config, parameters, precision: MatmulPrecision::default() }
    }

    fn image_layer(&self) -> [&Tensor; 2] {
        [&self.parameters.tensors()[0], &self.parameters.tensors()[1]]
    }

    /// Parameters of the caption encoder.
    fn caption_parameters(&self) -> &[Tensor] {
        &self.parameters.own_tensors()[FIRST_CAPTION_PARAMETER..]
    }

    /// Encodes an empty local batch.
    fn encode_empty_batch(&self) -> EncodedBatch<'_> {
        let none = || {
            let width = self.parameters.tensors()[1].size()[0];
            EncodedItems::from_vectors(Tensor::zeros([0, width], (self.parameters.kind(), self.parameters.device())))
        };
        let backward = |_: &Tensor, _: &Tensor| {
            Ok(self.parameters.trainable().iter().map(|(_, parameter)| parameter.zeros_like()).collect())
        };
        EncodedBatch {
            images: none(),
            captions: none(),
            losses: Vec::new(),
            buffers: BTreeMap::new(),
            backward: Box::new(backward),
        }
    }
}

impl Model for Vse {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn input_spec(&self) -> &InputSpec {
        &self.config.data
    }

    fn similarity(&self) -> Option<EmbeddingSimilarity> {
        Some(self.config.similarity)
    }

    fn set_precision(&mut self, precision: MatmulPrecision) -> Result<()> {
        self.precision = precision;
        Ok(())
    }

    fn encode_images(&self, images: &ImageRows<'_>) -> Result<EncodedItems> {
        tch::no_grad(|| {
            let features = self.parameters.image_features(images.tensor().shallow_clone(), &self.config.data)?;
            let absolute = self.config.absolute;
            let (vectors, _) = image_embeddings(features, self.image_layer(), true, absolute, self.precision);
            Ok(EncodedItems::from_vectors(vectors))
        })
    }

    fn encode_captions(&self, captions: &[&[i32]]) -> Result<EncodedItems> {
        let options = self.config.caption_options();
        let (vectors, _) =
            tch::no_grad(|| caption_embeddings(captions, self.caption_parameters(), options, self.precision));
        Ok(EncodedItems::from_vectors(vectors))
    }

    fn scores(&self, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor> {
        Ok(self.config.similarity.scores(&images.vectors, &captions.vectors))
    }

    fn encode_batch<'m>(&'m self, batch: &'m LocalBatch<'m>) -> Result<EncodedBatch<'m>> {
        if batch.images.len() != batch.captions.len() {
            let (images, captions) = (batch.images.len(), batch.captions.len());
            return Err(Error::internal(format!("got {captions} captions for {images} images")));
        }
        if batch.captions.is_empty() {
            return Ok(self.encode_empty_batch());
        }
        let rows = batch.images.tensor();
        let mut cnn = self.parameters.cnn_features_with_tape(rows, &self.config.data)?;
        let buffers = cnn.as_mut().map(|cnn| self.parameters.cnn_statistics(cnn)).unwrap_or_default();
        let VseConfig { normalize_images, absolute, .. } = self.config;
        let (precision, options) = (self.precision, self.config.caption_options());
        let ((images, image_tape), (captions, caption_tape)) = tch::no_grad(|| {
            let features = cnn.as_ref().map_or_else(|| rows.shallow_clone(), |cnn| cnn.features.detach());
            let images = image_embeddings(features, self.image_layer(), normalize_images, absolute, precision);
            (images, caption_embeddings(batch.captions, self.caption_parameters(), options, precision))
        });
        let backward = move |d_images: &Tensor, d_captions: &Tensor| {
            let (linear, rest) = tch::no_grad(|| {
                let linear = image_tape.backward(d_images, self.image_layer()[0], cnn.is_some(), precision);
                (linear, caption_tape.backward(d_captions, self.caption_parameters(), options, precision))
            });
            let mut gradients = vec![linear.weight, linear.bias];
            gradients.extend(rest.into_iter().flatten());
            if let (Some(cnn), Some(d)) = (cnn, linear.features) {
                gradients.extend(cnn.backward(&d));
            }
            Ok(gradients)
        };
        let (images, captions) = (EncodedItems::from_vectors(images), EncodedItems::from_vectors(captions));
        Ok(EncodedBatch { images, captions, losses: Vec::new(), buffers, backward: Box::new(backward) })
    }

    fn score_batch<'m>(
        &'m self,
        images: &'m EncodedItems,
        captions: &'m EncodedItems,
        _: GlobalLossContext<'_>,
    ) -> Result<ScoredBatch<'m>> {
        let similarity = self.config.similarity;
        let (images, captions) = (&images.vectors, &captions.vectors);
        let scores = similarity.scores(images, captions);
        let backward = move |d_scores: &Tensor, own: Range<usize>| {
            let own = [own.start, own.end].map(SaturatingAs::saturating_as::<i64>);
            let (images, captions) = similarity.backward(images, captions, d_scores, &(own[0]..own[1]));
            Ok(ScoreGradients { images, captions, parameters: None })
        };
        Ok(ScoredBatch { scores, losses: Vec::new(), buffers: BTreeMap::new(), backward: Box::new(backward) })
    }
}

impl Family for VseConfig {
    type Settings = VseSettings;

    fn from_settings(settings: &VseSettings, data: InputSpec) -> Self {
        let &VseSettings {
            embed_size: embedding,
            word_dim: word,
            bidirectional,
            pooling,
            similarity,
            normalize_images,
        } = settings;
        let absolute = similarity.takes_absolute_values();
        Self {
            data,
            bidirectional,
            pooling,
            absolute,
            similarity,
            normalize_images,
            ..Self::new(data.image, data.words, word, embedding)
        }
    }

    fn input_spec(&self) -> &InputSpec {
        &self.data
    }

    fn input_spec_mut(&mut self) -> &mut InputSpec {
        &mut self.data
    }

    fn parameter_specs(&self) -> Result<Vec<ParameterSpec>> {
        self.parameter_specs()
    }

    fn build(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
        Ok(Box::new(Vse::new(self.clone(), parameters)))
    }

    fn read_published(
        settings: &PublishedVseSettings,
        checkpoint: &[u8],
        words: usize,
    ) -> Result<PublishedCheckpoint<Self>> {
        read_vse_checkpoint(settings, checkpoint, words)
    }
}

// Published checkpoints of VSE++, HAL and projects with the same layout.
//
// Such a checkpoint holds one dictionary of parameters for images and one for captions; in a safetensors file their
// names begin with `img_enc.` and `txt_enc.`. Models trained on raw images also contain the whole CNN. It is ignored,
// because CNN features come from a table here.

/// Layout of the checkpoints.
const LAYOUT: CheckpointLayout = CheckpointLayout {
    wanted: "expected a model of VSE++ or HAL: a linear layer for images, word vectors and a GRU for captions",
    renamed: &[],
    unused: &[],
};

/// Reads a published checkpoint of a model with a vocabulary of `words` words.
fn read_vse_checkpoint(
    settings: &PublishedVseSettings,
    bytes: &[u8],
    words: usize,
) -> Result<PublishedCheckpoint<VseConfig>> {
    read_checkpoint(bytes, words, &LAYOUT, |shapes| published_config(shapes, words, settings))
}

/// Derives the description of the model.
fn published_config(shapes: &CheckpointShapes<'_>, words: usize, settings: &PublishedVseSettings) -> VseConfig {
    // If embeddings are absolute values, the published code uses the norm of the order violations.
    let similarity = if settings.absolute {
        EmbeddingSimilarity::Order { form: OrderPenalty::Norm }
    } else {
        EmbeddingSimilarity::Cosine
    };
    let config = VseConfig::new(shapes.image_width(), words, shapes.word_width(), shapes.joint_width());
    VseConfig { absolute: settings.absolute, similarity, ..config }
}
