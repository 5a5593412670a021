//! Reader of the tables of a sweep, and the row and repetition that each run is, by the coordinates of its reference.

use super::measures::shown_relevance;
use super::printed::PrintedRows;
use super::row_settings::{self, RowSettings};
use super::settings::ReportSweep;
use super::table::{self, SweepTable, compare};
use crate::page_data::{self, ResultRow, ValidationEpoch};
use pairloom_base::error::{Error, Result};
use pairloom_stage::{StageContext, TableRef, coordinate_texts, stage_of_instance};

/// Results of a sweep.
#[derive(Debug)]
pub(crate) struct SweepReport {
    pub(super) runs: SweepRuns,
    /// Axis of the repetitions.
    pub(super) repeats: String,
    pub(super) tables: Vec<SweepTable>,
    pub(super) printed: Option<PrintedRows>,
    /// Relevance of NCS, if it is shown.
    pub(super) relevance: Option<String>,
    /// Validations, with their runs.
    pub(super) validation_runs: SweepRuns,
    pub(super) validations: Vec<Vec<ValidationEpoch>>,
    /// Settings in which the rows differ.
    pub(super) row_settings: Vec<RowSettings>,
}

impl SweepReport {
    /// Reads all tables.
    ///
    /// # Errors
    /// A summary has no rows, or other cut-offs than the first; the paper or its table is not among the printed rows.
    pub(crate) fn read(sweep: &ReportSweep, cx: &mut StageContext<'_>) -> Result<Self> {
        let runs = sweep.runs();
        let RunResults { cutoffs, results, relevance } = results(sweep, cx)?;
        let mut tables = table::tables(&cutoffs, &runs, &results);
        for table in &mut tables {
            compare(table, &sweep.baselines());
        }
        let printed = PrintedRows::read(sweep, &cutoffs, cx)?;
        // Of a part of a matrix, the rows that a paper does not have can be the only ones.
        if let Some(warning) = printed.as_ref().and_then(|printed| printed.join(&mut tables)) {
            cx.warn("sweep.published", warning);
        }
        let validation = |number| page_data::read_validation(cx, &ReportSweep::validation_input(number));
        let validations = (0..sweep.validations.len()).map(validation).collect::<Result<_>>()?;
        Ok(Self {
            row_settings: row_settings::read(&cx.lineage()?, &runs),
            runs,
            repeats: sweep.repeats().to_owned(),
            tables,
            printed,
            relevance,
            validation_runs: sweep.validation_runs(),
            validations,
        })
    }
}

/// Results of all runs.
struct RunResults {
    cutoffs: Vec<usize>,
    /// Results of each run.
    results: Vec<Vec<ResultRow>>,
    /// Relevance of NCS, if it was read.
    relevance: Option<String>,
}

fn results(sweep: &ReportSweep, cx: &mut StageContext<'_>) -> Result<RunResults> {
    let (mut cutoffs, mut results) = (Vec::new(), Vec::new());
    let mut relevance = sweep.relevance.clone();
    for (number, from) in sweep.summaries.iter().enumerate() {
        let mut run_results = page_data::read_results(cx, &ReportSweep::summary_input(number))?;
        if run_results.rows.is_empty() {
            return Err(Error::data(format!("`{from}` has no rows, so there is nothing to report")));
        }
        if number == 0 {
            cutoffs.clone_from(&run_results.cutoffs);
        } else if run_results.cutoffs != cutoffs {
            let first = &sweep.summaries[0];
            let message = format!("`{first}` has cut-offs {cutoffs:?}, `{from}` has {:?}", run_results.cutoffs);
            return Err(Error::data(message).hint("all evaluations of a sweep must have the same `cutoffs`"));
        }
        if let Some(metrics) = sweep.metrics.get(number) {
            let there = page_data::add_metrics(
                cx,
                &ReportSweep::metrics_input(number),
                relevance.as_deref(),
                &mut run_results,
            )?;
            let there: Vec<&str> = there.iter().map(String::as_str).collect();
            let known = relevance.as_deref();
            let shown = shown_relevance(metrics, sweep.relevance.as_deref(), known, &there)
                .map_err(|problem| Error::data(problem.message).hint(problem.hint.unwrap_or_default()))?;
            relevance = shown.map(str::to_owned);
        }
        results.push(run_results.rows);
    }
    let relevance = relevance.filter(|_| !sweep.metrics.is_empty());
    Ok(RunResults { cutoffs, results, relevance })
}

