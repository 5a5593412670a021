//! Reader of the tables of a sweep.

use super::comparison::compare;
use super::ncs::shown_relevance;
use super::printed::PrintedRows;
use super::row_settings::{self, RowSettings};
use super::runs::SweepRuns;
use super::settings::ReportSweep;
use super::table::{self, SweepTable};
use crate::page_data::{ResultRow, ValidationEpoch};
use crate::read;
use pairloom_base::error::{Error, Result};
use pairloom_stage::StageContext;

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
        let validation = |number| read::validation(cx, &ReportSweep::validation_input(number));
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
        let mut of_run = read::results(cx, &ReportSweep::summary_input(number))?;
        if of_run.rows.is_empty() {
            return Err(Error::data(format!("`{from}` has no rows, so there is nothing to report")));
        }
        if number == 0 {
            cutoffs.clone_from(&of_run.cutoffs);
        } else if of_run.cutoffs != cutoffs {
            let first = &sweep.summaries[0];
            let message = format!("`{first}` has cut-offs {cutoffs:?}, `{from}` has {:?}", of_run.cutoffs);
            return Err(Error::data(message).hint("all evaluations of a sweep must have the same `cutoffs`"));
        }
        if let Some(metrics) = sweep.metrics.get(number) {
            let there = read::add_metrics(cx, &ReportSweep::metrics_input(number), relevance.as_deref(), &mut of_run)?;
            let there: Vec<&str> = there.iter().map(String::as_str).collect();
            let known = relevance.as_deref();
            let shown = shown_relevance(metrics, sweep.relevance.as_deref(), known, &there)
                .map_err(|problem| Error::data(problem.message).hint(problem.hint.unwrap_or_default()))?;
            relevance = shown.map(str::to_owned);
        }
        results.push(of_run.rows);
    }
    let relevance = relevance.filter(|_| !sweep.metrics.is_empty());
    Ok(RunResults { cutoffs, results, relevance })
}
