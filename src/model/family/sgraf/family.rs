//! Implementation of [`Family`] for SGR and SAF, and their encoders.

use tch::Tensor;

use super::config::SgrafConfig;
use super::global_attention::GlobalAttention;
use super::published::{self, PublishedSgrafSettings};
use super::settings::SgrafSettings;
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

/// Random streams of dropout. The attention of a side uses two.
const WORD_DROPOUT: u64 = 0x7367_7261_6600;
const IMAGE_DROPOUT: u64 = WORD_DROPOUT + 1;
const CAPTION_DROPOUT: u64 = WORD_DROPOUT + 3;

impl Family for SgrafConfig {
    type Settings = SgrafSettings;
    type Published = PublishedSgrafSettings;

    fn capabilities(settings: &SgrafSettings) -> Capabilities {
        Capabilities {
            image_input: ImageInput::Regions,
            mixed_precision: true,
            single_rank_reason: settings.batch_norm.single_rank_reason(),
            word_vectors_parameter: Some(WORD_VECTORS),
            ..Capabilities::default()
        }
    }

    fn problems(settings: &SgrafSettings) -> SettingProblems {
        settings.problems()
    }

    fn from_settings(settings: &SgrafSettings, data: InputSpec) -> Self {
        Self { data, settings: settings.clone() }
    }

    fn input_spec(&self) -> &InputSpec {
        &self.data
    }

    fn input_spec_mut(&mut self) -> &mut InputSpec {
        &mut self.data
    }

    /// The linear layer of regions, word vectors and GRU, the attention of both sides, and the layers of the score.
    /// Linear layers are Xavier with zero bias.
    fn parameter_specs(&self) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(self.data.image)?, tensor_width(self.settings.embed_size)?);
        let mut all = ParameterSpec::linear(REGION_LAYER, joint, image).to_vec();
        all.extend(self.caption_gru().parameter_specs(&self.data)?);
        all.extend(self.image_attention()?.parameter_specs(joint));
        all.extend(self.caption_attention().parameter_specs(joint));
        all.extend(self.settings.score_specs(joint, tensor_width(self.settings.similarity_dim)?));
        Ok(all)
    }

    fn build(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
        Ok(Box::new(AutogradModel::new(self.clone(), parameters)))
    }

    fn read_published(
        settings: &PublishedSgrafSettings,
        checkpoint: &[u8],
        words: usize,
    ) -> Result<PublishedCheckpoint<Self>> {
        published::read(settings, checkpoint, words)
    }
}

impl SgrafConfig {
    /// Attention that forms the global vectors of images.
    fn image_attention(&self) -> Result<GlobalAttention<'static>> {
        let places = tensor_width(self.data.regions.unwrap_or(1))?;
        Ok(GlobalAttention {
            name: "sim_enc.v_global_w",
            batch_norm: Some((places, self.settings.batch_norm)),
            dropout: (self.settings.dropout, IMAGE_DROPOUT),
        })
    }

    /// Attention that forms the global vectors of captions.
    fn caption_attention(&self) -> GlobalAttention<'static> {
        let dropout = (self.settings.dropout, CAPTION_DROPOUT);
        GlobalAttention { name: "sim_enc.t_global_w", batch_norm: None, dropout }
    }
}

impl Differentiable for SgrafConfig {
    /// The attended vectors and their squared differences, and the alignments of every module.
    fn values_per_word(&self, images: &EncodedItems) -> i64 {
        let width = self.settings.embed_size.saturating_add(self.settings.similarity_dim);
        i64::try_from(images.len().saturating_mul(width)).unwrap_or(i64::MAX).max(images.padded_rows())
    }

    fn forward_images(
        &self,
        graph: &Graph<'_>,
        features: &Tensor,
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let regions = region_sets(features, self.data.image)?;
        let regions = regions.with_vectors(l2_normalize(&graph.linear(REGION_LAYER, &regions.vectors)?, -1));
        let global = self.image_attention()?.forward(graph, &regions, batch)?;
        Ok(regions.with_first_vectors(&global))
    }

    fn forward_captions(
        &self,
        graph: &Graph<'_>,
        captions: &[&[i32]],
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let gru = self.caption_gru();
        let states = match batch.filter(|_| self.settings.dropout > 0.0) {
            Some(batch) => {
                let counts: Vec<i64> = captions.iter().map(|words| i64::try_from(words.len()).unwrap_or(0)).collect();
                let (width, like) = (tensor_width(gru.word)?, graph.get(WORD_VECTORS)?);
                let mask = batch.dropout_mask(WORD_DROPOUT, &counts, width, self.settings.dropout, like);
                graph.word_states(&gru, captions, Some(&mask))?
            }
            None => graph.word_states(&gru, captions, None)?,
        };
        let words = states.with_vectors(l2_normalize(&states.vectors, -1));
        let global = self.caption_attention().forward(graph, &words, batch)?;
        Ok(words.with_first_vectors(&global))
    }

    fn forward_scores(&self, graph: &Graph<'_>, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor> {
        self.settings.scores(graph, images, captions)
    }
}
