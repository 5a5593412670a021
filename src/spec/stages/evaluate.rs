//! Settings of `evaluate`: of the stage, of the query bank, of a relevance, and of stored scores.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::family::ScoreRange;
use crate::similarity::{EmbeddingSimilarity, OrderPenalty};
use crate::stages::facts::{EmbeddingFacts, ModelFacts};
use crate::stages::{either_image_vectors_problem, image_vectors, image_vectors_input};
use pairloom_retrieval::methods::{MethodContext, ScoreKind};
use pairloom_retrieval::{DEFAULT_RANKING_DEPTH, Method, Protocol};
use pairloom_stage::{KnownFacts, OutputFact, Problem, Stage, StageInput, StageOutput, TableRef};
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
        let compares_vectors = matches!(kind, ScoreKind::Cosine | ScoreKind::Order);
        if compares_vectors && self.images.is_none() {
            problems.insert(0, Problem::new("images", "is missing").hint(hint));
        }
        let similarity = self.similarity != EmbeddingSimilarity::Cosine;
        let applies = [
            ("images", self.images.is_some(), "embeddings", compares_vectors),
            ("similarity", similarity, "embeddings", compares_vectors),
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

impl Evaluate {
    /// Problems of methods that scale distances 1 − s, if stored scores of a model can be above 1.
    fn scores_above_one(&self, known: &KnownFacts) -> Vec<Problem> {
        let model = self.scores.as_ref().and_then(|scores| known.get::<ModelFacts>(scores));
        let Some(model) = model.filter(|model| model.capabilities.score_range != ScoreRange::UpToOne) else {
            return Vec::new();
        };
        let methods = self.methods.iter().enumerate().filter(|(_, method)| method.scales_distances());
        let problem = |(number, method): (usize, &Method)| {
            let (name, family) = (method.name(), model.family);
            let message =
                format!("`{name}` scales the distances 1 − s, and this model of `{family}` has scores above 1");
            let hint = "leave it out, or train with `aggregation = \"mean\"`";
            Problem::new(format!("methods.{number}"), message).hint(hint)
        };
        methods.map(problem).collect()
    }

    /// Problems of embeddings that the settings do not fit.
    fn embedding_problems(&self, known: &KnownFacts) -> Vec<Problem> {
        let embeddings = |from: &Option<TableRef>| known.get::<EmbeddingFacts>(from.as_ref()?);
        let Some(images) = embeddings(&self.images) else { return Vec::new() };
        let mut problems = Vec::new();
        if let Some(captions) = embeddings(&self.captions).filter(|captions| captions.model != images.model) {
            let message = format!("embedded by `{}`, but `images` by `{}`", captions.model, images.model);
            problems.push(Problem::warning("captions", message).hint("scores compare vectors of one model"));
        }
        if let Some(trained) = images.similarity.filter(|trained| *trained != self.similarity) {
            let (got, expected) = (similarity_text(self.similarity), similarity_text(trained));
            let message = format!("got {got}, but `{}` was trained with {expected}", images.model);
            problems.push(Problem::warning("similarity", message).hint(format!("write `similarity = {expected}`")));
        }
        let splits = [("split", Some(&self.split)), ("validation_split", self.validation_split.as_ref())];
        let splits = splits.into_iter().filter_map(|(setting, split)| Some((setting, split?)));
        let is_missing = |(_, split): &(_, &String)| !images.splits.is_empty() && !images.splits.contains(split);
        problems.extend(splits.into_iter().find(is_missing).map(|(setting, split)| {
            let message = format!("got `{split}`, but `images` has the splits `{}` alone", images.splits.join("`, `"));
            Problem::new(setting, message).hint("add it to `splits` of `embed`")
        }));
        problems
    }
}

/// Similarity as it is written in a pipeline file.
fn similarity_text(similarity: EmbeddingSimilarity) -> &'static str {
    match similarity {
        EmbeddingSimilarity::Cosine => "\"cosine\"",
        EmbeddingSimilarity::Order { form: OrderPenalty::Norm } => "\"order\"",
        EmbeddingSimilarity::Order { form: OrderPenalty::Squared } => "{ order = { form = \"squared\" } }",
    }
}

