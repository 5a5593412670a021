//! Settings of `correlate`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_stage::{Problem, Stage, StageInput, StageOutput, TableRef};
use pairloom_tables as tables;

/// Name of the set of all rated pairs in results.
pub(super) const ALL_PAIRS: &str = "all";

/// Correlates scores of caption-image pairs with human ratings. Each rating counts: a pair that three people rated counts
/// three times.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Correlate {
    /// Human ratings of pairs.
    pub ratings: TableRef,
    /// Scores. Each has a row for all pairs and one for each set of `pairs`.
    pub scores: Vec<Score>,
    /// Sets of rated pairs by name, in addition to `all`: `{ non_gt = { sampling = "c2i_intrasim" } }`.
    #[serde(default)]
    pub pairs: BTreeMap<String, PairSet>,
}

/// Score of pairs: φ from a table, or a binary score that is 1 for the pairs of one sampling.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// Name in results: `CIDEr-D`.
    pub name: String,
    /// Table `caption_similarity` with φ of every rated pair.
    pub similarity: Option<TableRef>,
    /// Sampling of the pairs with score 1; others score 0. The pairs of `c2i_original` are captions with their own
    /// images.
    pub sampling: Option<String>,
    /// Published values of Pearson's r, by set of pairs: `{ all = 0.734, non_gt = 0.453 }`.
    #[serde(default)]
    pub published: BTreeMap<String, f64>,
}

/// Set of rated pairs.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PairSet {
    /// Sampling of the pairs in the set.
    pub sampling: String,
}

/// Name of the input with the similarity of a score.
pub(super) fn similarity_input(score: usize) -> String {
    format!("scores.{score}.similarity")
}

impl Score {
    fn check(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.name.trim().is_empty() {
            problems.push(
                Problem::new(format!("{at}.name"), "got an empty name").hint("the name identifies it in results"),
            );
        }
        let one = "set `similarity`, a table, or `sampling`, the kind of pairs that score 1";
        match (&self.similarity, &self.sampling) {
            (None, None) => problems.push(Problem::new(at, "has neither `similarity` nor `sampling`").hint(one)),
            (Some(_), Some(_)) => {
                problems.push(Problem::new(at, "has both `similarity` and `sampling`, wanted one").hint(one));
            }
            _ => {}
        }
        problems
    }
}

impl Stage for Correlate {
    fn kind(&self) -> &'static str {
        "correlate"
    }

    fn version(&self) -> u32 {
        2
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<StageInput> {
        let mut inputs = vec![StageInput::table("ratings", &self.ratings, &tables::ratings::table())];
        for (number, score) in self.scores.iter().enumerate() {
            let table = tables::caption_similarity::table();
            inputs.extend(
                score.similarity.as_ref().map(|from| StageInput::table(similarity_input(number), from, &table)),
            );
        }
        inputs
    }

    fn outputs(&self) -> Vec<StageOutput> {
        vec![StageOutput::table("correlations", tables::correlations::table().schema(), 8192)]
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.scores.is_empty() {
            problems.push(Problem::new("scores", "got an empty list, wanted at least one score"));
        }
        if self.pairs.contains_key(ALL_PAIRS) {
            let message = format!("`{ALL_PAIRS}` is reserved for all rated pairs");
            problems.push(Problem::new(format!("pairs.{ALL_PAIRS}"), message));
        }
        let known: BTreeSet<&str> = std::iter::once(ALL_PAIRS).chain(self.pairs.keys().map(String::as_str)).collect();
        for (number, score) in self.scores.iter().enumerate() {
            let at = format!("scores.{number}");
            problems.extend(score.check(&at));
            if self.scores[..number].iter().any(|earlier| earlier.name == score.name) {
                let message = format!("the name `{}` appears twice", score.name);
                problems.push(Problem::new(format!("{at}.name"), message));
            }
            for name in score.published.keys().filter(|name| !known.contains(name.as_str())) {
                let there: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                let message = format!("`{name}` is no set of pairs; there are {}", there.join(", "));
                problems.push(Problem::new(format!("{at}.published.{name}"), message));
            }
        }
        problems
    }
}
