//! `pairloom run FILE`: runs a pipeline, records its best scores, and prints a summary at the end.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};

use super::args::{CommonArgs, RunArgs};
use super::console::{Console, align_columns, one_line};
use super::open::relative_to_current;
use super::progress::{EventSummary, ProgressDisplay};
use super::recall_table::{recall_table, stage_rows};
use super::run_texts::{counts, stage_groups};
use super::siblings::Sibling;
use super::sql_requests::ClusterSections;
use super::start::Program;
use super::units::{format_bytes, format_count, format_duration, format_items, format_number};
use super::{expectations, interrupt, open, ranks};
use pairloom_base::error::{Error, ErrorCategory, Result, TruncatedList};
use pairloom_base::runtime::{CancelToken, Device};
use pairloom_engine::event::{Event, Observer};
use pairloom_engine::ranks::{RankEnvironment, report_startup_error};
use pairloom_engine::run::{RunOptions, RunSummary, execute, finish_reused, hold_store};
use pairloom_engine::status::{StageStatus, stage_statuses};
use pairloom_pipeline::{Pipeline, SkippedExpectation};
use pairloom_registry::AnyStage;
use pairloom_stage::{INSTANCE_SIGN, RunStage};
use pairloom_store::claim::{StoreLock, lock_for_reading};
use pairloom_store::record::{RunRecord, ScoreRecord, StageRecord};
use pairloom_store::search_tasks::SearchTasks;
use pairloom_store::{Manifest, Store};
use pairloom_tables as tables;

/// Runs the stages of a pipeline whose results are missing, and checks its expectations.
///
/// # Errors
/// The pipeline file has mistakes, a stage failed, or an expectation did not hold.
pub(super) fn run(common: &CommonArgs, run: &RunArgs, program: &Program, console: Console) -> Result<()> {
    let torch = program.torch;
    let arguments = &run.pipeline;
    let environment = ranks::rank_environment()?;
    match &environment {
        Some(environment) if environment.rank > 0 => {
            return ranks::run_follower(common, arguments, program, environment, console);
        }
        // Other ranks wait for this one even if no stage has to run.
        Some(_) if torch.is_none() => return Err(Sibling::Torch.hand_over()),
        _ => {}
    }
    let mut options =
        open::run_options(common, &arguments.file, ranks::rank_options(common, torch, environment.as_ref()));
    options.keep_going = run.keep_going;
    options.trust_folder_times = arguments.trust_folder_times;
    // Processes that were launched together run one stage after another.
    options.jobs = if environment.is_some() { 1 } else { run.jobs.map_or(1, usize::from) };
    let (pipeline, store) = match open::load_pipeline(arguments, true, program) {
        Ok((pipeline, unchecked)) => {
            let needs_cluster = run.cluster.cluster.is_some() && program.sql.is_none();
            let absent = unchecked.or_else(|| Sibling::SqlServer.path().err().filter(|_| needs_cluster));
            if let Some(error) = absent {
                return Err(abort_run(error, environment.as_ref(), &options));
            }
            options.command.overrides.clone_from(&arguments.set);
            options.command.profile.clone_from(&arguments.profile);
            options.command.only.clone_from(&arguments.only);
            options.command.except.clone_from(&arguments.except);
            options.command.environment.clone_from(&pipeline.variables);
            options.command.seed = Some(pipeline.seed);
            (pipeline, open::open_store(common).map_err(|error| abort_run(error, environment.as_ref(), &options))?)
        }
        Err(diagnostics) => {
            abort_run(ranks::mistakes_error(&diagnostics, arguments), environment.as_ref(), &options);
            return Err(open::print_diagnostics(&diagnostics, console));
        }
    };
    let uses_gpu =
        options.device != Device::Cpu && pipeline.plan.stages().iter().any(|node| node.stage.needs_tensors());
    if uses_gpu {
        // Only libtorch knows whether the device exists.
        let Some(torch) = torch else { return Err(Sibling::Torch.hand_over()) };
        (torch.check_device)(options.device).map_err(|error| abort_run(error, environment.as_ref(), &options))?;
    }
    // Every mapped shard is an open file. If the limit cannot be raised, running out of files is an error of its own.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let cancel = CancelToken::new();
    let progress = Arc::new(ProgressDisplay::new(console));
    if let Some(url) = &run.cluster.cluster {
        let shown = Arc::clone(&progress);
        let note = move |operation: &str| {
            if console.verbose {
                shown.announce(&format!("not on the cluster: this process computes {operation}"));
            }
        };
        let runner = ClusterSections { cluster: url.clone(), store: common.store.clone() };
        options.remote = Some(Arc::new(SearchTasks::new(store.clone(), Box::new(runner), note)?));
    }
    let shown = Arc::clone(&progress);
    interrupt::cancel_on_signal(&cancel, move || interrupt::announce_interrupt(&shown))?;
    let observer = |event: &Event| progress.show(event);
    if let Some(kind) = store.unshared_locks() {
        console.note(&format!(
            "the store is on a disk of kind `{kind}`, whose locks other machines may not see: run on one machine at a time \
             (of two that build the same result, the one that began first ends with an error)"
        ));
    }
    let run_stages = |run_stage: RunStage<AnyStage>, options: &RunOptions| {
        open::note_thread_limit(common, console);
        progress.keep_error(open::print_warnings(&pipeline.warnings, console));
        let summary = execute(&pipeline.plan, run_stage, &store, options, &cancel, &observer);
        progress.clear();
        summary
    };
    let finish =
        |summary, store: &Store| finish(program, &pipeline, (&common.store, store), summary, &progress, console);
    // The program with libtorch also comes here first if it was started for the check of the device.
    if let Some(torch) = torch.filter(|_| environment.is_some() || !uses_gpu) {
        return finish(run_stages(torch.run_stage, &options)?, &store);
    }
    let FoundResults { store: found, statuses, held } =
        look_at_results(&pipeline, &store, &options, (&cancel, &observer), (&progress, console))?;
    if let Some(summary) = finish_reused(&statuses, &found, &options, &observer)? {
        progress.clear();
        progress.keep_error(open::print_warnings(&pipeline.warnings, console));
        return finish(summary, &found);
    }
    let summary = match torch {
        _ if !needs_tensors(&pipeline, &statuses) => {
            // Stages without tensors compute on the processor, whatever the device of the others is. The lock is held: a
            // removed result of a stage with tensors could not be computed again here.
            options.device = Device::Cpu;
            run_stages(AnyStage::run_without_tensors, &options)?
        }
        Some(torch) => {
            drop(held);
            run_stages(torch.run_stage, &options)?
        }
        None => {
            drop(held);
            return Err(Sibling::Torch.hand_over());
        }
    };
    finish(summary, &store)
}

