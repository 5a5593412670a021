//! Settings of `compute_attention`.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::ModelFacts;
use super::model_inputs;
use crate::input_spec::ImageInput;
use pairloom_stage::{KnownFacts, Problem, Stage, StageInput, StageOutput, TableRef};
use pairloom_tables::attention;

/// Most rows of a part.
const PART_ROWS: usize = 65_536;

/// Most captions: a table of examples, not of a data set.
const MAX_CAPTIONS: usize = 10_000;

/// Computes the attention between the words of captions and the regions of their images, of a model that has such an
/// attention: SCAN, SGR or SAF.
///
/// Memory: the regions of these images after the first layer, and a weight of each word with each region.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComputeAttention {
    /// Trained model.
    pub model: TableRef,
    /// Feature vectors of the regions of the images.
    pub regions: TableRef,
    /// Captions.
    pub captions: TableRef,
    /// Split of the captions.
    #[serde(default = "default_split")]
    pub split: String,
    /// Number of captions, taken at equal distances from the split.
    #[serde(default = "default_n_captions")]
    pub n_captions: usize,
    /// Identifiers of the captions, in place of `n_captions`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caption_ids: Vec<i64>,
}

fn default_split() -> String {
    "test".to_owned()
}

fn default_n_captions() -> usize {
    8
}

impl Stage for ComputeAttention {
    fn kind(&self) -> &'static str {
        "compute_attention"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<StageInput> {
        model_inputs(&self.model, None, Some(&self.regions), &self.captions)
    }

    fn outputs(&self) -> Vec<StageOutput> {
        vec![StageOutput::table("attention", attention::table().schema(), PART_ROWS)]
    }

    fn check_inputs(&self, known: &KnownFacts) -> Vec<Problem> {
        let Some(model) = known.get::<ModelFacts>(&self.model) else { return Vec::new() };
        let no_attention = (!model.capabilities.word_attention).then(|| {
            let message = format!("a model of `{}` has no attention between words and regions", model.family);
            Problem::new("model", message).hint("models of `scan` and `sgraf` have one")
        });
        let images = Some((&self.regions, ImageInput::Regions));
        no_attention.into_iter().chain(model.image_problems(images, known)).collect()
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (setting, count) in [("n_captions", self.n_captions), ("caption_ids", self.caption_ids.len().max(1))] {
            if !(1..=MAX_CAPTIONS).contains(&count) {
                problems.push(Problem::new(setting, format!("got {count} captions, expected 1 to {MAX_CAPTIONS}")));
            }
        }
        let mut seen = HashSet::new();
        if let Some(twice) = self.caption_ids.iter().find(|id| !seen.insert(**id)) {
            problems.push(Problem::new("caption_ids", format!("caption {twice} appears twice")));
        }
        problems
    }
}
