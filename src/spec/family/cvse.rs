//! Settings of CVSE in pipeline files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchNormStatistics, Capabilities, FamilySettings, WORD_VECTORS};
use crate::input_spec::ImageInput;
use crate::loss::{BatchSpec, Loss, LossSettings, MaxLoss};
use crate::setting_problems::{check_dropout, check_widths};
use crate::similarity::EmbeddingSimilarity;
use pairloom_stage::Problem;

/// Settings of CVSE. The defaults are the paper's. The published training has 0.85 as `fusion_weight`, and 0.35 as
/// `label_weight` on Flickr30k; its loss is three times the one here, which changes an Adam step only by way of
/// `gradient_clip`. It trains the graph convolutions at a fifth of the learning rate, which is not a setting here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Cvse")]
pub struct CvseSettings {
    /// Width of the joint space: regions, words, concepts, and the states of the GRU. Even.
    pub embed_size: usize,
    /// Width of the word vectors, and of the concepts' vectors before the graph convolutions.
    pub word_dim: usize,
    /// True for a GRU in both directions, whose states are averaged word by word.
    pub bidirectional: bool,
    /// Probability of dropout of word vectors and of the attention that forms the instance vectors.
    pub dropout: f64,
    /// Share β of the instance vector in the fused vector. The rest is the consensus vector's.
    pub fusion_weight: f64,
    /// Concepts that a caption is labelled with.
    pub concept_labels: ConceptLabels,
    /// Share α of the labels in the concept weights of a caption. The rest is predicted.
    pub label_weight: f64,
    /// Weight w of the consensus scores in the scores after training: (1 − w) times the cosine of the fused vectors plus w
    /// times that of the consensus vectors. The published evaluation has 0.05. It also completes the labels of a test
    /// caption by those of similar test captions, which is not done here. With a weight, vectors of `embed` are twice as
    /// wide.
    #[serde(skip_serializing_if = "is_zero")]
    pub consensus_score_weight: f64,
    /// Loss on the scores of instance vectors, and on those of consensus vectors. The training's own loss is on those of
    /// fused vectors. A warm-up replaces all three, and `same_image` applies to all three.
    pub level_loss: Loss,
    /// Weight of the auxiliary loss `instance`.
    pub instance_weight: f64,
    /// Weight of the auxiliary loss `consensus`.
    pub consensus_weight: f64,
    /// Weight of the auxiliary loss `concepts`: the Kullback-Leibler divergence of the concept weights of an image from
    /// those of its caption, summed over the batch.
    pub concept_weight: f64,
    /// Statistics of batch normalisation in training.
    pub batch_norm: BatchNormStatistics,
}

/// Concepts that a caption is labelled with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConceptLabels {
    /// Concepts of its own words, in training and afterwards.
    #[default]
    Caption,
    /// Concepts of its own words in training; none afterwards.
    Training,
    /// Concepts of all captions of its image, in training and afterwards, as in the first published code and in SAM's.
    /// In retrieval this leaks: a query has words of the other captions of the image that is to be found.
    LeakyImage,
}

impl Default for CvseSettings {
    fn default() -> Self {
        Self {
            embed_size: 1024,
            word_dim: 300,
            bidirectional: true,
            dropout: 0.4,
            fusion_weight: 0.75,
            concept_labels: ConceptLabels::default(),
            label_weight: 0.4,
            consensus_score_weight: 0.0,
            level_loss: Loss::Max(MaxLoss::default()),
            instance_weight: 5.0 / 3.0,
            consensus_weight: 1.0 / 3.0,
            concept_weight: 2.0 / 3.0,
            batch_norm: BatchNormStatistics::default(),
        }
    }
}

/// Returns true for the default: leaving it out keeps the keys of older results.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
fn is_zero(weight: &f64) -> bool {
    *weight == 0.0
}

impl FamilySettings for CvseSettings {
    type Published = PublishedCvseSettings;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            image_input: ImageInput::Regions,
            similarity: Some(EmbeddingSimilarity::Cosine),
            mixed_precision: true,
            fixed_places: true,
            single_rank_reason: self.batch_norm.single_rank_reason(),
            word_vectors_parameter: Some(WORD_VECTORS),
            concepts: true,
            image_words: self.concept_labels == ConceptLabels::LeakyImage,
            global_losses: &["instance", "consensus", "concepts"],
            ..Capabilities::default()
        }
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = check_widths(&[("embed_size", self.embed_size), ("word_dim", self.word_dim)]);
        if self.embed_size % 2 == 1 {
            problems.push(Problem::new("embed_size", format!("got {}, expected an even number", self.embed_size)));
        }
        problems.extend(check_dropout(self.dropout));
        let shares = [
            ("fusion_weight", self.fusion_weight),
            ("label_weight", self.label_weight),
            ("consensus_score_weight", self.consensus_score_weight),
        ];
        let shares = shares.into_iter().filter(|(_, share)| !(0.0..=1.0).contains(share));
        problems.extend(shares.map(|(setting, got)| Problem::new(setting, format!("got {got}, expected 0 to 1"))));
        let weights = [
            ("instance_weight", self.instance_weight),
            ("consensus_weight", self.consensus_weight),
            ("concept_weight", self.concept_weight),
        ];
        let weights = weights.into_iter().filter(|(_, weight)| !(weight.is_finite() && *weight >= 0.0));
        problems.extend(weights.map(|(setting, got)| Problem::new(setting, format!("got {got}, expected 0 or more"))));
        // A loss that counts neighbours is checked with the batches of the training, where it is the loss.
        let batches = BatchSpec { pairs: usize::MAX, never_positive: false, sums: false };
        let setting = format!("level_loss.{}", self.level_loss.name());
        let wrong = self.level_loss.problems(batches).into_iter();
        if !self.level_loss.learned_scalars().is_empty() {
            let message = "a level loss learns no temperature; the loss of the training can";
            problems.push(Problem::new(format!("{setting}.learned"), message));
        }
        problems.extend(wrong.map(|problem| problem.under(&setting)));
        problems
    }
}

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