/// Results that are there before a run.
struct FoundResults {
    /// The store; read-only if it cannot be written.
    store: Store,
    statuses: Vec<StageStatus>,
    /// Lock that keeps them.
    held: Option<StoreLock>,
}

/// Looks which results are there, and keeps them from being removed.
///
/// # Errors
/// The store cannot be read, or cannot be written and lacks a result.
fn look_at_results(
    pipeline: &Pipeline<AnyStage>,
    store: &Store,
    options: &RunOptions,
    (cancel, observer): (&CancelToken, &Observer<'_>),
    (progress, console): (&ProgressDisplay, Console),
) -> Result<FoundResults> {
    // Otherwise results could be removed between the look at them and the record that they were used.
    let held = match hold_store(store, cancel, observer) {
        // At a URL the server may be out of reach, and each look at a result would wait for it.
        Err(error) if error.category() == ErrorCategory::Interrupted || store.objects().folder().is_none() => {
            return Err(error);
        }
        held => held,
    };
    // A store that cannot be written may have all results.
    let store = if held.is_ok() { store.clone() } else { store.clone().read_only() };
    let (identity, reading) = (options.pipeline_identity(), options.source_reading());
    let statuses = stage_statuses(&pipeline.plan, &store, identity, reading, cancel, observer);
    progress.clear();
    match (held, statuses) {
        (Ok(lock), statuses) => Ok(FoundResults { store, statuses: statuses?, held: Some(lock) }),
        (Err(refusal), Ok(statuses)) if statuses.iter().all(StageStatus::is_reuse) => {
            console.note(&format!("all results are there, but the run is not recorded: {refusal}"));
            let held = lock_for_reading(&store)?;
            Ok(FoundResults { store, statuses, held })
        }
        (Err(refusal), _) => Err(refusal),
    }
}

/// True if a stage that has to run computes with tensors.
fn needs_tensors(pipeline: &Pipeline<AnyStage>, statuses: &[StageStatus]) -> bool {
    let stages = pipeline.plan.stages().iter().zip(statuses);
    stages.filter(|(_, status)| !status.is_reuse()).any(|(node, _)| node.stage.needs_tensors())
}

/// Ends the run of the other ranks, if any, with an error of this rank. Returns the error.
fn abort_run(error: Error, environment: Option<&RankEnvironment>, options: &RunOptions) -> Error {
    match environment {
        Some(environment) => report_startup_error(options, environment, error, &CancelToken::new()),
        None => error,
    }
}

/// Checks the expectations, prints the summary, and returns the result of the run.
fn finish(
    program: &Program,
    pipeline: &Pipeline<AnyStage>,
    (place, store): (&OsStr, &Store),
    mut summary: RunSummary,
    progress: &ProgressDisplay,
    console: Console,
) -> Result<()> {
    let checked = match &summary.error {
        None => {
            // The record is written once more, with everything that is known about the finished run.
            summary.record.scores = best_scores(store, &summary.record)?;
            let checked = expectations::check_expectations(program, pipeline, (place, store), &mut summary.record);
            summary.record.save(store)?;
            checked
        }
        Some(_) => Ok(()),
    };
    let recalls = if summary.error.is_none() { recall_table(store, &summary.record)? } else { String::new() };
    show_summary(store, &summary, (&pipeline.skipped, &recalls), progress, console);
    if let Some(error) = summary.error {
        return Err(error);
    }
    checked?;
    progress.check_written()?;
    match summary.record.expectations.iter().filter(|expectation| !expectation.held).count() {
        0 => Ok(()),
        n => {
            let all = format_items(summary.record.expectations.len(), "expectations");
            Err(Error::new(ErrorCategory::Expectation, format!("{n} of {all} did not hold")))
        }
    }
}

/// Table with a score.
struct ScoredTable {
    name: &'static str,
    /// Column of the score.
    metric: &'static str,
    /// Columns that describe the row of the score.
    described_by: &'static [&'static str],
}