impl Stage for Evaluate {
    fn kind(&self) -> &'static str {
        "evaluate"
    }

    fn version(&self) -> u32 {
        tables::rankings::RANKS_FROM_1
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

    fn facts(&self, _: &KnownFacts) -> Vec<OutputFact> {
        let graded = self.relevance.iter().filter(|relevance| relevance.similarity.is_some());
        let names = graded.map(|relevance| relevance.name.clone()).collect();
        vec![OutputFact::new("metrics", tables::metrics::NcsRelevances(names))]
    }

    fn check_inputs(&self, known: &KnownFacts) -> Vec<Problem> {
        let images = image_vectors(self.features.as_ref(), self.regions.as_ref());
        let model = self.model.as_ref().and_then(|model| known.get::<ModelFacts>(model));
        let wrong_images = model.map_or_else(Vec::new, |model| model.image_problems(images, known));
        [self.embedding_problems(known), self.scores_above_one(known), wrong_images].concat()
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
                Problem::new("protocols", "got an empty list, expected at least one protocol")
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
            let message = format!("got {:?}, expected ascending numbers", self.cutoffs);
            problems.push(Problem::new("cutoffs", message).hint("as tables of papers have them: `[1, 5, 10]`"));
        }
        if self.ranking_depth == 0 {
            problems.push(Problem::new("ranking_depth", "got 0, expected at least 1"));
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
        problem(format!("got {numbers:?}, expected numbers from 1"));
    }
    for (i, number) in numbers.iter().enumerate() {
        if numbers[..i].contains(number) {
            problem(format!("{number} appears twice"));
        }
    }
}

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
    #[serde(default = "default_bank_split")]
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
            split: default_bank_split(),
            memory_bank: None,
            image_scores: None,
            caption_scores: None,
            bank_scores: None,
        }
    }
}

