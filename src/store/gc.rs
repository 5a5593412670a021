//! Garbage collection: removes the results of old runs. Records of runs stay.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::claim::try_lock_for_removal;
use crate::key::Key;
use crate::labels::Labels;
use crate::lineage::Lineage;
use crate::record::RunLog;
use crate::record::{RunOutcome, RunRecord};
use crate::{
    Artefact, CLUSTER_FOLDER, LOCKS_FOLDER, SEARCH_FOLDER, SOURCES_FOLDER, Store, folder_times_name, source_list_name,
};
use pairloom_base::error::{Error, Result};

/// Folders of a store that hold no artefacts.
const OTHER_FOLDERS: [&str; 8] =
    ["runs", SOURCES_FOLDER, "tags", "notes", "pins", LOCKS_FOLDER, SEARCH_FOLDER, CLUSTER_FOLDER];

/// Artefact, complete or not, that garbage collection removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Garbage {
    /// Kind of the stage.
    pub kind: String,
    /// Key.
    pub key: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes of the disk that its removal frees, after that of the items before it. A file that artefacts share is freed with
    /// the last of them.
    pub freed_bytes: u64,
    /// Names of the stages that used it.
    pub stages: BTreeSet<String>,
    /// Pipeline files whose runs used it.
    pub pipelines: BTreeSet<String>,
    /// Name and start of the last run that used it; `None` if no run of the store did.
    pub last_use: Option<(String, jiff::Timestamp)>,
}

/// Pinned artefact, which stays with everything that it follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedArtefact {
    /// Kind of the stage.
    pub kind: String,
    /// Key.
    pub key: String,
    /// Latest run that used it, and the name of the stage; `None` if no run of the store did.
    pub last_use: Option<(String, String)>,
}

/// Result of a garbage collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GarbageCollection {
    /// Removed artefacts, ordered by the time of the last use.
    pub garbage: Vec<Garbage>,
    /// Runs that lose results, latest first: name and pipeline.
    pub runs: Vec<(String, String)>,
    /// Runs whose results stay because of a label, with the reason: name and reason.
    pub spared_runs: Vec<(String, String)>,
    /// Pinned artefacts, ordered by kind and key.
    pub pinned: Vec<PinnedArtefact>,
    /// Objects that searches of interrupted runs on a cluster left, and their bytes.
    pub searches: (usize, u64),
}

/// Finds the artefacts that nothing keeps. With `remove`, removes them.
///
/// An artefact is kept if
/// - it belongs to one of the last `keep_runs` different finished runs of a pipeline: repeats with the same results
///   count once, and runs that did not finish count for none;
/// - it belongs to a run that is later than these and did not finish;
/// - it belongs to a run with a tag, a note or a pin;
/// - it is pinned itself, or a pinned artefact follows from it.
///
/// # Errors
/// The store cannot be read or written; a record of a run cannot be read, so that its artefacts are unknown; or
/// `remove` is set while a run uses the store.
pub fn collect_garbage(store: &Store, keep_runs: usize, remove: bool) -> Result<GarbageCollection> {
    let _removal_lock = if remove {
        let lock = try_lock_for_removal(store)?;
        Some(lock.ok_or_else(|| Error::usage("a run or a query uses this store").hint("try again when it has ended"))?)
    } else {
        None
    };
    let log = RunLog::open(store)?;
    log.read_all()?;
    let labels = Labels::read(store)?;
    let runs = log.iter().collect::<Result<Vec<&RunRecord>>>();
    let runs = runs.map_err(|error| error.hint("remove this file if you know that nothing of its run is needed"))?;
    let recent = recent_runs(&runs, keep_runs);
    let mut kept: BTreeSet<(String, String)> = BTreeSet::new();
    let mut source_lists: BTreeSet<String> = BTreeSet::new();
    let mut result = GarbageCollection::default();
    for run in &runs {
        let spared = labels.reason_to_keep(&run.run);
        if let Some(reason) = &spared {
            result.spared_runs.push((run.run.clone(), reason.clone()));
        }
        if spared.is_some() || recent.contains(run.run.as_str()) {
            kept.extend(run.stages.iter().map(|stage| (stage.kind.clone(), stage.key.to_string())));
            source_lists
                .extend(run.stages.iter().flat_map(|stage| stage.sources.values()).flat_map(|path| objects_of(path)));
        }
    }
    kept.extend(pinned_artefacts(&log, &labels)?);
    result.garbage = find_garbage(&log, &runs, &kept)?;
    let names: BTreeSet<(&str, &str)> =
        result.garbage.iter().map(|item| (item.kind.as_str(), item.key.as_str())).collect();
    result.pinned = labels.pinned_artefacts.iter().map(|(kind, key)| pinned_artefact(&runs, kind, key)).collect();
    let loses =
        |run: &&&RunRecord| run.stages.iter().any(|stage| names.contains(&(stage.kind.as_str(), stage.key.as_str())));
    let pipelines = log.pipeline_names()?;
    result.runs = runs.iter().filter(loses).map(|run| (run.run.clone(), shown_pipeline(&pipelines, run))).collect();
    let searches = store.objects().sizes(SEARCH_FOLDER)?;
    result.searches = (searches.len(), searches.values().sum());
    if remove {
        // No run uses the store, so nobody waits for searches.
        store.objects().delete_all(&searches.into_keys().collect::<Vec<_>>())?;
        // Without its list, a source is read again at its next use.
        let unused = store.objects().list(SOURCES_FOLDER)?.into_iter().filter(|name| !source_lists.contains(name));
        store.objects().delete_all(&unused.collect::<Vec<_>>())?;
        for item in &result.garbage {
            let artefact = artefact_of(store, &(item.kind.clone(), item.key.clone()));
            artefact.ok_or_else(|| Error::internal("a key that is none"))?.remove()?;
        }
    }
    Ok(result)
}