/// Tables with a score. Of `correlations`, it is the coefficient that the column `published` compares with.
const SCORE_TABLES: [ScoredTable; 3] = [
    ScoredTable { name: "summary", metric: "rsum", described_by: &["method", "parameters"] },
    ScoredTable { name: "validation", metric: "rsum", described_by: &["epoch"] },
    ScoredTable { name: "correlations", metric: "pearson", described_by: &["score", "pairs"] },
];

/// Best score of each stage of a run that measures one: of all methods of an evaluation, of all epochs of a training, of
/// all scores that are correlated with ratings.
fn best_scores(store: &Store, record: &RunRecord) -> Result<Vec<ScoreRecord>> {
    let mut scores = Vec::new();
    for stage in &record.stages {
        for table in &SCORE_TABLES {
            if stage.tables.iter().any(|name| name == table.name) {
                scores.extend(best_score(store, stage, table)?);
            }
        }
    }
    Ok(scores)
}

fn best_score(store: &Store, stage: &StageRecord, table: &ScoredTable) -> Result<Option<ScoreRecord>> {
    let ScoredTable { name: table, metric, described_by } = *table;
    let mut best: Option<ScoreRecord> = None;
    for batch in stage_rows(store, stage, table)? {
        let values = tables::float_column(&batch, metric)?;
        for row in (0..batch.num_rows()).filter(|&row| values.is_valid(row) && values.value(row).is_finite()) {
            if best.as_ref().is_none_or(|best| values.value(row) > best.value) {
                best = Some(ScoreRecord {
                    stage: stage.name.clone(),
                    table: table.to_owned(),
                    metric: metric.to_owned(),
                    of: row_name(&batch, row, described_by)?,
                    value: values.value(row),
                });
            }
        }
    }
    Ok(best)
}

/// Values of the columns that describe a row: `csls k=10`, `epoch 3`.
fn row_name(batch: &RecordBatch, row: usize, columns: &[&str]) -> Result<String> {
    let mut words = Vec::new();
    for name in columns {
        if *name == "epoch" {
            words.push(format!("epoch {}", tables::int_column(batch, name)?.value(row)));
        } else {
            let column = tables::text_column(batch, name)?;
            words.extend(column.is_valid(row).then(|| column.value(row).to_owned()));
        }
    }
    Ok(words.join(" "))
}

