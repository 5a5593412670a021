//! Published checkpoints of VSE∞ with a GRU for captions.

use super::settings::{PublishedVseInfinitySettings, VseInfinitySettings};
use crate::family::differentiable::AutogradConfig;
use crate::family::published::{CheckpointLayout, CheckpointShapes, PUBLISHED_REGIONS};
use pairloom_spec::input_spec::InputSpec;

/// Layout of the checkpoints. A model with a CNN has its encoder of regions in a part of its own. The second batch
/// normalisation of the perceptron is stored, but not used.
pub(super) const LAYOUT: CheckpointLayout<'static> = CheckpointLayout {
    wanted: "wanted a model of VSE∞ on regions or grids, with a GRU for captions; one with BERT is not read",
    renamed: &[("img_enc.image_encoder.", "img_enc.")],
    unused: &["img_enc.mlp.bns.1."],
};

/// Derives the description of the model.
pub(super) fn config(
    _: &PublishedVseInfinitySettings,
    shapes: &CheckpointShapes<'_>,
    words: usize,
) -> AutogradConfig<VseInfinitySettings> {
    let pooling = ["img_enc.gpool.linear.weight", "txt_enc.gpool.linear.weight"];
    let pooling_dim = pooling.iter().find_map(|name| shapes.size(name, 1));
    let settings = VseInfinitySettings {
        embed_size: shapes.joint_width(),
        word_dim: shapes.word_width(),
        bidirectional: shapes.is_bidirectional(),
        region_mlp: shapes.has_prefix("img_enc.mlp."),
        pooling_dim: pooling_dim.unwrap_or(1),
        ..VseInfinitySettings::default()
    };
    let layers = ["img_enc.fc.weight", "img_enc.mlp.layers.0.weight"];
    let image_width = layers.iter().find_map(|name| shapes.size(name, 1)).unwrap_or(1);
    let data = InputSpec::for_regions(PUBLISHED_REGIONS, image_width, words);
    AutogradConfig { data, settings }
}
