//! Implementation of [`Family`] for VSE∞, and its forward computation.

use tch::Tensor;

use super::config::VseInfinityConfig;
use super::pooling_operator::{self, pool};
use super::published::{self, PublishedVseInfinitySettings};
use super::settings::VseInfinitySettings;
use super::size_augmentation::{change_words, drop_regions};
use crate::error::Result;
use crate::model::family::autograd::{AutogradModel, Differentiable};
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
const MLP_LAYERS: [&str; 2] = ["img_enc.mlp.layers.0", "img_enc.mlp.layers.1"];
const MLP_BATCH_NORM: &str = "img_enc.mlp.bns.0";
const REGION_POOLING: &str = "img_enc.gpool";

/// Prefix of the parameters of the pooling operator of words.
const WORD_POOLING: &str = "txt_enc.gpool";

impl Family for VseInfinityConfig {
    type Settings = VseInfinitySettings;
    type Published = PublishedVseInfinitySettings;

    fn capabilities(settings: &VseInfinitySettings) -> Capabilities {
        Capabilities {
            image_input: ImageInput::Regions,
            similarity: Some(EmbeddingSimilarity::Cosine),
            mixed_precision: true,
            single_rank_reason: settings.batch_norm.single_rank_reason().filter(|_| settings.region_mlp),
            word_vectors_parameter: Some(WORD_VECTORS),
            ..Capabilities::default()
        }
    }

    fn problems(settings: &VseInfinitySettings) -> SettingProblems {
        settings.problems()
    }

    fn from_settings(settings: &VseInfinitySettings, data: InputSpec) -> Self {
        Self { data, settings: settings.clone() }
    }

    fn input_spec(&self) -> &InputSpec {
        &self.data
    }

    fn input_spec_mut(&mut self) -> &mut InputSpec {
        &mut self.data
    }

    /// The linear layer of regions, their perceptron and pooling operator; then word vectors, GRU and pooling operator
    /// of captions. Linear layers are Xavier with zero bias.
    fn parameter_specs(&self) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(self.data.image)?, tensor_width(self.settings.embed_size)?);
        let pooling = tensor_width(self.settings.pooling_dim)?;
        let mut all = ParameterSpec::linear(REGION_LAYER, joint, image).to_vec();
        if self.settings.region_mlp {
            let hidden = joint / 2;
            all.extend(ParameterSpec::linear(MLP_LAYERS[0], hidden, image));
            all.extend(ParameterSpec::batch_norm(MLP_BATCH_NORM, hidden));
            all.extend(ParameterSpec::linear(MLP_LAYERS[1], joint, hidden));
        }
        all.extend(pooling_operator::parameter_specs(REGION_POOLING, pooling));
        all.extend(self.caption_gru().parameter_specs(&self.data)?);
        all.extend(pooling_operator::parameter_specs(WORD_POOLING, pooling));
        Ok(all)
    }

    fn build(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
        Ok(Box::new(AutogradModel::new(self.clone(), parameters)))
    }

    fn read_published(
        settings: &PublishedVseInfinitySettings,
        checkpoint: &[u8],
        words: usize,
    ) -> Result<PublishedCheckpoint<Self>> {
        published::read(settings, checkpoint, words)
    }
}

impl VseInfinityConfig {
    /// Perceptron beside the linear layer of regions. Batch statistics are those of all regions of the batch.
    fn mlp(&self, graph: &Graph<'_>, regions: &Tensor) -> Result<Tensor> {
        let hidden = graph.linear(MLP_LAYERS[0], regions)?;
        let shape = [1, hidden.size()[1]];
        let axes = BatchNormAxes { over: &[0], shape: &shape, present: None };
        let hidden = graph.batch_norm(MLP_BATCH_NORM, &hidden, axes, self.settings.batch_norm)?;
        graph.linear(MLP_LAYERS[1], &hidden.relu())
    }
}

impl Differentiable for VseInfinityConfig {
    fn embedding_similarity(&self) -> Option<EmbeddingSimilarity> {
        Some(EmbeddingSimilarity::Cosine)
    }

    fn forward_images(
        &self,
        graph: &Graph<'_>,
        features: &Tensor,
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let mut regions = region_sets(features, self.data.image)?;
        let probability = self.settings.size_augmentation;
        if let Some(batch) = batch.filter(|_| probability > 0.0) {
            regions = drop_regions(&regions, batch, probability);
        }
        let linear = graph.linear(REGION_LAYER, &regions.vectors)?;
        let vectors = if self.settings.region_mlp { linear + self.mlp(graph, &regions.vectors)? } else { linear };
        let pooled = pool(graph, REGION_POOLING, &regions.with_vectors(vectors))?;
        Ok(EncodedItems::from_vectors(l2_normalize(&pooled, -1)))
    }

    fn forward_captions(
        &self,
        graph: &Graph<'_>,
        captions: &[&[i32]],
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let probability = self.settings.size_augmentation;
        let changed = batch.filter(|_| probability > 0.0);
        let changed = changed.map(|batch| change_words(captions, batch, self.data.words, probability));
        let changed: Option<Vec<&[i32]>> = changed.as_ref().map(|all| all.iter().map(Vec::as_slice).collect());
        let states = graph.word_states(&self.caption_gru(), changed.as_deref().unwrap_or(captions), None)?;
        Ok(EncodedItems::from_vectors(l2_normalize(&pool(graph, WORD_POOLING, &states)?, -1)))
    }

    fn forward_scores(&self, graph: &Graph<'_>, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor> {
        Ok(graph.matmul_transposed(&images.vectors, &captions.vectors))
    }
}
