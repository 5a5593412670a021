//! Settings of `evaluate`.

mod query_bank;
mod relevance_source;
mod stored_scores;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::query_bank::{BANK_SCORES, BANK_WITH_SPLIT, CAPTIONS, IMAGES, MEMORY_BANK, QueryBankSettings};
pub use self::relevance_source::{RelevanceSource, relevance_input};
pub use self::stored_scores::{ScoredSplit, VALIDATION, VALIDATION_BANK, ValidationSettings};
use crate::similarity::EmbeddingSimilarity;
use crate::stages::image_vectors::{either_image_vectors_problem, image_vectors, image_vectors_input};
use pairloom_retrieval::methods::{MethodContext, ScoreKind};
use pairloom_retrieval::{DEFAULT_RANKING_DEPTH, Method, Protocol};
use pairloom_stage::{Problem, Stage, StageInput, StageOutput, TableRef};
use pairloom_tables as tables;

/// Ranks embeddings and measures retrieval.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evaluate {
    /// Images in the joint space.
    #[serde(default)]
    pub images: Option<TableRef>,
    /// Captions in the joint space; with `scores`, the captions of the scores; with `model`, their texts.
    #[serde(default)]
    pub captions: Option<TableRef>,
    /// Scores of all pairs, of `score_pairs` or `ensemble`, in place of `images`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<TableRef>,
    /// Trained model, in place of `images`: it computes the scores as they are needed, and none are stored. Each pass of
    /// a method computes all of them again, so several methods take less time with a table `scores`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<TableRef>,
    /// Feature vectors of the images, beside `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<TableRef>,
    /// Feature vectors of the regions of the images, beside `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<TableRef>,
    /// Name of the data set, the first part of the protocol's name in results: `coco`, `f30k`.
    pub dataset: String,
    /// Similarity of an image and a caption. It must be the one that the model was trained with.
    #[serde(default)]
    pub similarity: EmbeddingSimilarity,
    /// Ranking methods, each evaluated on its own.
    #[serde(default = "default_methods")]
    pub methods: Vec<Method>,
    /// Query bank: queries and items that methods learn from in place of the test split.
    #[serde(default)]
    pub query_bank: Option<QueryBankSettings>,
    /// Split of the same tables, or with `scores` that of `validation`, on which `best_of` chooses a method.
    #[serde(default)]
    pub validation_split: Option<String>,
    /// Scores of all pairs of `validation_split`, beside `scores`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<ValidationSettings>,
    /// Split that is evaluated.
    #[serde(default = "default_split")]
    pub split: String,
    /// Protocols: the pools of items that are ranked.
    #[serde(default = "default_protocols")]
    pub protocols: Vec<Protocol>,
    /// Cut-offs of recall, Semantic Recall, NCS and hubs, ascending. Sums such as rsum add up all of them, and tables
    /// have columns for each.
    #[serde(default = "default_cutoffs")]
    pub cutoffs: Vec<usize>,
    /// Additional relevances, besides the queries' own matches.
    #[serde(default)]
    pub relevance: Vec<RelevanceSource>,
    /// Number of best items of each query in the table `rankings`. Measures do not depend on it. A TREC run for other
    /// programs needs as many items as their measures look at.
    #[serde(default = "default_ranking_depth")]
    pub ranking_depth: usize,
}

fn default_split() -> String {
    "test".to_owned()
}

fn default_methods() -> Vec<Method> {
    vec![Method::default()]
}

fn default_protocols() -> Vec<Protocol> {
    vec![Protocol::All]
}

fn default_ranking_depth() -> usize {
    DEFAULT_RANKING_DEPTH
}

fn default_cutoffs() -> Vec<usize> {
    tables::DEFAULT_CUTOFFS.to_vec()
}

impl Evaluate {
    /// Kind of the scores.
    fn score_kind(&self) -> ScoreKind {
        match self.similarity {
            _ if self.scores.is_some() => ScoreKind::Model,
            _ if self.model.is_some() => ScoreKind::Streamed,
            EmbeddingSimilarity::Order { .. } => ScoreKind::Order,
            EmbeddingSimilarity::Cosine => ScoreKind::Cosine,
        }
    }

