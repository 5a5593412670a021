//! The joint embedding: images through a linear layer, captions through words and a GRU, both ending on the unit sphere.

use std::ops::Range;

use az::SaturatingAs;
use tch::Tensor;

use super::config::Config;
use crate::error::{Error, Result};
use crate::model::encoder::{Precision, captions, images};
use crate::model::family::data::Data;
use crate::model::family::encoded::Encoded;
use crate::model::family::model::{Block, Forward, Model, Pulled, Share};
use crate::model::family::parameters::Parameters;
use crate::model::family::rows::Rows;
use crate::model::similarity::Similarity;

/// Where the parameters of the GRU start, after those of the linear layer.
const CAPTIONS: usize = 2;

/// A joint embedding of images and captions. Names of parameters are those of the published checkpoints of VSE++.
#[derive(Debug)]
pub struct Vse {
    config: Config,
    parameters: Parameters,
    precision: Precision,
}

impl Vse {
    /// The model with these parameters, those that [`Config::parameters`] describes.
    #[must_use]
    pub fn new(config: Config, parameters: Parameters) -> Self {
        Self { config, parameters, precision: Precision::default() }
    }

    fn linear(&self) -> [&Tensor; 2] {
        [&self.parameters.tensors()[0], &self.parameters.tensors()[1]]
    }

    /// The parameters of the captions' half.
    fn of_captions(&self) -> &[Tensor] {
        &self.parameters.own()[CAPTIONS..]
    }

    /// An empty share.
    fn nothing(&self) -> Forward<'_> {
        let none = || {
            let width = self.parameters.tensors()[1].size()[0];
            Encoded::one_each(Tensor::zeros([0, width], (self.parameters.kind(), self.parameters.device())))
        };
        let backward = |_: &Tensor, _: &Tensor| {
            Ok(self.parameters.trained().iter().map(|(_, parameter)| parameter.zeros_like()).collect())
        };
        Forward { images: none(), captions: none(), losses: Vec::new(), backward: Box::new(backward) }
    }
}

impl Model for Vse {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn data(&self) -> &Data {
        &self.config.data
    }

    fn similarity(&self) -> Option<Similarity> {
        Some(self.config.similarity)
    }

    fn set_precision(&mut self, precision: Precision) -> Result<()> {
        self.precision = precision;
        Ok(())
    }

    fn encode_images(&self, images: &Rows<'_>) -> Result<Encoded> {
        tch::no_grad(|| {
            let features = self.parameters.features(images.tensor().shallow_clone(), &self.config.data)?;
            let absolute = self.config.absolute;
            let (vectors, _) = images::forward(features, self.linear(), true, absolute, self.precision);
            Ok(Encoded::one_each(vectors))
        })
    }

    fn encode_captions(&self, captions: &[&[i32]]) -> Result<Encoded> {
        let options = self.config.captions();
        let (vectors, _) = tch::no_grad(|| captions::forward(captions, self.of_captions(), options, self.precision));
        Ok(Encoded::one_each(vectors))
    }

    fn scores(&self, images: &Encoded, captions: &Encoded) -> Result<Tensor> {
        Ok(self.config.similarity.scores(&images.vectors, &captions.vectors))
    }

    fn forward<'m>(&'m self, share: &'m Share<'m>) -> Result<Forward<'m>> {
        if share.images.len() != share.captions.len() {
            let (images, captions) = (share.images.len(), share.captions.len());
            return Err(Error::internal(format!("{captions} captions for {images} images")));
        }
        if share.captions.is_empty() {
            return Ok(self.nothing());
        }
        let rows = share.images.tensor();
        let pictures = self.parameters.learn(rows, &self.config.data)?;
        let Config { normalize_images, absolute, .. } = self.config;
        let (precision, options) = (self.precision, self.config.captions());
        let ((images, of_images), (captions, of_captions)) = tch::no_grad(|| {
            let features =
                pictures.as_ref().map_or_else(|| rows.shallow_clone(), |learning| learning.features.detach());
            let images = images::forward(features, self.linear(), normalize_images, absolute, precision);
            (images, captions::forward(share.captions, self.of_captions(), options, precision))
        });
        let backward = move |d_images: &Tensor, d_captions: &Tensor| {
            let (linear, rest) = tch::no_grad(|| {
                let linear = of_images.backward(d_images, self.linear()[0], pictures.is_some(), precision);
                (linear, of_captions.backward(d_captions, self.of_captions(), options, precision))
            });
            let mut gradients = vec![linear.weight, linear.bias];
            gradients.extend(rest.into_iter().flatten());
            if let (Some(learning), Some(d)) = (pictures, linear.features) {
                gradients.extend(learning.backward(&d));
            }
            Ok(gradients)
        };
        let (images, captions) = (Encoded::one_each(images), Encoded::one_each(captions));
        Ok(Forward { images, captions, losses: Vec::new(), backward: Box::new(backward) })
    }

    fn block<'m>(&'m self, images: &'m Encoded, captions: &'m Encoded) -> Result<Block<'m>> {
        let similarity = self.config.similarity;
        let (images, captions) = (&images.vectors, &captions.vectors);
        let scores = similarity.scores(images, captions);
        let backward = move |d_scores: &Tensor, own: Range<usize>| {
            let own = [own.start, own.end].map(SaturatingAs::saturating_as::<i64>);
            let (images, captions) = similarity.backward(images, captions, d_scores, &(own[0]..own[1]));
            Ok(Pulled { images, captions, parameters: None })
        };
        Ok(Block { scores, losses: Vec::new(), backward: Box::new(backward) })
    }
}
