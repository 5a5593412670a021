//! Published checkpoints of VSRN.

use super::settings::{PublishedVsrnSettings, VsrnSettings};
use crate::family::differentiable::AutogradConfig;
use crate::family::published::{CheckpointLayout, CheckpointShapes, PUBLISHED_REGIONS};
use pairloom_spec::input_spec::InputSpec;

/// Layout of the checkpoints. They have no caption generator.
pub(super) const LAYOUT: CheckpointLayout<'static> = CheckpointLayout {
    wanted: "wanted a model of VSRN: a linear layer, graph convolutions and a GRU for regions, and a GRU for captions",
    renamed: &[],
    unused: &[],
};

/// Derives the description of the model. Batch normalisation of the GRU's state is in models for Flickr30k, whose regions
/// are not normalised before the graph convolutions.
pub(super) fn config(
    settings: &PublishedVsrnSettings,
    shapes: &CheckpointShapes<'_>,
    words: usize,
) -> AutogradConfig<VsrnSettings> {
    let is_flickr = shapes.has_prefix("img_enc.bn.");
    let settings = VsrnSettings {
        embed_size: shapes.joint_width(),
        word_dim: shapes.word_width(),
        reasoning_layers: shapes.largest_number("img_enc.Rs_GCN_").unwrap_or(0),
        normalization: settings.normalization,
        normalize_input: !is_flickr,
        output_batch_norm: is_flickr,
        caption_weight: 0.0,
        ..VsrnSettings::default()
    };
    let data = InputSpec::for_regions(PUBLISHED_REGIONS, shapes.image_width(), words);
    AutogradConfig { data, settings }
}