/// Significant digits of the values of expectations that held.
const EXPECTATION_DIGITS: usize = 6;
/// Warnings shown per stage without `--verbose`.
const SHOWN_WARNINGS: usize = 5;

/// Prints the summary as text; with `--json` the expectations only, since events were printed before.
fn show_summary(
    store: &Store,
    summary: &RunSummary,
    (skipped, recalls): (&[SkippedExpectation], &str),
    progress: &ProgressDisplay,
    console: Console,
) {
    if console.json {
        for SkippedExpectation { expectation, because } in skipped {
            progress.keep_error(console.print_json(&serde_json::json!({
                "event": "expectation", "sql": expectation.sql(), "value": null,
                "wanted": expectation.wanted(), "held": null, "skipped_because": because,
            })));
        }
        for expectation in &summary.record.expectations {
            progress.keep_error(console.print_json(&serde_json::json!({
                "event": "expectation", "sql": expectation.sql, "value": expectation.value,
                "wanted": expectation.wanted, "held": expectation.held,
            })));
        }
        return;
    }
    let seen = progress.summary();
    let mut text = String::from("\n");
    // Before an error of the first stage, the others would be lines that say nothing.
    if console.verbose || !summary.manifests.is_empty() {
        text.push_str(&stage_table(summary, &seen, console.verbose));
    }
    write_warnings(&seen, console.verbose, &mut text);
    // The run ends with its first error, and with `--keep-going` there can be others.
    if seen.failures.len() > 1 {
        let lines = seen.failures.iter().map(|(stage, error)| format!("failed: `{stage}`: {}", one_line(error)));
        let _ = writeln!(text, "{}", TruncatedList::from_iter(lines).join("\n"));
    }
    if let Some(options) = options_without_failures(summary, &seen) {
        let _ = writeln!(text, "to report the other rows, run the same command with {options}");
    }
    if !recalls.is_empty() {
        let _ = write!(text, "\n{recalls}\n");
    }
    for expectation in &summary.record.expectations {
        let verdict = if expectation.held { "held" } else { "did not hold" };
        let value = expectation_value(expectation.value, expectation.held);
        let sql = one_line(&expectation.sql);
        let _ = writeln!(text, "expectation {verdict}: {value}, expected {}: {sql}", expectation.wanted);
    }
    for SkippedExpectation { expectation, because } in skipped.iter().filter(|_| summary.error.is_none()) {
        let (wanted, sql) = (expectation.wanted(), one_line(&expectation.sql()));
        let because = one_line(because);
        let _ = writeln!(text, "expectation not checked, as `{because}` changes what it is about: {wanted}: {sql}");
    }
    text.push_str(&closing_line(summary, &seen, console.verbose));
    let end = if store.is_read_only() { String::new() } else { format!("; run {}", summary.record.run) };
    let _ = writeln!(text, "{end}");
    for (stage, page) in html_pages(store, summary) {
        let _ = writeln!(text, "report of `{stage}`: {page}");
    }
    console.info(&text);
}

/// Options that leave out the instances of the matrix that failed; `None` if another stage failed, or none did.
fn options_without_failures(summary: &RunSummary, seen: &EventSummary) -> Option<String> {
    let mut options: Vec<String> = Vec::new();
    for stage in summary.record.stages.iter().filter(|stage| seen.failures.contains_key(&stage.name)) {
        let (_, values) = stage.name.split_once(INSTANCE_SIGN)?;
        let option = format!("--except {values}");
        if !options.contains(&option) {
            options.push(option);
        }
    }
    (!options.is_empty()).then(|| options.join(" "))
}

/// Value of an expectation for display. A value that failed is exact, since rounding could hide by how little.
fn expectation_value(value: Option<f64>, held: bool) -> String {
    match value {
        None => "no value".to_owned(),
        Some(value) if held => format_number(value, EXPECTATION_DIGITS),
        Some(value) => value.to_string(),
    }
}

