//! `pairloom plan FILE`: dry run.

use serde_json::json;

use super::args::{CommonArgs, PipelineArgs};
use super::console::{Console, align_columns};
use super::open;
use super::progress::ProgressDisplay;
use super::run_texts::{StageGroup, coordinates_json, counts, stage_groups};
use super::start::Program;
use super::units::{format_count, format_items};
use pairloom_base::error::Result;
use pairloom_base::runtime::CancelToken;
use pairloom_engine::earlier_rows::NewRows;
use pairloom_engine::sources::SourceReading;
use pairloom_engine::status::{StageAction, StageStatus, stage_statuses};

/// Different reasons of the instances of a stage that are shown.
const SHOWN_REASONS: usize = 2;

/// Writes nothing. Prints for each stage if it would be reused, resumed or run, and which components of its key changed.
///
/// # Errors
/// The pipeline file has mistakes, or the store cannot be read.
pub(super) fn plan(common: &CommonArgs, arguments: &PipelineArgs, program: &Program, console: Console) -> Result<()> {
    let (pipeline, unchecked) = open::load_pipeline(arguments, true, program)
        .map_err(|diagnostics| open::print_diagnostics(&diagnostics, console))?;
    open::note_unchecked(unchecked, console);
    let (store, note) = open::open_store_to_plan(common)?;
    open::print_warnings(&pipeline.warnings, console)?;
    if let Some(note) = note {
        console.info(&format!("{note}\n"));
    }
    open::note_thread_limit(common, console);
    let progress = ProgressDisplay::new(Console { json: false, ..console });
    let observer = |event: &pairloom_engine::event::Event| progress.show(event);
    let identity = open::pipeline_path(&arguments.file).unwrap_or_else(|| open::pipeline_name(&arguments.file));
    let reading = SourceReading { threads: open::threads(common), trusts_folder_times: arguments.trust_folder_times };
    let statuses = stage_statuses(&pipeline.plan, &store, &identity, reading, &CancelToken::new(), &observer);
    progress.clear();
    let statuses = statuses?;
    if console.json {
        for status in &statuses {
            let (verdict, rows) = action_and_rows(status);
            console.print_json(&json!({
                "stage": status.name, "coordinates": coordinates_json(&status.coordinates), "kind": status.kind, "key": status.key.as_str(),
                "verdict": verdict, "rows": rows, "reasons": status.reasons,
                "new_rows": status.new_rows.as_ref().and_then(NewRows::count).map(|count| count.new),
            }))?;
        }
        return Ok(());
    }
    let title = ["stage", "kind", "key", "would be", "rows", "why"].map(str::to_owned).to_vec();
    let mut rows = vec![title];
    for group in stage_groups(&statuses, console.verbose) {
        rows.extend(group_rows(&group));
    }
    console.print(&align_columns(&rows, &[false, false, false, false, true, false]))?;
    let missing = statuses.iter().filter(|status| !status.is_reuse()).count();
    console.info(&format!("{missing} of {} would run\n", format_items(statuses.len(), "stages")));
    Ok(())
}

/// Rows of a stage, or of the instances of a repeated one: one, and one more for each further reason.
fn group_rows(group: &StageGroup<'_, StageStatus>) -> Vec<Vec<String>> {
    let verdicts = group.members.iter().map(|status| action_and_rows(status));
    let there: Vec<u64> = verdicts.clone().filter_map(|(_, rows)| rows).collect();
    let mut reasons: Vec<&str> = Vec::new();
    for reason in group.members.iter().flat_map(|status| &status.reasons) {
        if !reasons.contains(&reason.as_str()) {
            reasons.push(reason);
        }
    }
    // Instances have different reasons where their settings differ.
    let shown = if group.members.len() == 1 { reasons.len() } else { SHOWN_REASONS };
    let more = reasons.len().saturating_sub(shown);
    let mut lines: Vec<String> = reasons.into_iter().take(shown).map(str::to_owned).collect();
    if more > 0 {
        lines.push(format!("and {more} more; `-v` shows each instance"));
    }
    let key = match group.members.as_slice() {
        [only] => only.key.short().to_owned(),
        _ => String::new(),
    };
    let mut lines = lines.into_iter();
    let first = vec![
        group.name.clone(),
        group.members[0].kind.clone(),
        key,
        counts(verdicts.map(|(verdict, _)| verdict)),
        if there.is_empty() { String::new() } else { format_count(there.iter().sum()) },
        lines.next().unwrap_or_default(),
    ];
    let empty = || vec![String::new(); 5];
    std::iter::once(first).chain(lines.map(|reason| [empty(), vec![reason]].concat())).collect()
}

/// Name of the action, and the number of rows that exist already.
fn action_and_rows(status: &StageStatus) -> (&'static str, Option<u64>) {
    match &status.action {
        StageAction::Reuse(manifest) => ("reused", Some(manifest.rows())),
        StageAction::Resume { rows } => ("resumed", Some(*rows)),
        StageAction::Run => ("run", None),
    }
}
