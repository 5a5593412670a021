//! Log of runs: the records of all runs of a store, read on demand.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::OnceLock;

use crate::key::Key;
use crate::record::{RunOutcome, RunRecord, StageRecord};
use crate::{Store, parse_checked};
use pairloom_base::error::{Error, Result};

/// Log of the runs of a store, latest first. Opening it lists the names of the runs; records are read on first use.
///
/// Records of older versions lack the settings and tables of stages. They are added from the manifests of the results,
/// as far as these exist.
pub struct RunLog {
    store: Store,
    /// Names of the runs, latest first.
    names: Vec<String>,
    /// Records in the order of `names`; the inner `None` stands for a run that was removed since.
    records: Vec<OnceLock<Option<Result<RunRecord>>>>,
    /// Called once for each record that cannot be read.
    on_damage: DamageObserver,
}

/// Observer of records that cannot be read.
type DamageObserver = Box<dyn Fn(&Error) + Send + Sync>;

impl fmt::Debug for RunLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunLog").field("store", &self.store).field("names", &self.names).finish_non_exhaustive()
    }
}

impl RunLog {
    /// Opens the log of a store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: &Store) -> Result<Self> {
        Self::open_observed(store, |_| {})
    }

    /// Opens the log of a store. `on_damage` is called once for each record that cannot be read, when it is first needed.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open_observed(store: &Store, on_damage: impl Fn(&Error) + Send + Sync + 'static) -> Result<Self> {
        let mut names: Vec<String> = store
            .objects()
            .list("runs")?
            .into_iter()
            .filter_map(|name| Some(name.strip_prefix("runs/")?.strip_suffix(".json")?.to_owned()))
            .collect();
        names.reverse();
        let records = names.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { store: store.clone(), names, records, on_damage: Box::new(on_damage) })
    }

    /// Store of the log.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Names of all runs, latest first.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Records of all runs, latest first, each read when the iterator reaches it. An unreadable record is an error in
    /// its place.
    pub fn iter(&self) -> impl Iterator<Item = Result<&RunRecord>> {
        (0..self.names.len()).filter_map(|i| self.record(i))
    }

    /// Readable records of all runs, latest first, each read when the iterator reaches it.
    pub fn readable(&self) -> impl Iterator<Item = &RunRecord> {
        self.iter().filter_map(Result::ok)
    }

    /// Reads the records that were not read yet, several at a time.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn read_all(&self) -> Result<()> {
        let missing: Vec<usize> = (0..self.names.len()).filter(|&i| self.records[i].get().is_none()).collect();
        let objects: Vec<String> = missing.iter().map(|&i| object_name(&self.names[i])).collect();
        let parse = |object: &str, content: &[u8]| parse(&self.store, object, content);
        let mut records: Vec<Option<Result<RunRecord>>> = self.store.objects().get_all_parsed(&objects, parse)?;
        self.complete(records.iter_mut().flatten().flatten())?;
        for (i, record) in missing.into_iter().zip(records) {
            self.records[i].get_or_init(|| self.observed(record));
        }
        Ok(())
    }

    /// Record of the run with this number in [`RunLog::names`]; `None` if it was removed since.
    #[must_use]
    pub fn record(&self, i: usize) -> Option<Result<&RunRecord>> {
        let read = || -> Result<Option<RunRecord>> {
            let object = object_name(&self.names[i]);
            let parse = |content: &[u8]| parse(&self.store, &object, content);
            let Some(record) = self.store.objects().get_parsed(&object, parse)? else { return Ok(None) };
            let mut record = record?;
            self.complete(std::iter::once(&mut record))?;
            Ok(Some(record))
        };
        let record = self.records[i].get_or_init(|| self.observed(read().transpose()));
        record.as_ref().map(|record| record.as_ref().map_err(Clone::clone))
    }

    /// The last different finished run of the same pipeline before `run`. Repeats of the results of `run` do not count.
    pub fn before<'l>(&'l self, run: &'l RunRecord) -> Option<&'l RunRecord> {
        self.finished_before(run).find(|earlier| !run.is_repeat_of(earlier))
    }

    /// Finished runs of the same pipeline before `run`, latest first.
    pub fn finished_before<'l>(&'l self, run: &'l RunRecord) -> impl Iterator<Item = &'l RunRecord> {
        // Names begin with the time.
        let earlier = self.names.partition_point(|name| *name >= run.run)..self.names.len();
        let is_of_pipeline = |earlier: &&RunRecord| {
            earlier.outcome == RunOutcome::Finished && earlier.pipeline_identity() == run.pipeline_identity()
        };
        earlier.filter_map(|i| self.record(i)?.ok()).filter(is_of_pipeline)
    }

    /// Stage of the latest run that uses an artefact, by kind and key of the artefact.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn latest_uses(&self) -> Result<HashMap<(&str, &str), &StageRecord>> {
        self.read_all()?;
        let mut uses = HashMap::new();
        for stage in self.readable().flat_map(|run| &run.stages) {
            uses.entry((stage.kind.as_str(), stage.key.as_str())).or_insert(stage);
        }
        Ok(uses)
    }

    /// Name of each pipeline for display, by its identity: the text by which the latest run named it, or the identity
    /// itself if another pipeline was named by the same text.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn pipeline_names(&self) -> Result<BTreeMap<&str, &str>> {
        self.read_all()?;
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        let mut identities: HashMap<&str, &str> = HashMap::new();
        let mut shared = Vec::new();
        for run in self.readable() {
            let identity = run.pipeline_identity();
            names.entry(identity).or_insert(&run.pipeline);
            if *identities.entry(&run.pipeline).or_insert(identity) != identity {
                shared.push(run.pipeline.as_str());
            }
        }
        for (identity, name) in &mut names {
            if shared.contains(name) {
                *name = identity;
            }
        }
        Ok(names)
    }

    fn observed(&self, record: Option<Result<RunRecord>>) -> Option<Result<RunRecord>> {
        if let Some(Err(error)) = &record {
            (self.on_damage)(error);
        }
        record
    }

    /// Adds the identities and tables that records of older versions lack, from the manifests of the results.
    fn complete<'r>(&self, records: impl Iterator<Item = &'r mut RunRecord>) -> Result<()> {
        let stages = records.flat_map(|record| &mut record.stages);
        let mut incomplete: BTreeMap<(String, Key), Vec<&mut StageRecord>> = BTreeMap::new();
        for stage in stages.filter(|stage| stage.identity.is_none()) {
            incomplete.entry((stage.kind.clone(), stage.key.clone())).or_default().push(stage);
        }
        if incomplete.is_empty() {
            return Ok(());
        }
        let manifests = self.store.manifests_of(incomplete.keys().map(|(kind, key)| (kind.as_str(), key)))?;
        for (stages, manifest) in incomplete.into_values().zip(manifests) {
            let Some(Ok(manifest)) = manifest else { continue };
            for stage in stages {
                stage.identity = Some(manifest.identity.clone());
                if stage.tables.is_empty() {
                    stage.tables = manifest.tables.keys().cloned().collect();
                }
            }
        }
        Ok(())
    }
}

fn object_name(run: &str) -> String {
    format!("runs/{run}.json")
}

fn parse(store: &Store, object: &str, content: &[u8]) -> Result<RunRecord> {
    parse_checked(content).map_err(|error| {
        let path = store.objects().display_path(object);
        Error::data(format!("the record of a run cannot be read: {error}: `{path}`"))
    })
}
