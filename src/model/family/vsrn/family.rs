//! Implementation of [`Family`] for VSRN, and its forward computation.

use tch::Tensor;

use super::config::VsrnConfig;
use super::published::{self, PublishedVsrnSettings};
use super::region_reasoning;
use super::settings::VsrnSettings;
use crate::error::{Error, Result};
use crate::model::family::autograd::{AutogradModel, AuxiliaryLossTensors, Differentiable};
use crate::model::family::batch_norm::BatchNormAxes;
use crate::model::family::caption_gru::WORD_VECTORS;
use crate::model::family::contract::{Capabilities, Family, PublishedCheckpoint};
use crate::model::family::encoded_items::EncodedItems;
use crate::model::family::graph::{Graph, l2_normalize};
use crate::model::family::input_spec::{ImageInput, InputSpec};
use crate::model::family::model::{LocalBatch, Model};
use crate::model::family::parameters::{ParameterSpec, Parameters, tensor_width};
use crate::model::family::region_rows::region_sets;
use crate::model::setting_problems::SettingProblems;
use crate::model::similarity::EmbeddingSimilarity;

/// Prefixes of the parameters of the image side.
const REGION_LAYER: &str = "img_enc.fc";
const REGION_GRU: &str = "img_enc.img_rnn";
const OUTPUT_BATCH_NORM: &str = "img_enc.bn";

/// Name of the auxiliary loss.
const CAPTION_LOSS: &[&str] = &["caption"];

impl Family for VsrnConfig {
    type Settings = VsrnSettings;
    type Published = PublishedVsrnSettings;

    fn capabilities(settings: &VsrnSettings) -> Capabilities {
        Capabilities {
            image_input: ImageInput::Regions,
            similarity: Some(EmbeddingSimilarity::Cosine),
            mixed_precision: true,
            single_rank_reason: settings.batch_norm.single_rank_reason().filter(|_| settings.has_batch_norm()),
            word_vectors_parameter: Some(WORD_VECTORS),
            auxiliary_losses: if settings.has_caption_branch() { CAPTION_LOSS.to_vec() } else { Vec::new() },
            ..Capabilities::default()
        }
    }

    fn problems(settings: &VsrnSettings) -> SettingProblems {
        settings.problems()
    }

    fn from_settings(settings: &VsrnSettings, data: InputSpec) -> Self {
        Self { data, settings: settings.clone() }
    }

    fn input_spec(&self) -> &InputSpec {
        &self.data
    }

    fn input_spec_mut(&mut self) -> &mut InputSpec {
        &mut self.data
    }

    /// The linear layer of regions (Xavier, zero bias), the graph convolutions and the GRU of regions; word vectors and
    /// GRU of captions; the caption generator.
    fn parameter_specs(&self) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(self.data.image)?, tensor_width(self.settings.embed_size)?);
        let mut all = ParameterSpec::linear(REGION_LAYER, joint, image).to_vec();
        let layers = 0..self.settings.reasoning_layers;
        all.extend(layers.flat_map(|layer| region_reasoning::parameter_specs(layer, joint)));
        all.extend(ParameterSpec::gru(REGION_GRU, "", joint, joint));
        if self.settings.output_batch_norm {
            all.extend(ParameterSpec::batch_norm(OUTPUT_BATCH_NORM, joint));
        }
        all.extend(self.caption_gru().parameter_specs(&self.data)?);
        if self.settings.has_caption_branch() {
            all.extend(self.settings.caption_specs(self.data.words)?);
        }
        Ok(all)
    }

    fn build(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
        Ok(Box::new(AutogradModel::new(self.clone(), parameters)))
    }

    fn read_published(
        settings: &PublishedVsrnSettings,
        checkpoint: &[u8],
        words: usize,
    ) -> Result<PublishedCheckpoint<Self>> {
        published::read(settings, checkpoint, words)
    }
}

impl Differentiable for VsrnConfig {
    fn embedding_similarity(&self) -> Option<EmbeddingSimilarity> {
        Some(EmbeddingSimilarity::Cosine)
    }

    fn forward_images(
        &self,
        graph: &Graph<'_>,
        features: &Tensor,
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let regions = region_sets(features, self.data.image)?;
        let regions = regions.with_vectors(graph.linear(REGION_LAYER, &regions.vectors)?);
        let regions = self.settings.reason(graph, regions)?;
        let padded = regions.padded();
        let states = graph.sequence_states(REGION_GRU, "", &padded.vectors, None)?;
        let mut vectors = padded.last_of_each(&states);
        if batch.is_some() && self.settings.has_caption_branch() {
            graph.keep_for_losses(regions);
        }
        if self.settings.output_batch_norm {
            let shape = [1, vectors.size()[1]];
            let axes = BatchNormAxes { over: &[0], shape: &shape, present: None };
            vectors = graph.batch_norm(OUTPUT_BATCH_NORM, &vectors, axes, self.settings.batch_norm)?;
        }
        Ok(EncodedItems::from_vectors(l2_normalize(&vectors, -1)))
    }

    fn forward_captions(
        &self,
        graph: &Graph<'_>,
        captions: &[&[i32]],
        _: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let states = graph.word_states(&self.caption_gru(), captions, None)?;
        let ends = captions.iter().scan(-1, |end, words| {
            *end += i64::try_from(words.len()).unwrap_or(0);
            Some(*end)
        });
        let ends = Tensor::from_slice(&ends.collect::<Vec<i64>>()).to_device(states.vectors.device());
        Ok(EncodedItems::from_vectors(l2_normalize(&states.vectors.index_select(0, &ends), -1)))
    }

    fn forward_scores(&self, graph: &Graph<'_>, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor> {
        Ok(graph.matmul_transposed(&images.vectors, &captions.vectors))
    }

    fn local_losses(
        &self,
        graph: &Graph<'_>,
        batch: &LocalBatch<'_>,
        _: &EncodedItems,
        _: &EncodedItems,
    ) -> Result<AuxiliaryLossTensors> {
        let mut losses = AuxiliaryLossTensors::new();
        if self.settings.has_caption_branch() {
            let regions = graph.kept_for_losses().ok_or_else(|| Error::internal("the regions were not kept"))?;
            losses.push((CAPTION_LOSS[0], self.settings.caption_loss(graph, &regions, batch)?));
        }
        Ok(losses)
    }

    fn local_loss_names(&self) -> &'static [&'static str] {
        if self.settings.has_caption_branch() { CAPTION_LOSS } else { &[] }
    }
}