    /// Problems of the settings of the source of scores.
    fn source_problems(&self) -> Vec<Problem> {
        let hint = "embeddings, or in place of `images` `scores = \"pairs.scores\"` of a `score_pairs`, or a `model`";
        let mut problems = Vec::new();
        if self.captions.is_none() {
            problems.push(Problem::new("captions", "is missing").hint(hint));
        }
        let kind = self.score_kind();
        let of_vectors = matches!(kind, ScoreKind::Cosine | ScoreKind::Order);
        if of_vectors && self.images.is_none() {
            problems.insert(0, Problem::new("images", "is missing").hint(hint));
        }
        let similarity = self.similarity != EmbeddingSimilarity::Cosine;
        let applies = [
            ("images", self.images.is_some(), "embeddings", of_vectors),
            ("similarity", similarity, "embeddings", of_vectors),
            ("model", self.model.is_some(), "scores that are not stored", kind == ScoreKind::Streamed),
            ("features", self.features.is_some(), "a `model`", kind == ScoreKind::Streamed),
            ("regions", self.regions.is_some(), "a `model`", kind == ScoreKind::Streamed),
        ];
        let there = match kind {
            ScoreKind::Model => "`scores`",
            ScoreKind::Streamed => "a `model`",
            ScoreKind::Cosine | ScoreKind::Order => "embeddings",
        };
        for (setting, _, what, _) in applies.into_iter().filter(|(_, is_set, _, applies)| *is_set && !applies) {
            let problem = Problem::new(setting, format!("applies to {what}, but there are {there}"));
            problems.push(problem.hint("leave one of them out"));
        }
        if kind == ScoreKind::Streamed {
            problems.extend(either_image_vectors_problem(self.features.as_ref(), self.regions.as_ref(), ""));
            if self.query_bank.is_some() {
                let message = "applies to embeddings and to stored scores, but there is a `model`";
                let hint = "keep the scores with `score_pairs`, and evaluate that table by `scores`";
                problems.push(Problem::new("query_bank", message).hint(hint));
            }
        }
        if kind != ScoreKind::Model {
            if self.validation.is_some() {
                let message = format!("applies to `scores`, but there are {there}");
                problems.push(Problem::new("validation", message).hint("`validation_split` alone names their split"));
            }
        } else if self.validation.is_some() != self.validation_split.is_some() {
            let (missing, there) = if self.validation.is_some() {
                ("validation_split", "validation")
            } else {
                ("validation", "validation_split")
            };
            let message = format!("is missing: `{there}` needs it beside `scores`");
            problems.push(Problem::new(missing, message).hint("the validation split has scores of its own"));
        }
        problems
    }
}

