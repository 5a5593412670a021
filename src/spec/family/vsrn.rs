//! Settings of VSRN in pipeline files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchNormStatistics, Capabilities, FamilySettings, WORD_VECTORS};
use crate::input_spec::ImageInput;
use crate::setting_problems::{check_dropout, check_layers, check_widths};
use crate::similarity::EmbeddingSimilarity;
use pairloom_stage::Problem;

/// Name of the auxiliary loss.
pub const CAPTION_LOSS: &[&str] = &["caption"];

/// Settings of VSRN. The defaults are the paper's, with the normalisation that it describes. Published code has two
/// forms: for COCO `normalization = "regions"`; for Flickr30k also `normalize_input = false` and
/// `output_batch_norm = true`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Vsrn")]
pub struct VsrnSettings {
    /// Width of the joint space: regions, images, and the states of both GRUs.
    pub embed_size: usize,
    /// Width of the word vectors.
    pub word_dim: usize,
    /// Number of graph convolutions.
    pub reasoning_layers: usize,
    /// Dimension over which regions are L2-normalised.
    pub normalization: RegionNormalization,
    /// True if regions are normalised before the graph convolutions too.
    pub normalize_input: bool,
    /// True for batch normalisation of the GRU's last state.
    pub output_batch_norm: bool,
    /// Statistics of batch normalisation in training.
    pub batch_norm: BatchNormStatistics,
    /// Weight of the auxiliary loss `caption`: the negative log-likelihood of the caption, generated from the regions. 0
    /// for none.
    pub caption_weight: f64,
    /// Width of the states of the caption generator.
    pub caption_dim: usize,
    /// Width of the word vectors of the caption generator.
    pub caption_word_dim: usize,
    /// Probability of dropout in the caption generator.
    pub dropout: f64,
}

/// Dimension over which regions are L2-normalised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegionNormalization {
    /// The features of each region, as the paper says.
    #[default]
    Features,
    /// The regions of an image, for each feature, as in the published code.
    Regions,
}

impl Default for VsrnSettings {
    fn default() -> Self {
        Self {
            embed_size: 2048,
            word_dim: 300,
            reasoning_layers: 4,
            normalization: RegionNormalization::default(),
            normalize_input: true,
            output_batch_norm: false,
            batch_norm: BatchNormStatistics::default(),
            caption_weight: 1.0,
            caption_dim: 512,
            caption_word_dim: 300,
            dropout: 0.2,
        }
    }
}

impl VsrnSettings {
    /// True if the model generates captions in training.
    #[must_use]
    pub fn has_caption_branch(&self) -> bool {
        self.caption_weight > 0.0
    }

    /// True if the model has batch normalisation.
    #[must_use]
    pub fn has_batch_norm(&self) -> bool {
        self.reasoning_layers > 0 || self.output_batch_norm
    }
}

impl FamilySettings for VsrnSettings {
    type Published = PublishedVsrnSettings;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            image_input: ImageInput::Regions,
            similarity: Some(EmbeddingSimilarity::Cosine),
            mixed_precision: true,
            single_rank_reason: self.batch_norm.single_rank_reason().filter(|_| self.has_batch_norm()),
            word_vectors_parameter: Some(WORD_VECTORS),
            local_losses: if self.has_caption_branch() { CAPTION_LOSS } else { &[] },
            ..Capabilities::default()
        }
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = check_widths(&[
            ("embed_size", self.embed_size),
            ("word_dim", self.word_dim),
            ("caption_dim", self.caption_dim),
            ("caption_word_dim", self.caption_word_dim),
        ]);
        problems.extend(check_layers("reasoning_layers", self.reasoning_layers, 0));
        if !(self.caption_weight.is_finite() && self.caption_weight >= 0.0) {
            problems.push(Problem::new("caption_weight", format!("got {}, expected 0 or more", self.caption_weight)));
        }
        problems.extend(check_dropout(self.dropout));
        problems
    }
}

/// Settings that a published checkpoint of VSRN does not contain. The defaults are those of its code.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "PublishedVsrn")]
pub struct PublishedVsrnSettings {
    /// Dimension over which regions are L2-normalised.
    pub normalization: RegionNormalization,
}

impl Default for PublishedVsrnSettings {
    fn default() -> Self {
        Self { normalization: RegionNormalization::Regions }
    }
}
