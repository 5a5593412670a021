//! Implementation of [`Family`] for SCAN, and its forward computation.

use tch::Tensor;

use super::config::ScanConfig;
use super::published::{self, PublishedScanSettings};
use super::settings::ScanSettings;
use crate::error::Result;
use crate::model::family::autograd::{AutogradModel, Differentiable};
use crate::model::family::caption_gru::WORD_VECTORS;
use crate::model::family::contract::{Capabilities, Family, PublishedCheckpoint};
use crate::model::family::encoded_items::EncodedItems;
use crate::model::family::graph::{Graph, l2_normalize};
use crate::model::family::input_spec::{ImageInput, InputSpec};
use crate::model::family::model::{LocalBatch, Model};
use crate::model::family::parameters::{ParameterSpec, Parameters, tensor_width};
use crate::model::family::region_rows::region_sets;
use crate::model::setting_problems::SettingProblems;

/// Prefix of the parameters of the linear layer of regions.
const REGION_LAYER: &str = "img_enc.fc";

impl Family for ScanConfig {
    type Settings = ScanSettings;
    type Published = PublishedScanSettings;

    fn capabilities(_: &ScanSettings) -> Capabilities {
        Capabilities {
            image_input: ImageInput::Regions,
            mixed_precision: true,
            word_vectors_parameter: Some(WORD_VECTORS),
            ..Capabilities::default()
        }
    }

    fn problems(settings: &ScanSettings) -> SettingProblems {
        settings.problems()
    }

    fn from_settings(settings: &ScanSettings, data: InputSpec) -> Self {
        Self { data, settings: settings.clone() }
    }

    fn input_spec(&self) -> &InputSpec {
        &self.data
    }

    fn input_spec_mut(&mut self) -> &mut InputSpec {
        &mut self.data
    }

    /// The linear layer of regions (Xavier, zero bias), then the word vectors and the GRU of captions.
    fn parameter_specs(&self) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(self.data.image)?, tensor_width(self.settings.embed_size)?);
        let mut all = ParameterSpec::linear(REGION_LAYER, joint, image).to_vec();
        all.extend(self.caption_gru().parameter_specs(&self.data)?);
        Ok(all)
    }

    fn build(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
        Ok(Box::new(AutogradModel::new(self.clone(), parameters)))
    }

    fn read_published(
        settings: &PublishedScanSettings,
        checkpoint: &[u8],
        words: usize,
    ) -> Result<PublishedCheckpoint<Self>> {
        published::read(settings, checkpoint, words)
    }
}

impl Differentiable for ScanConfig {
    fn values_per_word(&self, images: &EncodedItems) -> i64 {
        images.padded_rows()
    }

    fn forward_images(&self, graph: &Graph<'_>, features: &Tensor, _: Option<&LocalBatch<'_>>) -> Result<EncodedItems> {
        let regions = region_sets(features, self.data.image)?;
        let vectors = l2_normalize(&graph.linear(REGION_LAYER, &regions.vectors)?, -1);
        Ok(regions.with_vectors(vectors))
    }

    fn forward_captions(
        &self,
        graph: &Graph<'_>,
        captions: &[&[i32]],
        _: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let states = graph.word_states(&self.caption_gru(), captions, None)?;
        let vectors = l2_normalize(&states.vectors, -1);
        Ok(states.with_vectors(vectors))
    }

    fn forward_scores(&self, graph: &Graph<'_>, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor> {
        Ok(self.settings.scores(graph, images, captions))
    }
}
