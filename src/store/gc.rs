//! Garbage collection: removes artefacts that no recent run uses.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::store::claim::try_lock_for_removal;
use crate::store::record::try_records;
use crate::store::{LOCKS_FOLDER, Store};

/// An artefact that no recent run uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Garbage {
    /// Kind and key: `extract/0d1c…`.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// Finds the artefacts, complete or not, that none of the last `keep_runs` runs used. With `remove`, removes them and
/// the records of older runs.
///
/// # Errors
/// The store cannot be read or written; a record of a run cannot be read, so that its artefacts are unknown; or
/// `remove` is set while a run uses the store.
pub fn collect_garbage(store: &Store, keep_runs: usize, remove: bool) -> Result<Vec<Garbage>> {
    let _removal_lock = if remove {
        let lock = try_lock_for_removal(store)?;
        Some(lock.ok_or_else(|| Error::usage("a run uses this store").hint("try again when it has ended"))?)
    } else {
        None
    };
    let mut used: BTreeSet<String> = BTreeSet::new();
    let mut old_runs = Vec::new();
    for (i, record) in try_records(store)?.enumerate() {
        let record =
            record.map_err(|error| error.hint("remove this file if you know that nothing of its run is needed"))?;
        if i < keep_runs {
            used.extend(record.stages.iter().map(|stage| format!("{}/{}", stage.kind, stage.key)));
        } else {
            old_runs.push(record.run);
        }
    }
    let mut artefacts: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (name, bytes) in store.objects().sizes("")? {
        if let [kind, key, _, ..] = name.split('/').collect::<Vec<_>>()[..]
            && !["runs", "sources", LOCKS_FOLDER].contains(&kind)
        {
            *artefacts.entry((kind.to_owned(), key.to_owned())).or_default() += bytes;
        }
    }
    let mut garbage = Vec::new();
    for ((kind, key), bytes) in artefacts {
        let name = format!("{kind}/{key}");
        if used.contains(&name) {
            continue;
        }
        if remove {
            let key = serde_json::from_value(key.into()).map_err(|error| Error::internal(error.to_string()))?;
            store.artefact(&kind, &key).remove()?;
        }
        garbage.push(Garbage { name, bytes });
    }
    if remove {
        let records: Vec<String> = old_runs.into_iter().map(|run| format!("runs/{run}.json")).collect();
        store.objects().delete_all(&records)?;
    }
    Ok(garbage)
}