/// Names of the objects that tell what is known of a source, by its path in a record.
fn objects_of(path: &str) -> [String; 2] {
    let path = Path::new(path);
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    [source_list_name(&path), folder_times_name(&path)]
}

/// Artefact of a kind and key; `None` if the text is no key.
fn artefact_of(store: &Store, (kind, key): &(String, String)) -> Option<Artefact> {
    let key: Key = serde_json::from_value(key.clone().into()).ok()?;
    Some(store.artefact(kind, &key))
}

/// Names of the runs that are kept because they are recent. `runs` is ordered from the latest to the first.
fn recent_runs<'r>(runs: &[&'r RunRecord], keep_runs: usize) -> BTreeSet<&'r str> {
    let mut different: BTreeMap<&str, Vec<&RunRecord>> = BTreeMap::new();
    let mut recent = BTreeSet::new();
    for run in runs {
        let seen = different.entry(run.pipeline_identity()).or_default();
        let is_repeat = seen.iter().any(|other| run.is_repeat_of(other));
        if is_repeat || seen.len() < keep_runs {
            recent.insert(run.run.as_str());
            if !is_repeat && run.outcome == RunOutcome::Finished {
                seen.push(run);
            }
        }
    }
    recent
}

/// Name of the pipeline of a run for display.
fn shown_pipeline(names: &BTreeMap<&str, &str>, run: &RunRecord) -> String {
    (*names.get(run.pipeline_identity()).unwrap_or(&run.pipeline.as_str())).to_owned()
}

/// Pinned artefact with its latest use. `runs` is ordered from the latest to the first.
fn pinned_artefact(runs: &[&RunRecord], kind: &str, key: &str) -> PinnedArtefact {
    let stage_of = |run: &&RunRecord| {
        let stage = run.stages.iter().find(|stage| stage.kind == kind && stage.key.as_str() == key)?;
        Some((run.run.clone(), stage.name.clone()))
    };
    PinnedArtefact { kind: kind.to_owned(), key: key.to_owned(), last_use: runs.iter().find_map(stage_of) }
}

/// Pinned artefacts and everything that they follow from, as kind and key.
fn pinned_artefacts(log: &RunLog, labels: &Labels) -> Result<BTreeSet<(String, String)>> {
    let mut kept = BTreeSet::new();
    if labels.pinned_artefacts.is_empty() {
        return Ok(kept);
    }
    // Records know more than manifests: a result in between may be gone.
    let recorded = Lineage::of_runs(log)?;
    for (kind, key) in &labels.pinned_artefacts {
        kept.insert((kind.clone(), key.clone()));
        let Ok(key) = serde_json::from_value(key.clone().into()) else { continue };
        let name = (kind.clone(), key);
        let stored = Lineage::of_artefact(log.store(), &name)?;
        let ancestors = recorded.ancestors(&name).into_iter().chain(stored.ancestors(&name));
        kept.extend(ancestors.map(|ancestor| (ancestor.name.0, ancestor.name.1.to_string())));
    }
    Ok(kept)
}

