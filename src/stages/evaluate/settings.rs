//! The settings of `evaluate`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bank::Bank;
use super::encoded::ScoredBy;
use crate::model::similarity::Similarity;
use crate::retrieval::methods::{Given, ScoreKind};
use crate::retrieval::{Method, Protocol};
use crate::stage::{Input, Output, Problem, Stage, TableRef};
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
    /// In place of `images` and `captions`: a model that scores pairs itself. Any can; one whose scores follow from a vector of
    /// each side is faster by `embed`.
    #[serde(default)]
    pub scores: Option<ScoredBy>,
    /// Name of the data set, the first part of the protocol's name in results: `coco`, `f30k`.
    pub dataset: String,
    /// The score of an image and a caption: that which the model was trained with.
    #[serde(default)]
    pub similarity: Similarity,
    /// How items are ranked, each way on its own.
    #[serde(default = "nearest")]
    pub methods: Vec<Method>,
    /// Whose queries and items methods learn from that do not learn from the test.
    #[serde(default)]
    pub bank: Option<Bank>,
    /// The split of the same tables on which `best_of` chooses.
    #[serde(default)]
    pub validation: Option<String>,
    /// The split that is ranked.
    #[serde(default = "test")]
    pub split: String,
    /// Which pools are ranked.
    #[serde(default = "all")]
    pub protocols: Vec<Protocol>,
    /// Cut-offs of recall, Semantic Recall, NCS and hubs, ascending. Sums are of all of them, and tables have columns for each.
    #[serde(default = "cutoffs")]
    pub cutoffs: Vec<usize>,
    /// Relevance beside the queries' own matches.
    #[serde(default)]
    pub relevance: Vec<Relevance>,
}

/// Items that are relevant to a query: by φ of images and captions, or by what people say. One of the two tables.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Relevance {
    /// Name in results: `spice`, `cxc`.
    pub name: String,
    /// Graded: a `caption_similarity` with φ of every image with every caption of the split.
    pub similarity: Option<TableRef>,
    /// Yes or no: pairs that people rated `at_least` so high.
    pub ratings: Option<TableRef>,
    /// With `similarity`: how many neighbours of a query are relevant to Semantic Recall, NCS of the paper, mAP@R and
    /// R-precision, each number on its own; `[5]` where not given.
    pub neighbours: Option<Vec<usize>>,
    /// With `ratings`: the lowest rating of what is relevant.
    pub at_least: Option<f64>,
}

impl Relevance {
    /// Numbers of neighbours.
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
            problem("name", "got an empty name".to_owned(), "results are found by it");
        }
        match (&self.similarity, &self.ratings) {
            (Some(_), None) => {
                if self.at_least.is_some() {
                    problem(
                        "at_least",
                        "belongs to `ratings`".to_owned(),
                        "`neighbours` says what of a similarity counts",
                    );
                }
                positive(self.neighbours(), |message| problem("neighbours", message, "leave it out for `[5]`"));
            }
            (None, Some(_)) => {
                if self.neighbours.is_some() {
                    problem("neighbours", "belongs to `similarity`".to_owned(), "`at_least` says which ratings count");
                }
                if !self.at_least.is_some_and(f64::is_finite) {
                    let got = self.at_least.map_or("is missing".to_owned(), |got| format!("got {got}"));
                    let message = format!("`at_least` {got}, wanted the lowest rating of what is relevant");
                    problem("", message, "Crisscrossed Captions counts pairs from 3.0 of 5 on");
                }
            }
            (None, None) => problem("", "names no table".to_owned(), "set `similarity` or `ratings`"),
            (Some(_), Some(_)) => problem("", "names two tables".to_owned(), "make two of it, one with each"),
        }
        problems
    }
}

/// Finds fault with a list of cut-offs or the like.
fn positive(numbers: &[usize], mut problem: impl FnMut(String)) {
    if numbers.is_empty() || numbers.contains(&0) {
        problem(format!("got {numbers:?}, wanted numbers from 1"));
    }
    for (i, number) in numbers.iter().enumerate() {
        if numbers[..i].contains(number) {
            problem(format!("{number} stands there twice"));
        }
    }
}

/// The input of a table of the relevance of this number.
pub(super) fn input(number: usize, setting: &str) -> String {
    format!("relevance.{number}.{setting}")
}

fn test() -> String {
    "test".to_owned()
}

fn nearest() -> Vec<Method> {
    vec![Method::default()]
}

