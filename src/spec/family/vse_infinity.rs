//! Settings of VSE∞ in pipeline files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchNormStatistics, Capabilities, FamilySettings, WORD_VECTORS};
use crate::input_spec::ImageInput;
use crate::setting_problems::check_widths;
use crate::similarity::EmbeddingSimilarity;
use pairloom_stage::Problem;

/// Settings of VSE∞. The defaults are those of its published training on regions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "VseInfinity")]
pub struct VseInfinitySettings {
    /// Width of the joint space and of the states of the GRU.
    pub embed_size: usize,
    /// Width of the word vectors.
    pub word_dim: usize,
    /// True for a GRU in both directions, whose states are averaged word by word.
    pub bidirectional: bool,
    /// True for a perceptron with one hidden layer and batch normalisation beside the linear layer of regions, as for
    /// regions of a detector. False for the linear layer alone, as for grids of a fine-tuned CNN.
    pub region_mlp: bool,
    /// Width of the position codes and of the GRU of the pooling operators. Even.
    pub pooling_dim: usize,
    /// Statistics of batch normalisation in training.
    pub batch_norm: BatchNormStatistics,
    /// Probability with which a region is dropped, and a word is masked, replaced or dropped, in training.
    pub size_augmentation: f64,
}

impl Default for VseInfinitySettings {
    fn default() -> Self {
        Self {
            embed_size: 1024,
            word_dim: 300,
            bidirectional: true,
            region_mlp: true,
            pooling_dim: 32,
            batch_norm: BatchNormStatistics::default(),
            size_augmentation: 0.2,
        }
    }
}

impl FamilySettings for VseInfinitySettings {
    type Published = PublishedVseInfinitySettings;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            image_input: ImageInput::Regions,
            similarity: Some(EmbeddingSimilarity::Cosine),
            mixed_precision: true,
            single_rank_reason: self.batch_norm.single_rank_reason().filter(|_| self.region_mlp),
            word_vectors_parameter: Some(WORD_VECTORS),
            ..Capabilities::default()
        }
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = check_widths(&[("embed_size", self.embed_size), ("word_dim", self.word_dim)]);
        problems.extend(check_widths(&[("pooling_dim", self.pooling_dim)]));
        if self.pooling_dim % 2 == 1 {
            problems.push(Problem::new("pooling_dim", format!("got {}, expected an even number", self.pooling_dim)));
        }
        if self.region_mlp && self.embed_size == 1 {
            problems.push(Problem::new("embed_size", "got 1, expected at least 2 with `region_mlp`"));
        }
        if !(0.0..1.0).contains(&self.size_augmentation) {
            let message = format!("got {}, expected a probability below 1", self.size_augmentation);
            problems.push(Problem::new("size_augmentation", message));
        }
        problems
    }
}

/// Settings that a published checkpoint of VSE∞ does not contain: none.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PublishedVseInfinity")]
pub struct PublishedVseInfinitySettings {}
