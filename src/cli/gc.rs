//! `pairloom gc`.

use az::SaturatingAs;
use serde_json::json;

use super::args::{Common, Gc};
use super::bytes::human;
use super::open;
use super::output::{Output, columns};
use crate::error::Result;
use crate::store::gc::collect;

/// Says what no recent run needs, and removes it when told to.
///
/// # Errors
/// The store cannot be read or written.
pub(super) fn gc(common: &Common, arguments: &Gc, output: Output) -> Result<()> {
    let store = open::existing_store(common)?;
    let keep = arguments.keep_runs.saturating_as::<usize>();
    let garbage = collect(&store, keep, arguments.delete)?;
    if output.json {
        for item in &garbage {
            output.object(&json!({ "name": item.name, "bytes": item.bytes, "removed": arguments.delete }))?;
        }
        return Ok(());
    }
    let rows: Vec<_> = garbage.iter().map(|item| vec![item.name.clone(), human(item.bytes)]).collect();
    output.data(&columns(&rows, &[false, true]))?;
    let total = human(garbage.iter().map(|item| item.bytes).sum());
    let artefacts = garbage.len();
    output.note(&match (artefacts, arguments.delete) {
        (0, _) => format!("nothing to remove: the last {keep} runs need everything\n"),
        (_, true) => format!("removed {artefacts} artefacts, {total}\n"),
        (_, false) => format!("{artefacts} artefacts, {total}, could go; `--delete` removes them\n"),
    });
    Ok(())
}
