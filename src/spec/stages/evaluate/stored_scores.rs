//! Settings of stored scores: of a split, and of the validation split, on which `best_of` chooses a method.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_stage::{Problem, StageInput, TableRef};
use pairloom_tables as tables;

/// Scores of all pairs of a split.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScoredSplit {
    /// Scores.
    pub scores: TableRef,
    /// Captions of the scores.
    pub captions: TableRef,
}

impl ScoredSplit {
    /// Inputs, whose names begin with `prefix`.
    pub(super) fn inputs(&self, prefix: &str) -> [StageInput; 2] {
        score_inputs(prefix, &self.scores, &self.captions)
    }
}

/// Inputs of scores and their captions, whose names begin with `prefix`.
fn score_inputs(prefix: &str, scores: &TableRef, captions: &TableRef) -> [StageInput; 2] {
    [
        StageInput::table(format!("{prefix}scores"), scores, &tables::scores::table()),
        StageInput::table(format!("{prefix}captions"), captions, &tables::scored_captions::table()),
    ]
}

/// Scores of the validation split: of its own pairs, and for methods that learn from a query bank of its images and
/// captions with the bank.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidationSettings {
    /// Scores.
    pub scores: TableRef,
    /// Captions of the scores.
    pub captions: TableRef,
    /// Scores of the images of the query bank with the captions of the validation split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_scores: Option<ScoredSplit>,
    /// Scores of the images of the validation split with the captions of the query bank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption_scores: Option<ScoredSplit>,
}

/// Beginning of the names of the inputs of the validation split.
pub const VALIDATION: &str = "validation.";
/// Beginnings of the names of the inputs with the scores of the validation split with the images and the captions of the bank.
pub const VALIDATION_BANK: [&str; 2] = ["validation.image_scores.", "validation.caption_scores."];

impl ValidationSettings {
    pub(super) fn inputs(&self) -> Vec<StageInput> {
        let bank = VALIDATION_BANK.into_iter().zip([&self.image_scores, &self.caption_scores]);
        let bank = bank.filter_map(|(prefix, from)| Some(from.as_ref()?.inputs(prefix)));
        score_inputs(VALIDATION, &self.scores, &self.captions).into_iter().chain(bank.flatten()).collect()
    }

    /// True if there are scores with the query bank.
    #[must_use]
    pub fn has_bank(&self) -> bool {
        self.image_scores.is_some() && self.caption_scores.is_some()
    }

    /// Problem of scores with one side of the bank only.
    pub(super) fn problem(&self) -> Option<Problem> {
        let (missing, there) = match (&self.image_scores, &self.caption_scores) {
            (Some(_), None) => ("caption_scores", "image_scores"),
            (None, Some(_)) => ("image_scores", "caption_scores"),
            _ => return None,
        };
        let problem = Problem::new(format!("{VALIDATION}{missing}"), format!("is missing, and `{there}` is there"));
        Some(problem.hint("methods learn from the images and the captions of the bank"))
    }
}
