//! Published checkpoints of SCAN.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::{AttentionActivation, RelevanceAggregation, ScanSettings};
use crate::model::family::attention::AttentionDirection;
use crate::model::family::differentiable::AutogradConfig;
use crate::model::family::input_spec::InputSpec;
use crate::model::family::published::{CheckpointLayout, CheckpointShapes, PUBLISHED_REGIONS};

/// Layout of the checkpoints.
pub(super) const LAYOUT: CheckpointLayout<'static> = CheckpointLayout {
    wanted: "wanted a model of SCAN: a linear layer for regions, word vectors and a GRU for captions",
    renamed: &[],
    unused: &[],
};

/// Settings that a published checkpoint of SCAN does not contain. The defaults are those of its code.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "PublishedScan")]
pub struct PublishedScanSettings {
    /// True if the GRU of captions reads in both directions (`--bi_gru`, as in all published commands). With one direction
    /// the tensors are those of VSE++.
    pub bidirectional: bool,
    /// Direction of the attention (`--cross_attn`).
    pub cross_attention: AttentionDirection,
    /// Function of the cosines of regions and words before they are normalised.
    pub activation: AttentionActivation,
    /// Inverse temperature λ₁ of the softmax (`--lambda_softmax`). If not set, 9 for `t2i` and 4 for `i2t`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lambda_softmax: Option<f64>,
    /// Aggregation of relevances (`--agg_func`).
    pub aggregation: RelevanceAggregation,
    /// Inverse temperature λ₂ of `log_sum_exp` (`--lambda_lse`). If not set, 6 for `t2i` and 5 for `i2t`; 20 for `i2t` on
    /// COCO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lambda_lse: Option<f64>,
}

impl Default for PublishedScanSettings {
    fn default() -> Self {
        Self {
            bidirectional: true,
            cross_attention: AttentionDirection::T2i,
            activation: AttentionActivation::LeakyRelu,
            lambda_softmax: None,
            aggregation: RelevanceAggregation::LogSumExp,
            lambda_lse: None,
        }
    }
}

/// Derives the description of the model.
pub(super) fn config(
    settings: &PublishedScanSettings,
    shapes: &CheckpointShapes<'_>,
    words: usize,
) -> AutogradConfig<ScanSettings> {
    let &PublishedScanSettings { bidirectional, cross_attention, activation, lambda_softmax, aggregation, lambda_lse } =
        settings;
    let settings = ScanSettings {
        embed_size: shapes.joint_width(),
        word_dim: shapes.word_width(),
        bidirectional,
        cross_attention,
        activation,
        lambda_softmax,
        aggregation,
        lambda_lse,
    };
    let data = InputSpec::for_regions(PUBLISHED_REGIONS, shapes.image_width(), words);
    AutogradConfig { data, settings }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::model::family::contract::Family;
    use crate::model::family::registry::ModelConfig;

    /// The names of the parameters are those of the published checkpoints: `golden_tests` compares scores with PyTorch.
    #[test]
    fn widths_follow_from_the_tensors() {
        for bidirectional in [false, true] {
            let settings = ScanSettings {
                embed_size: 4,
                word_dim: 3,
                bidirectional,
                activation: AttentionActivation::LeakyRelu,
                aggregation: RelevanceAggregation::LogSumExp,
                ..ScanSettings::default()
            };
            let data = InputSpec::for_regions(PUBLISHED_REGIONS, 5, 7);
            let config = AutogradConfig { data, settings };
            let model = ModelConfig::Scan(config.clone()).create(1, Device::Cpu).expect("a model");
            let bytes = model.parameters().to_bytes().expect("a file");
            let settings = PublishedScanSettings { bidirectional, ..PublishedScanSettings::default() };
            let published =
                AutogradConfig::<ScanSettings>::read_published(&settings, &bytes, 7).expect("a model");
            assert_eq!(published.config, config);
            let error = AutogradConfig::<ScanSettings>::read_published(&settings, &bytes, 8)
                .expect_err("other words")
                .to_string();
            assert!(error.contains("`txt_enc.embed.weight` has shape [7, 3], wanted [8, 3]"), "{error}");
        }
    }
}
