//! `pairloom gc`: garbage collection of the results of old runs.

use az::SaturatingAs;
use serde_json::json;

use super::args::{CommonArgs, GcArgs};
use super::console::{Console, align_columns, one_line};
use super::open;
use super::units::{format_age, format_bytes, format_items};
use pairloom_base::error::{Result, TruncatedList};
use pairloom_store::gc::{Garbage, GarbageCollection, PinnedArtefact, collect_garbage};

/// Runs that the summary names.
const SHOWN_RUNS: usize = 10;

/// Lists the results that nothing keeps, and removes them if `--delete` is given.
///
/// # Errors
/// The store cannot be read or written.
pub(super) fn gc(common: &CommonArgs, arguments: &GcArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    if let Some(kind) = store.unshared_locks().filter(|_| arguments.delete) {
        console.note(&format!(
            "the store is on a disk of kind `{kind}`, whose locks other machines may not see: results of a run on another \
             machine may be removed"
        ));
    }
    let keep = arguments.keep_runs.saturating_as::<usize>();
    let GarbageCollection { garbage, runs, spared_runs, pinned, searches } =
        collect_garbage(&store, keep, arguments.delete)?;
    if console.json {
        for item in &garbage {
            console.print_json(&json!({
                "kind": item.kind, "key": item.key, "name": format!("{}/{}", item.kind, item.key),
                "stages": item.stages, "pipelines": item.pipelines, "bytes": item.bytes,
                "freed_bytes": item.freed_bytes,
                "last_run": item.last_use.as_ref().map(|(run, _)| run),
                "last_used": item.last_use.as_ref().map(|(_, time)| time),
                "reason": reason(item, keep), "removed": arguments.delete,
            }))?;
        }
        let (objects, bytes) = searches;
        if objects > 0 {
            console.print_json(&json!({
                "kind": "searches", "objects": objects, "bytes": bytes, "freed_bytes": bytes,
                "removed": arguments.delete,
            }))?;
        }
        return Ok(());
    }
    if !garbage.is_empty() {
        let title = ["stage", "kind", "key", "pipeline", "size", "last used", "why"].map(str::to_owned).to_vec();
        let rows: Vec<_> = std::iter::once(title).chain(garbage.iter().map(|item| table_row(item, keep))).collect();
        console.print(&align_columns(&rows, &[false, false, false, false, true, false, false]))?;
    }
    let (bytes, freed_bytes) =
        garbage.iter().fold((0, 0), |(bytes, freed), item| (bytes + item.bytes, freed + item.freed_bytes));
    let total = if freed_bytes == bytes {
        format_bytes(bytes)
    } else {
        format!("{} of {}, as other names of their files stay", format_bytes(freed_bytes), format_bytes(bytes))
    };
    let results = format_items(garbage.len(), "results");
    console.info(&match (garbage.len(), arguments.delete) {
        (0, _) if keep == 1 => {
            "nothing to remove: the last run of each pipeline and the labels keep all results\n".to_owned()
        }
        (0, _) => {
            format!(
                "nothing to remove: the last {keep} different runs of each pipeline and the labels keep all results\n"
            )
        }
        (_, true) => format!("removed {results}, {total}\n"),
        (_, false) => format!("{results}, {total}, can be removed: run with `--delete`\n"),
    });
    if searches.0 > 0 {
        let objects = format_items(searches.0, "objects");
        let (bytes, what) = (format_bytes(searches.1), "that searches of interrupted runs on a cluster left");
        console.info(&if arguments.delete {
            format!("removed {objects}, {bytes}, {what}\n")
        } else {
            format!("{objects}, {bytes}, {what}, can be removed: run with `--delete` when no run uses the store\n")
        });
    }
    if !runs.is_empty() {
        let mut names = TruncatedList::new(SHOWN_RUNS);
        names.extend(runs.iter().map(|(run, pipeline)| one_line(&format!("{run} of {pipeline}"))));
        let count = format_items(runs.len(), "runs");
        let lose = if arguments.delete { "lost" } else { "would lose" };
        let rest = match (runs.len(), arguments.delete) {
            (1, true) => "its record stays, and its command can run again",
            (1, false) => "its record would stay, and its command can run again",
            (_, true) => "their records stay, and their commands can run again",
            (_, false) => "their records would stay, and their commands can run again",
        };
        console.info(&format!("{count} {lose} results; {rest}:\n  {}\n", names.join("\n  ")));
    }
    if !spared_runs.is_empty() {
        let mut names = TruncatedList::new(SHOWN_RUNS);
        names.extend(spared_runs.iter().map(|(run, reason)| format!("{run} ({reason})")));
        console.note(&format!("kept because of a label: {}", names.join(", ")));
    }
    if !pinned.is_empty() {
        let mut names = TruncatedList::new(SHOWN_RUNS);
        names.extend(pinned.iter().map(pinned_name));
        console.note(&format!("kept because of a pin, with everything that they follow from: {}", names.join(", ")));
    }
    Ok(())
}

/// Name of a pinned result: `fit (train/0d1c3a5b) of RUN`.
fn pinned_name(of: &PinnedArtefact) -> String {
    let key = of.key.get(..8).unwrap_or(&of.key);
    match &of.last_use {
        Some((run, stage)) => format!("`{stage}` ({}/{key}) of {run}", of.kind),
        None => format!("{}/{key}", of.kind),
    }
}

fn table_row(item: &Garbage, keep: usize) -> Vec<String> {
    let join = |names: &std::collections::BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
    [
        join(&item.stages),
        item.kind.clone(),
        item.key.get(..8).unwrap_or(&item.key).to_owned(),
        join(&item.pipelines),
        format_bytes(item.bytes),
        item.last_use.as_ref().map(|(_, time)| format_age(*time)).unwrap_or_default(),
        reason(item, keep),
    ]
    .map(|cell| one_line(&cell))
    .to_vec()
}

/// Reason why nothing keeps a result.
fn reason(item: &Garbage, keep: usize) -> String {
    match (&item.last_use, keep) {
        (None, _) => "no run of this store used it".to_owned(),
        (Some(_), 1) => "a different run of its pipeline is newer".to_owned(),
        (Some(_), keep) => format!("{keep} different runs of its pipeline are newer"),
    }
}