/// Run of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SweepRun {
    /// Name of its row: the values of all axes but the one of the repetitions, `2.9` or `2.9, 128`. The name of the stage
    /// stands before them if the references are of several stages, or if there are none.
    pub(super) row: String,
    /// Value of the axis of the repetitions; `None` if the reference does not have it.
    pub(super) repetition: Option<String>,
}

/// Runs of a list of references, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SweepRuns {
    /// Names of the axes whose values name the rows: `row`, or `row, batch_size`.
    pub(super) row_header: String,
    pub(super) runs: Vec<SweepRun>,
}

impl SweepRuns {
    /// Runs of references, with `repeats` as the axis of the repetitions.
    pub(super) fn of(references: &[TableRef], repeats: &str) -> Self {
        let stage = |from: &TableRef| stage_of_instance(from.stage()).to_owned();
        let is_several = references.iter().any(|from| stage(from) != stage(&references[0]));
        let named = |from: &TableRef| -> Vec<(String, String)> {
            let own = |text: &str| text.to_owned();
            let others = coordinate_texts(from.stage()).filter(|(axis, _)| *axis != repeats);
            let mut parts: Vec<_> = others.map(|(axis, value)| (own(axis), own(value))).collect();
            if is_several || parts.is_empty() {
                parts.insert(0, (own("stage"), stage(from)));
            }
            parts
        };
        let join = |parts: Vec<String>| parts.join(", ");
        let run = |from: &TableRef| SweepRun {
            row: join(named(from).into_iter().map(|(_, value)| value).collect()),
            repetition: coordinate_texts(from.stage())
                .find(|(axis, _)| *axis == repeats)
                .map(|(_, value)| value.to_owned()),
        };
        let header = |from: &TableRef| join(named(from).into_iter().map(|(axis, _)| axis).collect());
        let mut row_header = references.first().map_or_else(String::new, header);
        if references.iter().any(|from| header(from) != row_header) {
            "row".clone_into(&mut row_header);
        }
        Self { row_header, runs: references.iter().map(run).collect() }
    }

    /// Names of the rows, in the order of their first runs.
    pub(super) fn rows(&self) -> Vec<&str> {
        let mut rows: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !rows.contains(&run.row.as_str()) {
                rows.push(&run.row);
            }
        }
        rows
    }

    /// True if a row has several runs.
    pub(super) fn has_repetitions(&self) -> bool {
        self.rows().len() < self.runs.len()
    }

    /// Indices of the first two runs that have the same row and repetition.
    pub(super) fn repeated(&self) -> Option<(usize, usize)> {
        let earlier = |second: usize| self.runs[..second].iter().position(|run| *run == self.runs[second]);
        (0..self.runs.len()).find_map(|second| Some((earlier(second)?, second)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(references: &[&str], repeats: &str) -> (String, Vec<String>) {
        let references: Vec<TableRef> =
            references.iter().map(|text| TableRef::try_from((*text).to_owned()).unwrap()).collect();
        let earlier = SweepRuns::of(&references, repeats);
        let shown = |run: &SweepRun| format!("{} | {}", run.row, run.repetition.as_deref().unwrap_or("-"));
        (earlier.row_header.clone(), earlier.runs.iter().map(shown).collect())
    }

    #[test]
    fn coordinates_name_rows_and_repetitions() {
        let all = |header: &str, runs: &[&str]| (header.to_owned(), runs.iter().map(|run| (*run).to_owned()).collect());
        assert_eq!(
            runs(&["test@row=2.9,seed=1.summary", "test@row=2.9,seed=2.summary"], "seed"),
            all("row", &["2.9 | 1", "2.9 | 2"])
        );
        assert_eq!(runs(&["test@row=2.9,seed=1,size=64.summary"], "seed"), all("row, size", &["2.9, 64 | 1"]));
        assert_eq!(
            runs(&["test@seed=1.summary", "test@seed=2.summary"], "seed"),
            all("stage", &["test | 1", "test | 2"])
        );
        assert_eq!(runs(&["test@row=a,fold=2.summary"], "fold"), all("row", &["a | 2"]));
        assert_eq!(runs(&["a.summary", "b.summary"], "seed"), all("stage", &["a | -", "b | -"]));
        assert_eq!(
            runs(&["a@row=1,seed=1.summary", "b@row=1,seed=1.summary"], "seed"),
            all("stage, row", &["a, 1 | 1", "b, 1 | 1"])
        );
        assert_eq!(runs(&["a@row=1,seed=1.summary", "b.summary"], "seed"), all("row", &["a, 1 | 1", "b | -"]));
        assert_eq!(runs(&[], "seed"), all("", &[]));
    }
}
