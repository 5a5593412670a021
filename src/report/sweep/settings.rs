//! Settings of the sweep of a report.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::read::{SweepRun, SweepRuns};
use pairloom_stage::{Problem, StageInput, TableRef, coordinate_texts};
use pairloom_tables::{self as tables, Table};

/// Setting of the summaries, and first part of the names of their inputs.
pub(super) const SUMMARIES: &str = "sweep.summaries";
/// Setting of the validations, and first part of the names of their inputs.
pub(super) const VALIDATIONS: &str = "sweep.validations";
/// Setting of the metrics, and the beginning of the names of their inputs.
pub(super) const METRICS: &str = "sweep.metrics";

/// Setting of the printed rows, and name of their input.
pub(super) const PUBLISHED: &str = "sweep.published";
/// Setting of the paper of the printed rows.
pub(super) const PAPER: &str = "sweep.paper";
/// Setting of the tables of the paper.
pub(super) const TABLE: &str = "sweep.table";
/// Setting of the common baseline.
pub(super) const BASELINE: &str = "sweep.baseline";
/// Setting of the baselines of rows.
pub(super) const BASELINES: &str = "sweep.baselines";
/// Setting of the relevance.
pub(super) const RELEVANCE: &str = "sweep.relevance";

/// Axis whose values are repetitions of a row, unless another one is set.
const DEFAULT_REPEATS: &str = "seed";

/// Results of many runs as one table, like that of a paper: a row for each setting, with mean and standard deviation
/// over its repetitions.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportSweep {
    /// Results of all runs. `["test@*.summary"]` stands for every instance of the stage `test`. The coordinates of an
    /// instance name its row and its repetition. Stages that are not repeated are rows of their own.
    pub summaries: Vec<TableRef>,
    /// Validations of the trainings, for the curves of all rows in one picture: `["fit@*.validation"]`.
    #[serde(default)]
    pub validations: Vec<TableRef>,
    /// Metrics of the same evaluations, in the order of `summaries`: `["test@*.metrics"]`. For NCS and its sums, and for
    /// hubs as papers count them: an image once for each of its captions. The hs-sum of a method that has no such count, as
    /// `relaxed_greedy`, counts an image once, and the table says so.
    #[serde(default)]
    pub metrics: Vec<TableRef>,
    /// Relevance of `evaluate` whose NCS is shown. It can be left out if there is one.
    #[serde(default)]
    pub relevance: Option<String>,
    /// Axis of the matrix whose values are repetitions of a row. All other axes together name the row. `seed` if not set
    /// and there is such an axis.
    #[serde(default)]
    pub repeats: Option<String>,
    /// Row that the others are compared with, paired over the repetitions that both have.
    #[serde(default)]
    pub baseline: Option<String>,
    /// Rows with another baseline: `{ "sgr*" = "sgr_max" }`. In the name of a row, `*` stands for any characters; of several
    /// names that mean a row, the longest counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub baselines: BTreeMap<String, String>,
    /// Printed rows of papers, to show beside the rows; needs `paper` and `table`. A printed row belongs to the row of the
    /// same name and method, or to the row that it names as its model. With an axis of data sets, `f30k, 1` is the name of
    /// the row `1` of the data set `f30k`.
    #[serde(default)]
    pub published: Option<TableRef>,
    /// Paper of the printed rows: `hal-2020`.
    #[serde(default)]
    pub paper: Option<String>,
    /// Tables of the paper: `["2"]`.
    #[serde(default)]
    pub table: Vec<String>,
}

impl ReportSweep {
    /// Name of the input of a summary.
    pub(super) fn summary_input(number: usize) -> String {
        format!("{SUMMARIES}.{number}")
    }

    /// Name of the input of a validation.
    pub(super) fn validation_input(number: usize) -> String {
        format!("{VALIDATIONS}.{number}")
    }

    /// Name of the input of the metrics of a run.
    pub(super) fn metrics_input(number: usize) -> String {
        format!("{METRICS}.{number}")
    }

    /// Tables that the sweep reads.
    pub(crate) fn inputs(&self) -> Vec<StageInput> {
        let numbered = |name: fn(usize) -> String, list: &[TableRef], table: &Table| -> Vec<StageInput> {
            list.iter().enumerate().map(|(number, from)| StageInput::table(name(number), from, table)).collect()
        };
        let mut inputs = numbered(Self::summary_input, &self.summaries, &tables::summary::table(&[]));
        inputs.extend(numbered(Self::validation_input, &self.validations, &tables::validation::table()));
        inputs.extend(numbered(Self::metrics_input, &self.metrics, &tables::metrics::table()));
        let printed = tables::published::table();
        inputs.extend(self.published.iter().map(|from| StageInput::table(PUBLISHED, from, &printed)));
        inputs
    }

    /// Axis whose values are repetitions.
    pub(super) fn repeats(&self) -> &str {
        self.repeats.as_deref().unwrap_or(DEFAULT_REPEATS)
    }

