//! Published checkpoints of CVSE.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::{ConceptLabels, CvseSettings};
use crate::model::family::concept_graph::{CONCEPT_ADJACENCY, CONCEPT_VECTORS};
use crate::model::family::differentiable::AutogradConfig;
use crate::model::family::input_spec::InputSpec;
use crate::model::family::published::{CheckpointLayout, CheckpointShapes, PUBLISHED_REGIONS};

/// Settings that a published checkpoint of CVSE does not contain. The defaults are those of its code for COCO. That code
/// also completes the labels of a test caption by those of similar test captions, so its printed recalls differ from those
/// here.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "PublishedCvse")]
pub struct PublishedCvseSettings {
    /// Share β of the instance vector in the fused vector: 0.9 for COCO, 0.85 for Flickr30k.
    pub fusion_weight: f64,
    /// Share α of the labels in the concept weights of a caption (`--Concept_label_ratio`): 0.4 for COCO, 0.35 for
    /// Flickr30k.
    pub label_weight: f64,
    /// Concepts that a caption is labelled with.
    pub concept_labels: ConceptLabels,
    /// Weight of the consensus scores in the scores: the rest is that of the fused vectors.
    pub consensus_score_weight: f64,
}

impl Default for PublishedCvseSettings {
    fn default() -> Self {
        Self {
            fusion_weight: 0.9,
            label_weight: 0.4,
            concept_labels: ConceptLabels::default(),
            consensus_score_weight: 0.05,
        }
    }
}

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
