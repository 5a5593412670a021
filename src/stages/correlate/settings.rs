//! The settings of `correlate`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stage::{Input, Output, Problem, Stage, TableRef};
use crate::tables;

/// What results call all rated pairs.
pub(super) const ALL: &str = "all";

/// Measures how well scores of captions and images agree with what people say of them.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Correlate {
    /// Pairs that people rated.
    pub ratings: TableRef,
    /// The scores, each with a row for all pairs and one for each set of `pairs`.
    pub scores: Vec<Score>,
    /// Sets of rated pairs by name, beside `all`: `{ non_gt = { sampling = "c2i_intrasim" } }`.
    #[serde(default)]
    pub pairs: BTreeMap<String, Pairs>,
}

/// A score of pairs: φ of a table, or 1 for pairs of one kind and 0 for others.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// What results call it: `CIDEr-D`.
    pub name: String,
    /// A `caption_similarity` that has φ of every rated pair.
    pub similarity: Option<TableRef>,
    /// The score is 1 where the pair's `sampling` is this, and else 0: `c2i_original` is a caption with its own image.
    pub sampling: Option<String>,
    /// Pearson's r that a paper gives, by set of pairs: `{ all = 0.734, non_gt = 0.453 }`.
    #[serde(default)]
    pub published: BTreeMap<String, f64>,
}

/// A set of rated pairs.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pairs {
    /// Those of this `sampling`.
    pub sampling: String,
}

/// The input of the similarity of the score of this number.
pub(super) fn input(score: usize) -> String {
    format!("scores.{score}.similarity")
}

impl Score {
    fn check(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.name.trim().is_empty() {
            problems.push(Problem::new(format!("{at}.name"), "got an empty name").hint("results are found by it"));
        }
        let one = "set `similarity`, a table, or `sampling`, the kind of pairs that score 1";
        match (&self.similarity, &self.sampling) {
            (None, None) => problems.push(Problem::new(at, "scores nothing").hint(one)),
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
        1
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<Input> {
        let mut inputs = vec![Input::table("ratings", &self.ratings, tables::ratings::table().schema())];
        for (number, score) in self.scores.iter().enumerate() {
            let schema = tables::caption_similarity::table().schema();
            inputs.extend(score.similarity.as_ref().map(|from| Input::table(input(number), from, schema)));
        }
        inputs
    }

    fn outputs(&self) -> Vec<Output> {
        vec![Output::table("correlations", tables::correlations::table().schema(), 8192)]
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.scores.is_empty() {
            problems.push(Problem::new("scores", "got an empty list, wanted at least one score"));
        }
        if self.pairs.contains_key(ALL) {
            let message = format!("`{ALL}` is the name of all rated pairs already");
            problems.push(Problem::new(format!("pairs.{ALL}"), message));
        }
        let known: BTreeSet<&str> = std::iter::once(ALL).chain(self.pairs.keys().map(String::as_str)).collect();
        for (number, score) in self.scores.iter().enumerate() {
            let at = format!("scores.{number}");
            problems.extend(score.check(&at));
            if self.scores[..number].iter().any(|earlier| earlier.name == score.name) {
                let message = format!("the name `{}` stands there twice", score.name);
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
