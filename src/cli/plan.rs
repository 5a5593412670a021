//! `pairloom plan FILE`: dry run.

use serde_json::json;

use super::args::{CommonArgs, PipelineArgs};
use super::console::{Console, align_columns};
use super::open;
use super::progress::ProgressDisplay;
use super::units::{format_count, format_items};
use crate::engine::status::{StageAction, StageStatus, stage_statuses};
use crate::error::Result;
use crate::runtime::CancelToken;

/// Writes nothing. Prints for each stage if it would be reused, resumed or run, and which components of its key changed.
///
/// # Errors
/// The pipeline file has mistakes, or the store cannot be read.
pub(super) fn plan(common: &CommonArgs, arguments: &PipelineArgs, console: Console) -> Result<()> {
    let pipeline = open::load_pipeline(&arguments.file, &arguments.set, true)
        .map_err(|diagnostics| open::print_diagnostics(&diagnostics, console))?;
    let (store, note) = open::open_store_to_plan(common)?;
    open::print_warnings(&pipeline.warnings, console);
    if let Some(note) = note {
        console.info(&format!("{note}\n"));
    }
    open::note_thread_limit(common, console);
    let progress = ProgressDisplay::new(Console { json: false, ..console });
    let observer = |event: &crate::engine::event::Event| progress.show(event);
    let identity = open::pipeline_path(&arguments.file).unwrap_or_else(|| open::pipeline_name(&arguments.file));
    let statuses =
        stage_statuses(&pipeline.plan, &store, &identity, open::threads(common), &CancelToken::new(), &observer);
    progress.clear();
    let statuses = statuses?;
    if console.json {
        for status in &statuses {
            let (verdict, rows) = action_and_rows(status);
            console.print_json(&json!({
                "stage": status.name, "kind": status.kind, "key": status.key.as_str(),
                "verdict": verdict, "rows": rows, "reasons": status.reasons,
            }))?;
        }
        return Ok(());
    }
    let title = ["stage", "kind", "key", "would be", "rows", "why"].map(str::to_owned).to_vec();
    let mut rows = vec![title];
    for status in &statuses {
        let (verdict, there) = action_and_rows(status);
        let there = there.map(format_count).unwrap_or_default();
        let mut reasons = status.reasons.iter();
        let first = reasons.next().cloned().unwrap_or_default();
        rows.push(vec![
            status.name.clone(),
            status.kind.clone(),
            status.key.short().to_owned(),
            verdict.to_owned(),
            there,
            first,
        ]);
        let empty = || vec![String::new(); 5];
        rows.extend(reasons.map(|reason| [empty(), vec![reason.clone()]].concat()));
    }
    console.print(&align_columns(&rows, &[false, false, false, false, true, false]))?;
    let missing = statuses.iter().filter(|status| !status.is_reuse()).count();
    console.info(&format!("{missing} of {} would run\n", format_items(statuses.len(), "stages")));
    Ok(())
}

/// Name of the action, and the number of rows that exist already.
fn action_and_rows(status: &StageStatus) -> (&'static str, Option<u64>) {
    match &status.action {
        StageAction::Reuse(manifest) => ("reused", Some(manifest.rows())),
        StageAction::Resume { rows } => ("resumed", Some(*rows)),
        StageAction::Run => ("run", None),
    }
}