    /// Runs of the summaries.
    pub(super) fn runs(&self) -> SweepRuns {
        SweepRuns::of(&self.summaries, self.repeats())
    }

    /// Runs of the validations.
    pub(super) fn validation_runs(&self) -> SweepRuns {
        SweepRuns::of(&self.validations, self.repeats())
    }

    /// Settings that are part of the key. The page shows the names of rows and repetitions, and references have none in a
    /// key.
    pub(crate) fn key_settings(&self) -> serde_json::Value {
        let texts = |runs: &SweepRuns| -> Vec<String> {
            let text = |run: &SweepRun| match &run.repetition {
                Some(repetition) => format!("{}, {}={repetition}", run.row, self.repeats()),
                None => run.row.clone(),
            };
            runs.runs.iter().map(text).collect()
        };
        let (runs, validations) = (self.runs(), self.validation_runs());
        let mut settings = serde_json::json!(self);
        settings["row_header"] = runs.row_header.as_str().into();
        settings["summaries"] = texts(&runs).into();
        settings["validations"] = texts(&validations).into();
        settings
    }

    /// Checks the settings, as far as that is possible without data.
    pub(crate) fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.summaries.is_empty() {
            problems.push(
                Problem::new(SUMMARIES, "got no table").hint("name the results of all runs: `[\"test@*.summary\"]`"),
            );
        }
        for (setting, references, runs) in
            [(SUMMARIES, &self.summaries, self.runs()), (VALIDATIONS, &self.validations, self.validation_runs())]
        {
            if let Some((first, second)) = runs.repeated() {
                let message = format!("`{}` and `{}` are the same run", references[first], references[second]);
                problems.push(
                    Problem::new(setting, message)
                        .hint("name each table once; `repeats` names the axis of repetitions"),
                );
            }
            problems.extend(self.check_repeats(setting, references));
        }
        problems.extend(self.check_metrics());
        problems.extend(self.check_baselines());
        problems.extend(self.check_published());
        problems
    }

    /// Checks that every reference has the axis `repeats`, if it is set.
    fn check_repeats(&self, setting: &str, references: &[TableRef]) -> Option<Problem> {
        let axis = self.repeats.as_deref()?;
        let lacks = |from: &&TableRef| !coordinate_texts(from.stage()).any(|(name, _)| name == axis);
        let from = references.iter().find(lacks)?;
        let axes: Vec<&str> = coordinate_texts(from.stage()).map(|(name, _)| name).collect();
        let has = if axes.is_empty() { "has no axes".to_owned() } else { format!("has {}", axes.join(", ")) };
        let message = format!("got `{axis}`, but `{from}` of `{setting}` {has}");
        Some(
            Problem::new("sweep.repeats", message)
                .hint("name an axis of the matrix, or leave it out if each row is one run"),
        )
    }

    /// Checks that the metrics are those of the summaries.
    fn check_metrics(&self) -> Option<Problem> {
        let problem = |setting: &str, message: String| {
            Some(Problem::new(setting, message).hint("name the metrics of all runs: `metrics = [\"test@*.metrics\"]`"))
        };
        if self.metrics.is_empty() {
            return self.relevance.as_ref().and_then(|_| problem(RELEVANCE, "needs `metrics`".to_owned()));
        }
        let pairs = self.summaries.iter().zip(&self.metrics);
        if let Some((summary, metrics)) =
            pairs.into_iter().find(|(summary, metrics)| summary.stage() != metrics.stage())
        {
            let message =
                format!("`{metrics}` stands where `{summary}` does among the summaries, expected the same stage");
            return problem(METRICS, message);
        }
        let (expected, got) = (self.summaries.len(), self.metrics.len());
        (expected != got).then(|| problem(METRICS, format!("got {got} tables for {expected} summaries"))).flatten()
    }

    fn check_published(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.published.is_none() {
            let given = [(PAPER, self.paper.is_some()), (TABLE, !self.table.is_empty())];
            for (setting, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
                problems.push(
                    Problem::new(setting, "needs `published`, the table of the printed rows")
                        .hint("`ingest` reads one: `published = \"data/published/hal-2020.tsv\"`"),
                );
            }
            return problems;
        }
        if self.paper.as_ref().is_none_or(|paper| paper.trim().is_empty()) {
            problems.push(
                Problem::new(PAPER, "`published` needs the paper whose rows are shown")
                    .hint("for example `paper = \"hal-2020\"`"),
            );
        }
        if self.table.is_empty() {
            problems.push(
                Problem::new(TABLE, "`published` needs the tables of the paper").hint("for example `table = [\"2\"]`"),
            );
        }
        for (place, table) in self.table.iter().enumerate() {
            if self.table[..place].contains(table) {
                let message = format!("got `{table}` twice");
                problems.push(Problem::new(format!("{TABLE}.{place}"), message).hint("leave out one of the two"));
            }
        }
        problems
    }
}
