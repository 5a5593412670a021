//! Published checkpoints of SCAN.

use super::settings::{PublishedScanSettings, ScanSettings};
use crate::family::differentiable::AutogradConfig;
use crate::family::published::{CheckpointLayout, CheckpointShapes, PUBLISHED_REGIONS};
use pairloom_spec::input_spec::InputSpec;

/// Layout of the checkpoints.
pub(super) const LAYOUT: CheckpointLayout<'static> = CheckpointLayout {
    wanted: "wanted a model of SCAN: a linear layer for regions, word vectors and a GRU for captions",
    renamed: &[],
    unused: &[],
};

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

    use super::super::settings::{AttentionActivation, RelevanceAggregation};
    use super::*;
    use crate::family::contract::Family;
    use crate::family::registry::ModelConfig;

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
            let published = AutogradConfig::<ScanSettings>::read_published(&settings, &bytes, 7).expect("a model");
            assert_eq!(published.config, config);
            let error = AutogradConfig::<ScanSettings>::read_published(&settings, &bytes, 8)
                .expect_err("other words")
                .to_string();
            assert!(error.contains("`txt_enc.embed.weight` has shape [7, 3], wanted [8, 3]"), "{error}");
        }
    }
}
