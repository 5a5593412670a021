//! Published checkpoints of CVSE.

use super::settings::{CvseSettings, PublishedCvseSettings};
use crate::family::concept_graph::{CONCEPT_ADJACENCY, CONCEPT_VECTORS};
use crate::family::differentiable::AutogradConfig;
use crate::family::published::{CheckpointLayout, CheckpointShapes, PUBLISHED_REGIONS};
use pairloom_spec::input_spec::InputSpec;

/// Layout of the checkpoints. Each layer of an attention is stored twice; some layers are not used.
pub(super) const LAYOUT: CheckpointLayout<'static> = CheckpointLayout {
    wanted: "wanted a model of CVSE with its concepts: `concepts.vectors` and `concepts.of_words` come from the files \
             beside the checkpoint",
    renamed: &[],
    unused: &[
        "V_att.fc",
        "V_att.embedding_2_2.",
        "T_att.fc",
        "V_consensus_att.fc",
        "T_consensus_att.fc",
        "C_GCN.adj_O_",
        "C_GCN.joint_att_emb.",
        "fusing.",
    ],
};

/// Derives the description of the model.
pub(super) fn config(
    published: &PublishedCvseSettings,
    shapes: &CheckpointShapes<'_>,
    words: usize,
) -> AutogradConfig<CvseSettings> {
    let &PublishedCvseSettings { fusion_weight, label_weight, concept_labels, consensus_score_weight } = published;
    let settings = CvseSettings {
        embed_size: shapes.joint_width(),
        word_dim: shapes.word_width(),
        bidirectional: shapes.is_bidirectional(),
        fusion_weight,
        label_weight,
        concept_labels,
        consensus_score_weight,
        ..CvseSettings::default()
    };
    let places = shapes.batch_norm_width("V_att.embedding_1.1").unwrap_or(PUBLISHED_REGIONS);
    let concepts = [CONCEPT_ADJACENCY, CONCEPT_VECTORS].iter().find_map(|name| shapes.size(name, 0)).or(Some(1));
    let data = InputSpec { concepts, ..InputSpec::for_regions(places, shapes.image_width(), words) };
    AutogradConfig { data, settings }
}
