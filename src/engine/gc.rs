//! Removes what no recent run needs.

use std::collections::BTreeSet;

use crate::engine::claim::alone;
use crate::engine::record::all_records;
use crate::engine::store::Store;
use crate::error::{Error, Result};

/// An artefact that nobody needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Garbage {
    /// Kind and key: `extract/0d1c…`.
    pub name: String,
    /// Bytes that its removal frees.
    pub bytes: u64,
}

/// Artefacts, complete or not, that none of the last `keep_runs` runs named. With `remove` they are removed; records of
/// older runs go too.
///
/// # Errors
/// The store cannot be read or written; a record of a run cannot be read, so nobody knows what it needs; something is to
/// be removed while a run uses the store.
pub fn collect(store: &Store, keep_runs: usize, remove: bool) -> Result<Vec<Garbage>> {
    let _alone = if remove {
        let alone = alone(store)?;
        Some(alone.ok_or_else(|| Error::usage("a run uses this store").hint("try again when it has ended"))?)
    } else {
        None
    };
    let mut kept: BTreeSet<String> = BTreeSet::new();
    let mut old_runs = Vec::new();
    for (i, record) in all_records(store)?.enumerate() {
        let record =
            record.map_err(|error| error.hint("remove this file if you know that nothing of its run is needed"))?;
        if i < keep_runs {
            kept.extend(record.stages.iter().map(|stage| format!("{}/{}", stage.kind, stage.key)));
        } else {
            old_runs.push(record.run);
        }
    }
    let root = store.objects().folder();
    let mut garbage = Vec::new();
    for kind in folders(root)?.into_iter().filter(|kind| kind != "runs" && kind != "sources") {
        for key in folders(&root.join(&kind))? {
            let name = format!("{kind}/{key}");
            if kept.contains(&name) {
                continue;
            }
            let folder = root.join(&name);
            let files = walkdir::WalkDir::new(&folder).into_iter().filter_map(std::result::Result::ok);
            let bytes = files
                .filter_map(|entry| entry.metadata().ok())
                .filter(std::fs::Metadata::is_file)
                .map(|meta| meta.len())
                .sum();
            if remove {
                let artefact = store.artefact(
                    &kind,
                    &serde_json::from_value(key.into()).map_err(|error| Error::internal(error.to_string()))?,
                );
                artefact.clear()?;
                std::fs::remove_dir_all(&folder).map_err(|error| Error::io("remove the folder", &folder, &error))?;
            }
            garbage.push(Garbage { name, bytes });
        }
    }
    if remove {
        for run in old_runs {
            store.objects().delete(&format!("runs/{run}.json"))?;
        }
    }
    Ok(garbage)
}

/// Names of the folders in a folder, sorted.
fn folders(folder: &std::path::Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::io("read the folder", folder, &error))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::io("read the folder", folder, &error))?;
        if entry.path().is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}
