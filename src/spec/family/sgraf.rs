//! Settings of SGR and SAF in pipeline files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchNormStatistics, Capabilities, FamilySettings, WORD_VECTORS};
use crate::input_spec::ImageInput;
use crate::setting_problems::{check_dropout, check_layers, check_widths};
use pairloom_stage::Problem;

/// Settings of SGR and SAF. The defaults are those of the published training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Sgraf")]
pub struct SgrafSettings {
    /// Module that turns alignments into a score.
    pub module: AlignmentModule,
    /// Width of the joint space: regions, words, and the states of the GRU.
    pub embed_size: usize,
    /// Width of the word vectors.
    pub word_dim: usize,
    /// True for a GRU in both directions, whose states are averaged word by word.
    pub bidirectional: bool,
    /// Width of an alignment.
    pub similarity_dim: usize,
    /// Number of reasoning steps of `sgr`.
    pub reasoning_steps: usize,
    /// Inverse temperature of the attention of words to regions.
    pub lambda_softmax: f64,
    /// Probability of dropout of word vectors and of the attention that forms the global vectors.
    pub dropout: f64,
    /// Statistics of batch normalisation in training.
    pub batch_norm: BatchNormStatistics,
}

/// Module that turns the alignments of an image and a caption into a score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlignmentModule {
    /// Similarity graph reasoning.
    #[default]
    Sgr,
    /// Similarity attention filtration.
    Saf,
}

impl Default for SgrafSettings {
    fn default() -> Self {
        Self {
            module: AlignmentModule::default(),
            embed_size: 1024,
            word_dim: 300,
            bidirectional: true,
            similarity_dim: 256,
            reasoning_steps: 3,
            lambda_softmax: 9.0,
            dropout: 0.4,
            batch_norm: BatchNormStatistics::default(),
        }
    }
}

impl FamilySettings for SgrafSettings {
    type Published = PublishedSgrafSettings;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            image_input: ImageInput::Regions,
            mixed_precision: true,
            word_attention: true,
            fixed_places: true,
            single_rank_reason: self.batch_norm.single_rank_reason(),
            word_vectors_parameter: Some(WORD_VECTORS),
            ..Capabilities::default()
        }
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = check_widths(&[
            ("embed_size", self.embed_size),
            ("word_dim", self.word_dim),
            ("similarity_dim", self.similarity_dim),
        ]);
        problems.extend(check_layers("reasoning_steps", self.reasoning_steps, 1));
        if !(self.lambda_softmax.is_finite() && self.lambda_softmax > 0.0) {
            let message = format!("got {}, expected more than 0", self.lambda_softmax);
            problems.push(Problem::new("lambda_softmax", message));
        }
        problems.extend(check_dropout(self.dropout));
        problems
    }
}

/// Settings that a published checkpoint of SGR or SAF does not contain: none. The module follows from the tensors.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PublishedSgraf")]
pub struct PublishedSgrafSettings {}