fn default_bank_split() -> String {
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
    fn inputs(&self) -> Vec<StageInput> {
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
    fn problems(&self, split: &str, from_scores: bool) -> Vec<Problem> {
        let scored = [&self.image_scores, &self.caption_scores].map(Option::is_some);
        let vectors = (&self.images, &self.captions, &self.memory_bank);
        let is_whole = match vectors {
            (Some(_), Some(_), None) | (None, None, Some(_)) => {
                !from_scores && scored == [false; 2] && self.bank_scores.is_none()
            }
            (None, None, None) => from_scores && scored == [true; 2],
            _ => false,
        };
        if !is_whole {
            let (message, hint) = if from_scores {
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
    fn has_pairs(&self, from_scores: bool) -> bool {
        !from_scores || self.bank_scores.is_some()
    }

    /// Name in results.
    #[must_use]
    pub fn name(&self) -> &str {
        if self.memory_bank.is_some() { "memory_bank" } else { &self.split }
    }
}

/// Relevance of items to queries: graded by φ of images and captions, or binary by human ratings or by judgements.
/// Exactly one of the three tables.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelevanceSource {
    /// Name in results: `spice`, `cxc`, `eccv`.
    pub name: String,
    /// Graded relevance: a `caption_similarity` with φ of every image with every caption of the split.
    pub similarity: Option<TableRef>,
    /// Binary relevance: pairs with a human rating of at least `at_least`, or a mean rating if several people rated a pair.
    pub ratings: Option<TableRef>,
    /// Binary relevance: items that are judged for a query with a grade of at least `at_least`. The measures are means over the
    /// queries with such an item.
    pub qrels: Option<TableRef>,
    /// Numbers m: the m items with the largest φ are relevant to a query, for Semantic Recall, NCS of the paper, mAP@R
    /// and R-precision. Each m is evaluated separately. Only with `similarity`; default `[5]`.
    pub neighbours: Option<Vec<usize>>,
    /// Lowest rating or grade of relevant pairs. Needed with `ratings`; 1 by default with `qrels`.
    pub at_least: Option<f64>,
}

/// Highest human rating of a pair.
const HIGHEST_RATING: f64 = 5.0;
/// Lowest grade of relevant items, as in `trec_eval`.
const RELEVANT_GRADE: f64 = 1.0;

impl RelevanceSource {
    /// Returns the numbers of neighbours, or the default.
    #[must_use]
    pub fn neighbours(&self) -> &[usize] {
        self.neighbours.as_deref().unwrap_or(&[5])
    }

    /// Returns the lowest rating or grade of relevant pairs, or the default for grades.
    #[must_use]
    pub fn at_least(&self) -> f64 {
        self.at_least.unwrap_or(RELEVANT_GRADE)
    }

    /// Inputs of the relevance number `number` of a stage: one, if the settings are valid.
    fn inputs(&self, number: usize) -> impl Iterator<Item = StageInput> {
        let tables = [
            ("similarity", &self.similarity, tables::caption_similarity::table()),
            ("ratings", &self.ratings, tables::ratings::table()),
            ("qrels", &self.qrels, tables::qrels::table()),
        ];
        tables.into_iter().filter_map(move |(setting, from, table)| {
            Some(StageInput::table(relevance_input(number, setting), from.as_ref()?, &table))
        })
    }

    /// Problems of the settings, which are at `at`.
    fn check(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut problem = |setting: &str, message: String, hint: &str| {
            let setting = if setting.is_empty() { at.to_owned() } else { format!("{at}.{setting}") };
            problems.push(Problem::new(setting, message).hint(hint));
        };
        if self.name.trim().is_empty() {
            problem("name", "got an empty name".to_owned(), "the name identifies it in results");
        }
        match (&self.similarity, &self.ratings, &self.qrels) {
            (Some(_), None, None) => {
                if self.at_least.is_some() {
                    problem(
                        "at_least",
                        "belongs to `ratings` and `qrels`".to_owned(),
                        "with `similarity`, `neighbours` sets what is relevant",
                    );
                }
                check_distinct(self.neighbours(), |message| problem("neighbours", message, "leave it out for `[5]`"));
            }
            (None, ratings, qrels) if ratings.is_some() != qrels.is_some() => {
                if self.neighbours.is_some() {
                    problem(
                        "neighbours",
                        "belongs to `similarity`".to_owned(),
                        "with `ratings` and `qrels`, `at_least` sets what is relevant",
                    );
                }
                match self.at_least {
                    Some(got) if !got.is_finite() => {
                        problem(
                            "at_least",
                            format!("got {got}, expected the lowest value of relevant pairs"),
                            "a number",
                        );
                    }
                    None if ratings.is_some() => {
                        let message = "`at_least` is missing, expected the lowest rating of relevant pairs".to_owned();
                        problem("", message, "Crisscrossed Captions counts pairs from 3.0 of 5 on");
                    }
                    _ => {}
                }
            }
            (None, None, None) => {
                problem("", "names no table".to_owned(), "set `similarity`, `ratings` or `qrels`");
            }
            _ => problem("", "names several tables".to_owned(), "use several relevances, one for each table"),
        }
        if let Some(got) = self.at_least.filter(|got| self.ratings.is_some() && *got > HIGHEST_RATING) {
            let message = format!("got {got}; ratings of Crisscrossed Captions are 0 to {HIGHEST_RATING}");
            problems.push(Problem::warning(format!("{at}.at_least"), message));
        }
        problems
    }
}

/// Name of an input of relevance number `number`.
#[must_use]
pub fn relevance_input(number: usize, setting: &str) -> String {
    format!("relevance.{number}.{setting}")
}

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
    fn inputs(&self, prefix: &str) -> [StageInput; 2] {
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
    fn inputs(&self) -> Vec<StageInput> {
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
    fn problem(&self) -> Option<Problem> {
        let (missing, there) = match (&self.image_scores, &self.caption_scores) {
            (Some(_), None) => ("caption_scores", "image_scores"),
            (None, Some(_)) => ("image_scores", "caption_scores"),
            _ => return None,
        };
        let problem = Problem::new(format!("{VALIDATION}{missing}"), format!("is missing, and `{there}` is there"));
        Some(problem.hint("methods learn from the images and the captions of the bank"))
    }
}
