//! VSE++ model: images through a linear layer, captions through word vectors and a GRU, both L2-normalised.

use std::collections::BTreeMap;
use std::ops::Range;

use az::SaturatingAs;
use tch::Tensor;

use super::config::VseConfig;
use crate::encoder::{MatmulPrecision, captions, images};
use crate::family::encoded_items::EncodedItems;
use crate::family::image_rows::ImageRows;
use crate::family::model::{EncodedBatch, GlobalLossContext, LocalBatch, Model, ScoreGradients, ScoredBatch};
use crate::family::parameters::Parameters;
use crate::similarity::{EmbeddingSimilarity, SimilarityScores};
use pairloom_base::error::{Error, Result};
use pairloom_spec::input_spec::InputSpec;

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
            let (vectors, _) = images::forward(features, self.image_layer(), true, absolute, self.precision);
            Ok(EncodedItems::from_vectors(vectors))
        })
    }

    fn encode_captions(&self, captions: &[&[i32]]) -> Result<EncodedItems> {
        let options = self.config.caption_options();
        let (vectors, _) =
            tch::no_grad(|| captions::forward(captions, self.caption_parameters(), options, self.precision));
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
            let images = images::forward(features, self.image_layer(), normalize_images, absolute, precision);
            (images, captions::forward(batch.captions, self.caption_parameters(), options, precision))
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
