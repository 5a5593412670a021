//! `pairloom plan FILE`: the dry run.

use serde_json::json;

use super::args::{Common, Pipeline as Arguments};
use super::bytes::count;
use super::open;
use super::output::{Output, columns};
use super::progress::Progress;
use crate::engine::status::{StageStatus, Verdict, status};
use crate::error::Result;
use crate::runtime::Cancel;

/// Shows for each stage whether it would be reused, resumed or run, and which component of its key changed.
///
/// # Errors
/// Mistakes of the pipeline file; the store cannot be read.
pub(super) fn plan(common: &Common, arguments: &Arguments, output: Output) -> Result<()> {
    let pipeline =
        open::pipeline(&arguments.file, &arguments.set, true).map_err(|faults| open::show(&faults, output))?;
    let store = open::store(common)?;
    open::note_threads(common, output);
    let progress = Progress::new(Output { json: false, ..output });
    let observer = |event: &crate::engine::event::Event| progress.see(event);
    let statuses = status(&pipeline.plan, &store, open::threads(common), &Cancel::new(), &observer)?;
    progress.clear();
    if output.json {
        for status in &statuses {
            let (verdict, rows) = verdict(status);
            output.object(&json!({
                "stage": status.name, "kind": status.kind, "key": status.key.as_str(),
                "verdict": verdict, "rows": rows, "reasons": status.reasons,
            }))?;
        }
        return Ok(());
    }
    let title = ["stage", "kind", "key", "would be", "rows", "why"].map(str::to_owned).to_vec();
    let mut rows = vec![title];
    for status in &statuses {
        let (verdict, there) = verdict(status);
        let there = there.map(count).unwrap_or_default();
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
    output.data(&columns(&rows, &[false, false, false, false, true, false]))?;
    let missing = statuses.iter().filter(|status| !status.is_reuse()).count();
    output.note(&format!("{missing} of {} stages would run\n", statuses.len()));
    Ok(())
}

/// The verdict in a word, and the rows that are there already.
fn verdict(status: &StageStatus) -> (&'static str, Option<u64>) {
    match &status.verdict {
        Verdict::Reuse(manifest) => ("reused", Some(manifest.rows())),
        Verdict::Resume { rows } => ("resumed", Some(*rows)),
        Verdict::Run => ("run", None),
    }
}