/// Number of stages that ran, were reused, failed and were not finished, and the time.
fn closing_line(summary: &RunSummary, seen: &EventSummary, has_peak: bool) -> String {
    let stages = &summary.record.stages;
    let reused = stages.iter().filter(|stage| stage.reused).count();
    let unfinished = stages.iter().filter(|stage| !summary.manifests.contains_key(&stage.name)).count();
    let ran = stages.len() - reused - unfinished;
    let failed = seen.failures.len();
    let mut line = format!("{ran} of {} ran", format_items(stages.len(), "stages"));
    if ran + unfinished > 0 {
        let _ = write!(line, " in {}", format_duration(seen.seconds));
    }
    let not_finished = unfinished.saturating_sub(failed);
    for (number, what) in [(reused, "reused"), (failed, "failed"), (not_finished, "not finished")] {
        if number > 0 {
            let _ = write!(line, ", {number} {what}");
        }
    }
    if has_peak && ran > 0 {
        let _ = write!(line, ", at most {} between threads", format_bytes(summary.peak_bytes_in_flight));
    }
    line
}

/// Table with a row for each stage. Instances of a stage are one row, with the sum of their times.
fn stage_table(summary: &RunSummary, seen: &EventSummary, is_verbose: bool) -> String {
    let title = ["stage", "kind", "was", "rows", "time"].map(str::to_owned).to_vec();
    let mut rows = vec![title];
    for group in stage_groups(&summary.record.stages, is_verbose) {
        let was = |stage: &StageRecord| {
            let is_resumed = seen.resumed.contains_key(&stage.name);
            match (stage.reused, summary.manifests.contains_key(&stage.name), is_resumed) {
                (true, ..) => "reused",
                (false, false, _) if seen.failures.contains_key(&stage.name) => "failed",
                (false, false, _) => "not finished",
                (false, true, true) => "resumed",
                (false, true, false) => "run",
            }
        };
        // A stage that writes files only, such as a report, has no rows.
        let manifests = group.members.iter().filter_map(|stage| summary.manifests.get(&stage.name));
        let there: Vec<u64> = manifests.filter(|manifest| !manifest.tables.is_empty()).map(Manifest::rows).collect();
        let there = if there.is_empty() { String::new() } else { format_count(there.iter().sum()) };
        let seconds: Vec<f64> = group.members.iter().filter_map(|stage| stage.seconds).collect();
        let time = if seconds.is_empty() { String::new() } else { format_duration(seconds.iter().sum()) };
        let was = counts(group.members.iter().map(|stage| was(stage)));
        rows.push(vec![group.name.clone(), group.members[0].kind.clone(), was, there, time]);
    }
    align_columns(&rows, &[false, false, false, true, true])
}

/// Appends the first warnings of each stage and the number of the others.
fn write_warnings(seen: &EventSummary, all: bool, text: &mut String) {
    for (stage, warnings) in &seen.warnings {
        let mut lines = TruncatedList::new(if all { usize::MAX } else { SHOWN_WARNINGS });
        lines.extend(warnings.iter().map(|warning| {
            format!("warning: `{stage}`: {}: {}", one_line(&warning.subject), one_line(&warning.message))
        }));
        let rest = if lines.is_truncated() { "; `-v` shows all, SQL has them in `store.warnings`" } else { "" };
        let _ = writeln!(text, "{}{rest}", lines.join("\n"));
    }
}

/// Paths of HTML reports, with their stages.
fn html_pages(store: &Store, summary: &RunSummary) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    for stage in &summary.record.stages {
        let Some(manifest) = summary.manifests.get(&stage.name) else { continue };
        let files =
            manifest.files.iter().flat_map(|(output, files)| files.iter().map(move |file| (output, &file.name)));
        let html = files.filter(|(_, name)| name.ends_with(".html"));
        let artefact = store.artefact(&stage.kind, &stage.key);
        pages.extend(html.map(|(output, name)| {
            (stage.name.clone(), relative_to_current(artefact.display_path(&format!("{output}/{name}"))))
        }));
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_expectations_are_rounded_if_they_held() {
        assert_eq!(expectation_value(Some(125.600_000_000_000_01), true), "125.6");
        assert_eq!(expectation_value(Some(8.0), true), "8");
        assert_eq!(expectation_value(Some(149.999_999), false), "149.999999");
        assert_eq!(expectation_value(None, false), "no value");
    }
}
