//! Settings of `evaluate`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model_scores::ModelScorer;
use super::query_bank::QueryBankSettings;
use crate::model::similarity::EmbeddingSimilarity;
use crate::retrieval::methods::{MethodContext, ScoreKind};
use crate::retrieval::{Method, Protocol};
use crate::stage::{Problem, Stage, StageInput, StageOutput, TableRef};
use crate::tables;

/// Ranks embeddings and measures retrieval.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evaluate {
    /// Images in the joint space.
    #[serde(default)]
    pub images: Option<TableRef>,
    /// Captions in the joint space.
    #[serde(default)]
    pub captions: Option<TableRef>,
    /// Model that scores pairs itself, in place of `images` and `captions`. Any model can be used. If the score of a
    /// model is a function of one vector of each side, `embed` is faster.
    #[serde(default)]
    pub scores: Option<ModelScorer>,
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
    /// Split of the same tables on which `best_of` chooses a method.
    #[serde(default)]
    pub validation_split: Option<String>,
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
}

/// Relevance of items to queries: graded by φ of images and captions, or binary by human ratings. Exactly one of the
/// two tables.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelevanceSource {
    /// Name in results: `spice`, `cxc`.
    pub name: String,
    /// Graded relevance: a `caption_similarity` with φ of every image with every caption of the split.
    pub similarity: Option<TableRef>,
    /// Binary relevance: pairs with a human rating of `at_least`.
    pub ratings: Option<TableRef>,
    /// Numbers m: the m items with the largest φ are relevant to a query, for Semantic Recall, NCS of the paper, mAP@R
    /// and R-precision. Each m is evaluated separately. Only with `similarity`; default `[5]`.
    pub neighbours: Option<Vec<usize>>,
    /// Lowest rating of relevant pairs. Only with `ratings`.
    pub at_least: Option<f64>,
}

/// Highest human rating of a pair.
const HIGHEST_RATING: f64 = 5.0;

impl RelevanceSource {
    /// Returns the numbers of neighbours, or the default.
    pub(super) fn neighbours(&self) -> &[usize] {
        self.neighbours.as_deref().unwrap_or(&[5])
    }

    fn check(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut problem = |setting: &str, message: String, hint: &str| {
            let setting = if setting.is_empty() { at.to_owned() } else { format!("{at}.{setting}") };
            problems.push(Problem::new(setting, message).hint(hint));
        };
        if self.name.trim().is_empty() {
            problem("name", "got an empty name".to_owned(), "the name identifies it in results");
        }
        match (&self.similarity, &self.ratings) {
            (Some(_), None) => {
                if self.at_least.is_some() {
                    problem(
                        "at_least",
                        "belongs to `ratings`".to_owned(),
                        "with `similarity`, `neighbours` sets what is relevant",
                    );
                }
                check_positive(self.neighbours(), |message| problem("neighbours", message, "leave it out for `[5]`"));
            }
            (None, Some(_)) => {
                if self.neighbours.is_some() {
                    problem(
                        "neighbours",
                        "belongs to `similarity`".to_owned(),
                        "with `ratings`, `at_least` sets what is relevant",
                    );
                }
                if !self.at_least.is_some_and(f64::is_finite) {
                    let got = self.at_least.map_or("is missing".to_owned(), |got| format!("got {got}"));
                    let message = format!("`at_least` {got}, wanted the lowest rating of relevant pairs");
                    problem("", message, "Crisscrossed Captions counts pairs from 3.0 of 5 on");
                }
            }
            (None, None) => problem("", "names no table".to_owned(), "set `similarity` or `ratings`"),
            (Some(_), Some(_)) => problem("", "names two tables".to_owned(), "use two relevances, one for each table"),
        }
        if let Some(got) = self.at_least.filter(|got| self.ratings.is_some() && *got > HIGHEST_RATING) {
            let message = format!("got {got}; ratings of Crisscrossed Captions are 0 to {HIGHEST_RATING}");
            problems.push(Problem::warning(format!("{at}.at_least"), message));
        }
        problems
    }
}

