//! The settings of `report`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stage::{Input, Output, Problem, Stage, TableRef};
use crate::tables;

/// Examples in each direction above which a page is too heavy to open.
const MOST_EXAMPLES: usize = 100;

/// Writes results as a Markdown and a self-contained HTML page.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Title of the page.
    pub title: String,
    /// Rows of results.
    pub summary: Option<TableRef>,
    /// Every number with its confidence interval.
    pub metrics: Option<TableRef>,
    /// How well scores agree with people, beside what papers give.
    #[serde(default)]
    pub correlations: Vec<TableRef>,
    /// Contrasts: rsum of each result against its baseline, and if they differ by more than chance.
    #[serde(default)]
    pub contrasts: Vec<TableRef>,
    /// Rankings, for examples.
    pub rankings: Option<TableRef>,
    /// How often every item is found, for hubs before and after a method; needs `summary`.
    pub hubs: Option<TableRef>,
    /// The course of the training, for its curves: loss, norm of the gradient, learning rate.
    pub history: Option<TableRef>,
    /// Validation by epoch, for its curves: rsum and the six recalls.
    pub validation: Option<TableRef>,
    /// The images, to show them in examples.
    pub images: Option<TableRef>,
    /// The captions, to show them in examples.
    pub captions: Option<TableRef>,
    /// φ of images and captions: its distribution, and pairs at its ends; needs `captions`.
    pub similarity: Option<TableRef>,
    /// Scene graphs of captions, some of which are drawn; needs `captions`.
    pub graphs: Option<TableRef>,
    /// Queries shown as examples in each direction.
    #[serde(default = "examples")]
    pub examples: usize,
    /// Seed that draws the examples; the pipeline's where not given.
    #[serde(default)]
    pub seed: u64,
}

fn examples() -> usize {
    6
}

impl Stage for Report {
    fn kind(&self) -> &'static str {
        "report"
    }

    fn version(&self) -> u32 {
        6
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<Input> {
        let optional = [
            ("summary", &self.summary, tables::summary::table(&[])),
            ("metrics", &self.metrics, tables::metrics::table()),
            ("rankings", &self.rankings, tables::rankings::table(&[])),
            ("hubs", &self.hubs, tables::hubs::table(&[])),
            ("history", &self.history, tables::history::table()),
            ("validation", &self.validation, tables::validation::table()),
            ("images", &self.images, tables::images::table()),
            ("captions", &self.captions, tables::captions::table()),
            ("similarity", &self.similarity, tables::caption_similarity::table()),
            ("graphs", &self.graphs, tables::scene_graphs::table()),
        ];
        let optional = optional
            .into_iter()
            .filter_map(|(name, from, table)| Some(Input::table(name, from.as_ref()?, table.schema())));
        let correlations = self.correlations.iter().enumerate().map(|(number, from)| {
            Input::table(format!("correlations.{number}"), from, tables::correlations::table().schema())
        });
        let contrasts = self.contrasts.iter().enumerate().map(|(number, from)| {
            Input::table(format!("contrasts.{number}"), from, tables::contrasts::table().schema())
        });
        optional.chain(correlations).chain(contrasts).collect()
    }

    fn outputs(&self) -> Vec<Output> {
        vec![Output::files("page")]
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.title.trim().is_empty() {
            problems.push(Problem::new("title", "got an empty title"));
        }
        if self.inputs().is_empty() {
            problems.push(Problem::new("", "names no table to report").hint("name a `summary`, or `correlations`"));
        }
        if self.rankings.is_some() && self.summary.is_none() {
            let message = "needs the `summary` that belongs to it";
            problems.push(Problem::new("rankings", message).hint("examples are of the first protocol of the summary"));
        }
        if self.hubs.is_some() && self.summary.is_none() {
            let message = "needs the `summary` that belongs to it";
            problems.push(Problem::new("hubs", message).hint("methods are compared by its rsum"));
        }
        for (setting, given) in [("similarity", &self.similarity), ("graphs", &self.graphs)] {
            if given.is_some() && self.captions.is_none() {
                problems.push(Problem::new(setting, "needs the `captions` that it is about"));
            }
        }
        if self.examples > MOST_EXAMPLES {
            let message = format!("got {} examples, wanted at most {MOST_EXAMPLES}", self.examples);
            problems.push(Problem::new("examples", message).hint("every picture lies in the page itself"));
        }
        problems
    }
}
