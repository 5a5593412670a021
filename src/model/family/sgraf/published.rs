//! Published checkpoints of SGR and SAF.

use super::settings::{AlignmentModule, PublishedSgrafSettings, SgrafSettings};
use crate::family::differentiable::AutogradConfig;
use crate::family::published::{CheckpointLayout, CheckpointShapes, PUBLISHED_REGIONS};
use pairloom_spec::input_spec::InputSpec;

/// Layout of the checkpoints.
pub(super) const LAYOUT: CheckpointLayout<'static> = CheckpointLayout {
    wanted: "wanted a model of SGR or SAF: `img_enc`, `txt_enc` and `sim_enc`",
    renamed: &[("txt_enc.cap_rnn.", "txt_enc.rnn.")],
    unused: &[],
};

/// Derives the description of the model.
pub(super) fn config(
    _: &PublishedSgrafSettings,
    shapes: &CheckpointShapes<'_>,
    words: usize,
) -> AutogradConfig<SgrafSettings> {
    let is_saf = shapes.has_prefix("sim_enc.SAF_module.");
    let last_step = shapes.largest_number("sim_enc.SGR_module.");
    let widths = [("sim_enc.sim_eval_w.weight", 1), ("sim_enc.sim_tranloc_w.weight", 0)];
    let similarity_dim = widths.iter().find_map(|&(name, dimension)| shapes.size(name, dimension));
    let defaults = SgrafSettings::default();
    let settings = SgrafSettings {
        module: if is_saf { AlignmentModule::Saf } else { AlignmentModule::Sgr },
        embed_size: shapes.joint_width(),
        word_dim: shapes.word_width(),
        bidirectional: shapes.is_bidirectional(),
        similarity_dim: similarity_dim.unwrap_or(1),
        reasoning_steps: if is_saf { defaults.reasoning_steps } else { last_step.map_or(1, |last| last + 1) },
        ..defaults
    };
    let regions = shapes.batch_norm_width("sim_enc.v_global_w.embedding_local.1").unwrap_or(PUBLISHED_REGIONS);
    let data = InputSpec::for_regions(regions, shapes.image_width(), words);
    AutogradConfig { data, settings }
}