fn all() -> Vec<Protocol> {
    vec![Protocol::All]
}

fn cutoffs() -> Vec<usize> {
    tables::CUTOFFS.to_vec()
}

impl Evaluate {
    /// Problems of the settings that say where scores come from.
    fn source_problems(&self) -> Vec<Problem> {
        let sides = [("images", &self.images), ("captions", &self.captions)];
        if self.scores.is_none() {
            let missing = sides.into_iter().filter(|(_, table)| table.is_none());
            let hint = "embeddings, or in their place `scores = { model = …, features = …, captions = … }`";
            return missing.map(|(setting, _)| Problem::new(setting, "is missing").hint(hint)).collect();
        }
        let similarity = self.similarity != Similarity::Cosine;
        let beside = sides.map(|(setting, table)| (setting, table.is_some()));
        let beside = beside.into_iter().chain([("bank", self.bank.is_some()), ("similarity", similarity)]);
        let problem = |(setting, _)| {
            Problem::new(setting, "belongs to embeddings, and `scores` are of a model").hint("leave one of them out")
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

    fn inputs(&self) -> Vec<Input> {
        let embeddings = [
            ("images", &self.images, tables::image_embeddings::table()),
            ("captions", &self.captions, tables::caption_embeddings::table()),
        ];
        let given = embeddings.into_iter().filter_map(|(name, from, table)| Some((name, from.as_ref()?, table)));
        let mut inputs: Vec<Input> =
            given.map(|(name, from, table)| Input::table(name, from, table.schema())).collect();
        inputs.extend(self.scores.iter().flat_map(ScoredBy::inputs));
        inputs.extend(self.bank.iter().flat_map(Bank::inputs));
        for (number, relevance) in self.relevance.iter().enumerate() {
            let tables = [
                ("similarity", &relevance.similarity, tables::caption_similarity::table()),
                ("ratings", &relevance.ratings, tables::ratings::table()),
            ];
            for (setting, from, table) in tables {
                inputs.extend(from.as_ref().map(|from| Input::table(input(number, setting), from, table.schema())));
            }
        }
        inputs
    }

    fn outputs(&self) -> Vec<Output> {
        vec![
            Output::table("rankings", tables::rankings::table(&self.cutoffs).schema(), 8192),
            Output::table("hubs", tables::hubs::table(&self.cutoffs).schema(), 65_536),
            Output::table("metrics", tables::metrics::table().schema(), 8192),
            Output::table("summary", tables::summary::table(&self.cutoffs).schema(), 8192),
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
                problems.push(Problem::new("protocols", format!("`{}` stands there twice", protocol.name())));
            }
        }
        positive(&self.cutoffs, |message| problems.push(Problem::new("cutoffs", message)));
        if !self.cutoffs.is_sorted() {
            let message = format!("got {:?}, wanted ascending numbers", self.cutoffs);
            problems.push(Problem::new("cutoffs", message).hint("as tables of papers have them: `[1, 5, 10]`"));
        }
        problems.extend(self.bank.iter().flat_map(|bank| bank.problems(&self.split)));
        if self.methods.is_empty() {
            problems.push(Problem::new("methods", "got none").hint("leave it out for the nearest neighbour"));
        }
        let scores = match self.similarity {
            _ if self.scores.is_some() => ScoreKind::Model,
            Similarity::Order { .. } => ScoreKind::Order,
            Similarity::Cosine => ScoreKind::Cosine,
        };
        let given = Given { bank: self.bank.is_some(), validation: self.validation.is_some(), scores };
        for (number, method) in self.methods.iter().enumerate() {
            let at = format!("methods.{number}");
            problems.extend(method.problems(&at, given));
            if self.methods[..number].contains(method) {
                problems.push(Problem::new(at, format!("`{}` stands there twice", method.name())));
            }
        }
        if self.validation.as_ref() == Some(&self.split) {
            let message = format!("got `{}`, which is what is ranked", self.split);
            problems.push(Problem::new("validation", message).hint("numbers are not chosen on the test"));
        }
        for (number, relevance) in self.relevance.iter().enumerate() {
            problems.extend(relevance.check(&format!("relevance.{number}")));
            if self.relevance[..number].iter().any(|earlier| earlier.name == relevance.name) {
                let message = format!("the name `{}` stands there twice", relevance.name);
                problems.push(Problem::new(format!("relevance.{number}.name"), message));
            }
        }
        problems
    }
}