impl Stage for Evaluate {
    fn kind(&self) -> &'static str {
        "evaluate"
    }

    /// Version 9 with a model: scores of SGR and SAF have other roundings.
    fn version(&self) -> u32 {
        if self.model.is_some() { 9 } else { 7 }
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<StageInput> {
        let captions = match self.score_kind() {
            ScoreKind::Model => tables::scored_captions::table(),
            ScoreKind::Streamed => tables::captions::table(),
            ScoreKind::Cosine | ScoreKind::Order => tables::caption_embeddings::table(),
        };
        let given = [
            ("images", &self.images, tables::image_embeddings::table()),
            ("scores", &self.scores, tables::scores::table()),
            ("captions", &self.captions, captions),
        ];
        let given = given.into_iter().filter_map(|(name, from, table)| Some((name, from.as_ref()?, table)));
        let mut inputs: Vec<StageInput> =
            given.map(|(name, from, table)| StageInput::table(name, from, &table)).collect();
        if let Some(model) = &self.model {
            inputs.insert(0, StageInput::files("model", model, "model"));
            let images = image_vectors(self.features.as_ref(), self.regions.as_ref());
            inputs.extend(images.map(|(from, input)| image_vectors_input(input.name(), from, input)));
        }
        inputs.extend(self.validation.iter().flat_map(ValidationSettings::inputs));
        inputs.extend(self.query_bank.iter().flat_map(QueryBankSettings::inputs));
        inputs.extend(self.relevance.iter().enumerate().flat_map(|(number, relevance)| relevance.inputs(number)));
        inputs
    }

    fn outputs(&self) -> Vec<StageOutput> {
        vec![
            StageOutput::table("rankings", tables::rankings::table(&self.cutoffs).schema(), 8192),
            StageOutput::table("hubs", tables::hubs::table(&self.cutoffs).schema(), 65_536),
            StageOutput::table("metrics", tables::metrics::table().schema(), 8192),
            StageOutput::table("summary", tables::summary::table(&self.cutoffs).schema(), 8192),
        ]
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = self.source_problems();
        for (setting, value) in [("dataset", &self.dataset), ("split", &self.split)] {
            if value.trim().is_empty() {
                problems.push(Problem::new(setting, "got an empty name"));
            }
        }
        if self.protocols.is_empty() {
            problems.push(
                Problem::new("protocols", "got an empty list, wanted at least one protocol")
                    .hint("leave it out for `all`"),
            );
        }
        for (i, protocol) in self.protocols.iter().enumerate() {
            if self.protocols[..i].contains(protocol) {
                problems.push(Problem::new("protocols", format!("`{}` appears twice", protocol.name())));
            }
        }
        check_distinct(&self.cutoffs, |message| problems.push(Problem::new("cutoffs", message)));
        if !self.cutoffs.is_sorted() {
            let message = format!("got {:?}, wanted ascending numbers", self.cutoffs);
            problems.push(Problem::new("cutoffs", message).hint("as tables of papers have them: `[1, 5, 10]`"));
        }
        if self.ranking_depth == 0 {
            problems.push(Problem::new("ranking_depth", "got 0, wanted at least 1"));
        }
        problems.extend(self.validation.iter().filter_map(ValidationSettings::problem));
        problems.extend(self.query_bank.iter().flat_map(|bank| bank.problems(&self.split, self.scores.is_some())));
        if self.methods.is_empty() {
            problems.push(Problem::new("methods", "got none").hint("leave it out for the nearest neighbour"));
        }
        let given = MethodContext {
            query_bank: self.query_bank.is_some(),
            bank_items: self.query_bank.is_some(),
            bank_pairs: self.query_bank.as_ref().is_some_and(|bank| bank.has_pairs(self.scores.is_some())),
            has_validation_split: self.validation_split.is_some(),
            bank_of_validation: self.scores.is_none()
                || self.validation.as_ref().is_some_and(ValidationSettings::has_bank),
            score_kind: self.score_kind(),
        };
        for (number, method) in self.methods.iter().enumerate() {
            let at = format!("methods.{number}");
            problems.extend(method.problems(&at, given));
            if self.methods[..number].contains(method) {
                problems.push(Problem::new(at, format!("`{}` appears twice", method.name())));
            }
        }
        if self.validation_split.as_ref() == Some(&self.split) {
            let message = format!("got `{}`, which is the evaluated split", self.split);
            problems
                .push(Problem::new("validation_split", message).hint("parameters are not chosen on the test split"));
        }
        for (number, relevance) in self.relevance.iter().enumerate() {
            problems.extend(relevance.check(&format!("relevance.{number}")));
            if self.relevance[..number].iter().any(|earlier| earlier.name == relevance.name) {
                let message = format!("the name `{}` appears twice", relevance.name);
                problems.push(Problem::new(format!("relevance.{number}.name"), message));
            }
        }
        problems
    }
}

/// Checks that a list has distinct positive numbers; passes messages to `problem`.
fn check_distinct(numbers: &[usize], mut problem: impl FnMut(String)) {
    if numbers.is_empty() || numbers.contains(&0) {
        problem(format!("got {numbers:?}, wanted numbers from 1"));
    }
    for (i, number) in numbers.iter().enumerate() {
        if numbers[..i].contains(number) {
            problem(format!("{number} appears twice"));
        }
    }
}
