//! Settings of `report`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sweep::ReportSweep;
use pairloom_stage::{KnownFacts, Problem, Stage, StageInput, StageOutput, TableRef};
use pairloom_tables as tables;

/// Maximum number of examples in each direction; with more, a page is too large to open.
const MAX_EXAMPLES: usize = 100;

/// Writes a Markdown page and a self-contained HTML page about results.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Title of the page.
    pub title: String,
    /// Results: recalls, ranks and rsum of every protocol and method.
    pub summary: Option<TableRef>,
    /// Results of many runs as one table: rows with their repetitions, beside printed rows. Beside the pages, `table.tex`
    /// has the table for LaTeX.
    pub sweep: Option<ReportSweep>,
    /// All metrics, with confidence intervals.
    pub metrics: Option<TableRef>,
    /// Correlations of scores with human ratings, beside published values.
    #[serde(default)]
    pub correlations: Vec<TableRef>,
    /// Significance tests of the difference in rsum between each result and its baseline.
    #[serde(default)]
    pub significance_tests: Vec<TableRef>,
    /// Rankings, for the examples and the curve of ranks; needs `summary`.
    pub rankings: Option<TableRef>,
    /// k-occurrences of every item. The report shows hubs of the first method and of the best other one; needs
    /// `summary`.
    pub hubs: Option<TableRef>,
    /// History of a training, for the curves of loss, gradient norm and learning rate.
    pub history: Option<TableRef>,
    /// Validation of a training, for the curves of rsum and of the six recalls by epoch.
    pub validation: Option<TableRef>,
    /// Images to show in examples.
    pub images: Option<TableRef>,
    /// Captions to show in examples.
    pub captions: Option<TableRef>,
    /// φ of images and captions, for its distribution and its most extreme pairs; needs `captions`.
    pub similarity: Option<TableRef>,
    /// Scene graphs of captions, to draw examples of; needs `captions`.
    pub graphs: Option<TableRef>,
    /// Attention between words and regions, drawn on the `images`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention: Option<ReportAttention>,
    /// Number of examples: queries in each direction, scene graphs, captions with their attention.
    #[serde(default = "examples")]
    pub examples: usize,
    /// Seed of the choice of examples. The seed of the pipeline if not set.
    #[serde(default)]
    pub seed: u64,
}

/// Attention between words and regions, to draw.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportAttention {
    /// Attention weights.
    pub weights: TableRef,
    /// Boxes of the regions.
    pub boxes: TableRef,
}

fn examples() -> usize {
    6
}

impl Stage for Report {
    fn kind(&self) -> &'static str {
        "report"
    }

    fn version(&self) -> u32 {
        14
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        if let Some(sweep) = &self.sweep {
            settings["sweep"] = sweep.key_settings();
        }
        settings
    }

    fn inputs(&self) -> Vec<StageInput> {
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
            .filter_map(|(name, from, table)| Some(StageInput::table(name, from.as_ref()?, &table)));
        let correlations = self.correlations.iter().enumerate().map(|(number, from)| {
            StageInput::table(format!("correlations.{number}"), from, &tables::correlations::table())
        });
        let tests = self.significance_tests.iter().enumerate().map(|(number, from)| {
            StageInput::table(format!("significance_tests.{number}"), from, &tables::significance_tests::table())
        });
        let sweep = self.sweep.iter().flat_map(ReportSweep::inputs);
        let attention = self.attention.iter().flat_map(|attention| {
            [
                StageInput::table("attention.weights", &attention.weights, &tables::attention::table()),
                StageInput::table("attention.boxes", &attention.boxes, &tables::region_boxes::table()),
            ]
        });
        optional.chain(attention).chain(correlations).chain(tests).chain(sweep).collect()
    }

    fn outputs(&self) -> Vec<StageOutput> {
        vec![StageOutput::files("page")]
    }

    fn check_inputs(&self, known: &KnownFacts) -> Vec<Problem> {
        let Some(sweep) = &self.sweep else { return Vec::new() };
        sweep.check_ncs(known).into_iter().chain(sweep.check_printed(known)).collect()
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.title.trim().is_empty() {
            problems.push(Problem::new("title", "got an empty title"));
        }
        problems.extend(self.sweep.iter().flat_map(ReportSweep::check));
        if self.inputs().is_empty() && self.sweep.is_none() {
            problems.push(Problem::new("", "no table to report").hint("set `summary`, `sweep` or `correlations`"));
        }
        if self.rankings.is_some() && self.summary.is_none() {
            let message = "needs the `summary` that belongs to it";
            problems.push(
                Problem::new("rankings", message).hint("examples are of the first protocol and method in the summary"),
            );
        }
        if self.hubs.is_some() && self.summary.is_none() {
            let message = "needs the `summary` that belongs to it";
            problems.push(Problem::new("hubs", message).hint("methods are compared by its rsum"));
        }
        for (setting, given) in [("similarity", &self.similarity), ("graphs", &self.graphs)] {
            if given.is_some() && self.captions.is_none() {
                problems.push(Problem::new(setting, "needs the `captions` that belong to it"));
            }
        }
        if self.attention.is_some() && self.images.is_none() {
            problems.push(Problem::new("attention", "needs the `images` that belong to it"));
        }
        if self.examples > MAX_EXAMPLES {
            let message = format!("got {} examples, expected at most {MAX_EXAMPLES}", self.examples);
            problems.push(Problem::new("examples", message).hint("all images are embedded in the page"));
        }
        problems
    }
}
