//! Settings of `score_pairs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::ModelFacts;
use super::{either_image_vectors_problem, image_vectors, model_inputs};
use pairloom_stage::{KnownFacts, OutputFact, Problem, Stage, StageInput, StageOutput, TableRef};
use pairloom_tables::{scored_captions, scores};

/// Most rows of a part of `scored_captions`, and of a part of `scores` with few captions.
const PART_ROWS: usize = 65_536;

/// Scores all images of a split with all its captions, with a model of any kind. If the score of a model is a function
/// of one vector of each side, `embed` and `evaluate` do without a table of all scores.
///
/// Memory: the encoded captions (for SCAN 4 · `embed_size` bytes a word), and the scores of a block of images: 2,048 with
/// `features`, 128 with `regions`. A killed run goes on after the last 2²² scores.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScorePairs {
    /// Trained model.
    pub model: TableRef,
    /// Feature vectors of the images. One of `features` and `regions` must be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<TableRef>,
    /// Feature vectors of the regions of the images, for a model that reads them, instead of `features`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<TableRef>,
    /// Captions.
    pub captions: TableRef,
    /// Split that is scored.
    #[serde(default = "default_split")]
    pub split: String,
    /// Split of the captions, if it is not that of the images: for a query bank of `evaluate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption_split: Option<String>,
}

fn default_split() -> String {
    "test".to_owned()
}

impl Stage for ScorePairs {
    fn kind(&self) -> &'static str {
        "score_pairs"
    }

    /// Version 5: scores of SAF, and vectors of VSRN and VSE∞, are computed in another order, and so round differently.
    fn version(&self) -> u32 {
        5
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<StageInput> {
        model_inputs(&self.model, self.features.as_ref(), self.regions.as_ref(), &self.captions)
    }

    fn outputs(&self) -> Vec<StageOutput> {
        vec![
            StageOutput::table("scores", scores::table().schema(), PART_ROWS),
            StageOutput::table("scored_captions", scored_captions::table().schema(), PART_ROWS),
        ]
    }

    fn facts(&self, known: &KnownFacts) -> Vec<OutputFact> {
        let model = known.get::<ModelFacts>(&self.model);
        model.map(|model| OutputFact::new("scores", model.clone())).into_iter().collect()
    }

    fn check_inputs(&self, known: &KnownFacts) -> Vec<Problem> {
        let images = image_vectors(self.features.as_ref(), self.regions.as_ref());
        known.get::<ModelFacts>(&self.model).map_or_else(Vec::new, |model| model.image_problems(images, known))
    }

    fn check(&self) -> Vec<Problem> {
        either_image_vectors_problem(self.features.as_ref(), self.regions.as_ref(), "").into_iter().collect()
    }
}