/// Files with several names, by device and inode.
#[derive(Debug, Default)]
struct SharedFiles(HashMap<(u64, u64), SharedFile>);

/// File with several names, some of which are removed.
#[derive(Debug)]
struct SharedFile {
    bytes: u64,
    names: u64,
    /// Kind and key of the artefact of each name that is removed.
    removed: Vec<(String, String)>,
}

impl SharedFiles {
    /// Adds an object that is removed, if its file has other names. Returns false if it has none.
    fn add(&mut self, store: &Store, object: &str, bytes: u64, artefact: &(String, String)) -> bool {
        let metadata = store.objects().folder().and_then(|folder| std::fs::symlink_metadata(folder.join(object)).ok());
        let Some(file) = metadata.filter(|file| file.nlink() > 1) else { return false };
        let shared = self.0.entry((file.dev(), file.ino()));
        let shared = shared.or_insert_with(|| SharedFile { bytes, names: file.nlink(), removed: Vec::new() });
        shared.removed.push(artefact.clone());
        true
    }

    /// Adds the bytes of files of which no name stays to the last of their artefacts in `garbage`.
    fn count(self, garbage: &mut [Garbage]) {
        let places = garbage.iter().enumerate().map(|(at, item)| ((item.kind.clone(), item.key.clone()), at));
        let places: HashMap<(String, String), usize> = places.collect();
        for SharedFile { bytes, names, removed } in self.0.into_values() {
            let last = removed.iter().filter_map(|artefact| places.get(artefact)).max();
            if let Some(&last) = last.filter(|_| removed.len() as u64 == names) {
                garbage[last].freed_bytes += bytes;
            }
        }
    }
}

/// Artefacts of the store that are not in `kept`, with their uses in `runs`, ordered by the time of the last use.
fn find_garbage(log: &RunLog, runs: &[&RunRecord], kept: &BTreeSet<(String, String)>) -> Result<Vec<Garbage>> {
    let pipelines = log.pipeline_names()?;
    let mut shared = SharedFiles::default();
    let mut garbage: BTreeMap<(String, String), Garbage> = BTreeMap::new();
    for (object, bytes) in log.store().objects().sizes("")? {
        let [kind, key, _, ..] = object.split('/').collect::<Vec<_>>()[..] else { continue };
        let name = (kind.to_owned(), key.to_owned());
        if OTHER_FOLDERS.contains(&kind) || kept.contains(&name) {
            continue;
        }
        let is_known = garbage.contains_key(&name);
        // What a link leads to belongs to somebody else.
        let is_own = || artefact_of(log.store(), &name).is_some_and(|artefact| artefact.is_in_store());
        if !is_known && !is_own() {
            continue;
        }
        let is_shared = shared.add(log.store(), &object, bytes, &name);
        let item = garbage.entry(name).or_insert_with_key(|(kind, key)| Garbage {
            kind: kind.clone(),
            key: key.clone(),
            bytes: 0,
            freed_bytes: 0,
            stages: BTreeSet::new(),
            pipelines: BTreeSet::new(),
            last_use: None,
        });
        item.bytes += bytes;
        item.freed_bytes += if is_shared { 0 } else { bytes };
    }
    for run in runs {
        for stage in &run.stages {
            let Some(item) = garbage.get_mut(&(stage.kind.clone(), stage.key.to_string())) else { continue };
            item.stages.insert(stage.name.clone());
            item.pipelines.insert(shown_pipeline(&pipelines, run));
            // The first run that is found is the latest.
            item.last_use.get_or_insert_with(|| (run.run.clone(), run.started));
        }
    }
    let mut garbage: Vec<Garbage> = garbage.into_values().collect();
    garbage.sort_by(|a, b| a.last_use.cmp(&b.last_use));
    shared.count(&mut garbage);
    Ok(garbage)
}
