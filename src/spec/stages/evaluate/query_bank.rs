//! Settings of the query bank: queries and items of another split, from which methods learn where the hubs are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stored_scores::ScoredSplit;
use pairloom_stage::{Problem, StageInput, TableRef};
use pairloom_tables as tables;

/// Query bank: images and captions that are not of the test split. Either embeddings of another split, or the memory
/// bank of a training. Beside `scores`, scores of the bank with the evaluated split, of a `score_pairs` with
/// `caption_split`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryBankSettings {
    /// Images in the joint space.
    pub images: Option<TableRef>,
    /// Captions in the joint space.
    pub captions: Option<TableRef>,
    /// Split of both tables that is the query bank.
    #[serde(default = "default_split")]
    pub split: String,
    /// Table `memory_bank` of a training, in place of embeddings. Its last epoch is used, embedded by the model as it
    /// was at the start of that epoch.
    pub memory_bank: Option<TableRef>,
    /// Scores of the images of the bank with the captions of the evaluated split, beside `scores`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_scores: Option<ScoredSplit>,
    /// Scores of the images of the evaluated split with the captions of the bank, beside `scores`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption_scores: Option<ScoredSplit>,
    /// Scores of the images of the bank with its captions, beside `scores`. Only `dual_bank_sinkhorn` needs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank_scores: Option<ScoredSplit>,
}

impl Default for QueryBankSettings {
    /// A bank without tables.
    fn default() -> Self {
        Self {
            images: None,
            captions: None,
            split: default_split(),
            memory_bank: None,
            image_scores: None,
            caption_scores: None,
            bank_scores: None,
        }
    }
}

fn default_split() -> String {
    "train".to_owned()
}

/// Input of the images of the bank.
pub const IMAGES: &str = "query_bank.images";
/// Input of the captions of the bank.
pub const CAPTIONS: &str = "query_bank.captions";
/// Input of the memory bank.
pub const MEMORY_BANK: &str = "query_bank.memory_bank";
/// Beginnings of the names of the inputs with the scores of the bank's images and captions with those of the split.
pub const BANK_WITH_SPLIT: [&str; 2] = ["query_bank.image_scores.", "query_bank.caption_scores."];
/// Beginning of the names of the inputs with the scores of the bank's images with its captions.
pub const BANK_SCORES: &str = "query_bank.bank_scores.";

impl QueryBankSettings {
    pub(super) fn inputs(&self) -> Vec<StageInput> {
        let all = [
            (IMAGES, &self.images, tables::image_embeddings::table()),
            (CAPTIONS, &self.captions, tables::caption_embeddings::table()),
            (MEMORY_BANK, &self.memory_bank, tables::memory_bank::table()),
        ];
        let scores = [
            (BANK_WITH_SPLIT[0], &self.image_scores),
            (BANK_WITH_SPLIT[1], &self.caption_scores),
            (BANK_SCORES, &self.bank_scores),
        ];
        let scores = scores.into_iter().filter_map(|(prefix, from)| Some(from.as_ref()?.inputs(prefix)));
        all.into_iter()
            .filter_map(|(name, from, table)| Some(StageInput::table(name, from.as_ref()?, &table)))
            .chain(scores.flatten())
            .collect()
    }

    /// Problems of a bank for an evaluation of `split`, of stored scores or of embeddings.
    pub(super) fn problems(&self, split: &str, of_scores: bool) -> Vec<Problem> {
        let scored = [&self.image_scores, &self.caption_scores].map(Option::is_some);
        let vectors = (&self.images, &self.captions, &self.memory_bank);
        let is_whole = match vectors {
            (Some(_), Some(_), None) | (None, None, Some(_)) => {
                !of_scores && scored == [false; 2] && self.bank_scores.is_none()
            }
            (None, None, None) => of_scores && scored == [true; 2],
            _ => false,
        };
        if !is_whole {
            let (message, hint) = if of_scores {
                ("beside `scores`, wants scores with the bank", "`image_scores` and `caption_scores`")
            } else {
                ("has too few or too many tables", "either `images` and `captions`, or `memory_bank`")
            };
            return vec![Problem::new("query_bank", message).hint(hint)];
        }
        if self.split == split && self.memory_bank.is_none() {
            let message = format!("got `{split}`, which is the evaluated split");
            let hint = "a query bank comes from another split: `train` or `val`";
            return vec![Problem::new("query_bank.split", message).hint(hint)];
        }
        Vec::new()
    }

    /// True if there are scores of the bank's images with its captions: they follow from vectors.
    pub(super) fn has_pairs(&self, of_scores: bool) -> bool {
        !of_scores || self.bank_scores.is_some()
    }

    /// Name in results.
    #[must_use]
    pub fn name(&self) -> &str {
        if self.memory_bank.is_some() { "memory_bank" } else { &self.split }
    }
}
