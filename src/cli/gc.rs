//! `pairloom gc`: garbage collection of artefacts.

use az::SaturatingAs;
use serde_json::json;

use super::args::{CommonArgs, GcArgs};
use super::console::{Console, align_columns};
use super::open;
use super::units::format_bytes;
use crate::error::Result;
use crate::store::gc::collect_garbage;

/// Lists the artefacts that no recent run used, and removes them if `--delete` is given.
///
/// # Errors
/// The store cannot be read or written.
pub(super) fn gc(common: &CommonArgs, arguments: &GcArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let keep = arguments.keep_runs.saturating_as::<usize>();
    let garbage = collect_garbage(&store, keep, arguments.delete)?;
    if console.json {
        for item in &garbage {
            console.print_json(&json!({ "name": item.name, "bytes": item.bytes, "removed": arguments.delete }))?;
        }
        return Ok(());
    }
    let rows: Vec<_> = garbage.iter().map(|item| vec![item.name.clone(), format_bytes(item.bytes)]).collect();
    console.print(&align_columns(&rows, &[false, true]))?;
    let total = format_bytes(garbage.iter().map(|item| item.bytes).sum());
    let artefacts = garbage.len();
    console.info(&match (artefacts, arguments.delete) {
        (0, _) => format!("nothing to remove: the last {keep} runs use all artefacts\n"),
        (_, true) => format!("removed {artefacts} artefacts, {total}\n"),
        (_, false) => format!("{artefacts} artefacts, {total}, can be removed: run with `--delete`\n"),
    });
    Ok(())
}