/// Checks a list of distinct positive numbers, such as cut-offs.
fn check_positive(numbers: &[usize], mut problem: impl FnMut(String)) {
    if numbers.is_empty() || numbers.contains(&0) {
        problem(format!("got {numbers:?}, wanted numbers from 1"));
    }
    for (i, number) in numbers.iter().enumerate() {
        if numbers[..i].contains(number) {
            problem(format!("{number} appears twice"));
        }
    }
}

/// Name of the input with a table of a relevance.
pub(super) fn relevance_input(number: usize, setting: &str) -> String {
    format!("relevance.{number}.{setting}")
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

fn default_cutoffs() -> Vec<usize> {
    tables::DEFAULT_CUTOFFS.to_vec()
}

impl Evaluate {
    /// Problems of the settings of the source of scores.
    fn source_problems(&self) -> Vec<Problem> {
        let sides = [("images", &self.images), ("captions", &self.captions)];
        if self.scores.is_none() {
            let missing = sides.into_iter().filter(|(_, table)| table.is_none());
            let hint = "embeddings, or in their place `scores = { model = …, features = …, captions = … }`";
            return missing.map(|(setting, _)| Problem::new(setting, "is missing").hint(hint)).collect();
        }
        let similarity = self.similarity != EmbeddingSimilarity::Cosine;
        let beside = sides.map(|(setting, table)| (setting, table.is_some()));
        let beside = beside.into_iter().chain([("query_bank", self.query_bank.is_some()), ("similarity", similarity)]);
        let problem = |(setting, _)| {
            Problem::new(setting, "applies to embeddings, but `scores` come from a model").hint("leave one of them out")
        };
        beside.filter(|(_, there)| *there).map(problem).collect()
    }
}

impl Stage for Evaluate {
    fn kind(&self) -> &'static str {
        "evaluate"
    }

    fn version(&self) -> u32 {
        5
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<StageInput> {
        let embeddings = [
            ("images", &self.images, tables::image_embeddings::table()),
            ("captions", &self.captions, tables::caption_embeddings::table()),
        ];
        let given = embeddings.into_iter().filter_map(|(name, from, table)| Some((name, from.as_ref()?, table)));
        let mut inputs: Vec<StageInput> =
            given.map(|(name, from, table)| StageInput::table(name, from, &table)).collect();
        inputs.extend(self.scores.iter().flat_map(ModelScorer::inputs));
        inputs.extend(self.query_bank.iter().flat_map(QueryBankSettings::inputs));
        for (number, relevance) in self.relevance.iter().enumerate() {
            let tables = [
                ("similarity", &relevance.similarity, tables::caption_similarity::table()),
                ("ratings", &relevance.ratings, tables::ratings::table()),
            ];
            for (setting, from, table) in tables {
                inputs.extend(
                    from.as_ref().map(|from| StageInput::table(relevance_input(number, setting), from, &table)),
                );
            }
        }
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
        check_positive(&self.cutoffs, |message| problems.push(Problem::new("cutoffs", message)));
        if !self.cutoffs.is_sorted() {
            let message = format!("got {:?}, wanted ascending numbers", self.cutoffs);
            problems.push(Problem::new("cutoffs", message).hint("as tables of papers have them: `[1, 5, 10]`"));
        }
        problems.extend(self.query_bank.iter().flat_map(|bank| bank.problems(&self.split)));
        if self.methods.is_empty() {
            problems.push(Problem::new("methods", "got none").hint("leave it out for the nearest neighbour"));
        }
        let scores = match self.similarity {
            _ if self.scores.is_some() => ScoreKind::Model,
            EmbeddingSimilarity::Order { .. } => ScoreKind::Order,
            EmbeddingSimilarity::Cosine => ScoreKind::Cosine,
        };
        let given = MethodContext {
            query_bank: self.query_bank.is_some(),
            has_validation_split: self.validation_split.is_some(),
            score_kind: scores,
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
