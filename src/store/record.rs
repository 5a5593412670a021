//! Records of runs. A record is written at the start of a run and again at its end. The log has those of all runs of a
//! store, read on demand.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::key::{ArtefactIdentity, Key};
use crate::{Store, parse_checked, with_checksum};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::{Stalls, version_and_build};
use pairloom_stage::{Coordinate, INSTANCE_SIGN, Warning, has_coordinates, has_same_coordinates, stage_of_instance};

/// Record of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Name of the run, sortable by time: `20261121T070105.123Z-3f2a`.
    pub run: String,
    /// Pipeline file, as named on the command line.
    pub pipeline: String,
    /// Rest of the command line.
    #[serde(default)]
    pub command: RunCommand,
    /// Version of Pairloom; empty in records of older versions.
    #[serde(default)]
    pub pairloom: String,
    /// Start time.
    pub started: jiff::Timestamp,
    /// End time; `None` while the run is active, or if it was killed.
    pub finished: Option<jiff::Timestamp>,
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Error message, if the run failed.
    pub error: Option<String>,
    /// Stages, producers before consumers.
    pub stages: Vec<StageRecord>,
    /// Expectations, once checked.
    #[serde(default)]
    pub expectations: Vec<ExpectationRecord>,
    /// Best score of each stage that measures one, once the run is finished.
    #[serde(default)]
    pub scores: Vec<ScoreRecord>,
}

/// Command line of a run, apart from the text that names the pipeline file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunCommand {
    /// Canonical path of the pipeline file. `None` in records of older versions, and if the file has none, such as a pipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Canonical path of the folder in which the command started. `None` in records of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Argument of `--store`; `None` for the default, and in records of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Overrides: arguments of `--set`.
    pub overrides: Vec<String>,
    /// Profile of the pipeline file: argument of `--profile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Values of the matrix that were chosen: arguments of `--only`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Combinations of the matrix that were left out: arguments of `--except`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// Environment variables that the pipeline file uses.
    pub environment: BTreeMap<String, String>,
    /// Seed of the pipeline; `None` in records of older versions.
    pub seed: Option<u64>,
    /// Device of the tensors.
    pub device: String,
    /// Threads of a stage.
    pub threads: usize,
}

/// Outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// The run is active or was killed.
    Unfinished,
    /// Every stage is complete.
    Finished,
    /// A stage failed.
    Failed,
    /// The run was interrupted and can be resumed.
    Interrupted,
}

impl RunOutcome {
    /// Name in records, SQL and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Record of a stage of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Name in the pipeline file.
    pub name: String,
    /// Coordinates in the matrix of the pipeline; empty for a stage that is not repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coordinates: Vec<Coordinate>,
    /// Kind of the stage.
    pub kind: String,
    /// Key of its artefact.
    pub key: Key,
    /// Identity of its artefact: version, settings and inputs. `None` in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ArtefactIdentity>,
    /// Names of the tables that the stage writes. Empty in records of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<String>,
    /// Paths of the sources that the stage reads, by name of the input.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, String>,
    /// Warnings about the settings of the stage. The subject is the setting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// True if the artefact was in the store already.
    pub reused: bool,
    /// Wall time in seconds, if the stage was finished in this run.
    pub seconds: Option<f64>,
    /// Data stalls in this run, if the stage reported any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
}

/// Record of an expectation of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExpectationRecord {
    /// SQL query.
    pub sql: String,
    /// Result of the query.
    pub value: Option<f64>,
    /// Expected value, as text.
    pub wanted: String,
    /// True if the expectation held.
    pub held: bool,
}

/// Tables with scores, the most telling first.
const SCORE_TABLES: [&str; 3] = ["summary", "validation", "correlations"];

/// Best score of a stage, or the value of an expectation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreRecord {
    /// Name of the stage; empty for an expectation.
    pub stage: String,
    /// Table with the score: `summary` of an evaluation, `validation` of a training, `correlations`; empty for an
    /// expectation.
    pub table: String,
    /// Name of the metric, such as `rsum`, `pearson`, or the column that an expectation selects.
    pub metric: String,
    /// Row of the score: the method with its parameters, the epoch, the score that correlates. Of an expectation, the
    /// wanted value.
    pub of: String,
    /// Value of the metric.
    pub value: f64,
}

/// Form of the time at the start of the name of a run.
const NAME_TIME: &str = "%Y%m%dT%H%M%S.%3fZ";

impl RunRecord {
    /// Record of a run that starts now.
    #[must_use]
    pub fn start(pipeline: &str, command: RunCommand) -> Self {
        let started = jiff::Timestamp::now();
        let mut noise = blake3::Hasher::new();
        noise.update(&started.as_nanosecond().to_le_bytes());
        noise.update(&std::process::id().to_le_bytes());
        let run = format!("{}-{}", started.strftime(NAME_TIME), &noise.finalize().to_hex()[..4]);
        Self {
            run,
            pipeline: pipeline.to_owned(),
            command,
            pairloom: version_and_build().to_owned(),
            started,
            finished: None,
            outcome: RunOutcome::Unfinished,
            error: None,
            stages: vec![],
            expectations: vec![],
            scores: vec![],
        }
    }

    /// Gives the run a name after those of all runs of the store, which are ordered by their names. The clock of another
    /// machine may run ahead: the name then has its time, and one millisecond more.
    pub fn name_after_others(&mut self, store: &Store) -> Result<()> {
        let names = store.objects().list("runs")?;
        let latest = names.iter().filter_map(|name| name.strip_prefix("runs/")?.strip_suffix(".json")).max();
        let Some((time, _)) = latest.filter(|latest| **latest >= *self.run).and_then(|latest| latest.split_once('-'))
        else {
            return Ok(());
        };
        let time = jiff::civil::DateTime::strptime(NAME_TIME, time)
            .and_then(|time| time.to_zoned(jiff::tz::TimeZone::UTC))
            .and_then(|time| time.timestamp().checked_add(jiff::SignedDuration::from_millis(1)));
        // A name of another form has no time that could be ahead.
        if let Ok(time) = time {
            self.run = format!("{}-{}", time.strftime(NAME_TIME), self.short_name());
        }
        Ok(())
    }

    /// Writes the record. Replaces the previous version. A read-only store stays as it is.
    pub fn save(&self, store: &Store) -> Result<()> {
        if store.is_read_only() {
            return Ok(());
        }
        store.objects().put(&format!("runs/{}.json", self.run), with_checksum(self)?.into())
    }

    /// Last four digits of the name, which usually are enough to name the run.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.run.rsplit('-').next().unwrap_or(&self.run)
    }

    /// Wall time of the run in seconds; `None` if it has no end.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        Some((self.finished? - self.started).total(jiff::Unit::Second).unwrap_or(0.0))
    }

    /// Identity of the run's pipeline: the canonical path of its file. Two runs are of one pipeline if this text is equal,
    /// from whichever folder and however the file was named. In records of older versions, which lack the path, it is the
    /// text of the command line.
    #[must_use]
    pub fn pipeline_identity(&self) -> &str {
        self.command.pipeline_identity(&self.pipeline)
    }

    /// Most telling score of the run: the best of an evaluation, otherwise of a training, otherwise of correlations with
    /// ratings, otherwise the value of the first expectation.
    #[must_use]
    pub fn best_score(&self) -> Option<&ScoreRecord> {
        let best = |table: &str| {
            // The first of equal scores.
            let scores = self.scores.iter().rev().filter(|score| score.table == table);
            scores.max_by(|a, b| a.value.total_cmp(&b.value))
        };
        SCORE_TABLES.iter().find_map(|table| best(table)).or_else(|| self.scores.first())
    }

    /// Returns true if the run computed nothing: every result was in the store already.
    #[must_use]
    pub fn is_all_reused(&self) -> bool {
        !self.stages.is_empty() && self.stages.iter().all(|stage| stage.reused)
    }

    /// Stage with this name. The coordinates of an instance can be in any order.
    #[must_use]
    pub fn stage(&self, name: &str) -> Option<&StageRecord> {
        let exact = self.stages.iter().find(|stage| stage.name == name);
        if exact.is_some() || !name.contains(INSTANCE_SIGN) {
            return exact;
        }
        let is_same =
            |other: &str| stage_of_instance(other) == stage_of_instance(name) && has_same_coordinates(other, name);
        self.stages.iter().find(|stage| is_same(&stage.name))
    }

    /// Instances of the repeated stage `name`, or those with the coordinates that it names.
    pub fn instances<'r>(&'r self, name: &'r str) -> impl Iterator<Item = &'r StageRecord> {
        let is_meant =
            |other: &str| stage_of_instance(other) == stage_of_instance(name) && has_coordinates(other, name);
        self.stages.iter().filter(move |stage| !stage.coordinates.is_empty() && is_meant(&stage.name))
    }

    /// Returns true if both runs have the same pipeline and the same results under the same names.
    #[must_use]
    pub fn is_repeat_of(&self, other: &Self) -> bool {
        // Stages of a run have distinct names, so equal numbers of stages and a partner for each are enough.
        self.stages.len() == other.stages.len()
            && self.pipeline_identity() == other.pipeline_identity()
            && self.stages.iter().zip(&other.stages).all(|(stage, beside)| {
                let partner = if beside.name == stage.name { Some(beside) } else { other.stage(&stage.name) };
                partner.is_some_and(|partner| partner.key == stage.key)
            })
    }

    /// Command that starts the run again, for a shell: environment, pipeline file, overrides, store and device. From
    /// another folder than that of the run, it begins with `cd`, because paths may be relative.
    #[must_use]
    pub fn command_line(&self) -> String {
        let quote = |text: &str| shlex::try_quote(text).map_or_else(|_| text.to_owned(), std::borrow::Cow::into_owned);
        let RunCommand { folder, store, overrides, profile, only, except, environment, device, .. } = &self.command;
        let mut words: Vec<String> =
            environment.iter().map(|(name, value)| format!("{name}={}", quote(value))).collect();
        words.extend(["pairloom".to_owned(), "run".to_owned(), quote(&self.pipeline)]);
        words.extend(overrides.iter().flat_map(|assignment| ["--set".to_owned(), quote(assignment)]));
        words.extend(profile.iter().flat_map(|name| ["--profile".to_owned(), quote(name)]));
        words.extend(only.iter().flat_map(|values| ["--only".to_owned(), quote(values)]));
        words.extend(except.iter().flat_map(|values| ["--except".to_owned(), quote(values)]));
        if let Some(store) = store {
            words.extend(["--store".to_owned(), quote(store)]);
        }
        if !device.is_empty() && device != "cpu" {
            words.extend(["--device".to_owned(), quote(device)]);
        }
        match folder {
            Some(folder) if current_folder().is_none_or(|here| here != Path::new(folder)) => {
                format!("cd {} && {}", quote(folder), words.join(" "))
            }
            _ => words.join(" "),
        }
    }
}

/// Canonical path of the current folder, which does not change while the program runs.
fn current_folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(|| Path::new(".").canonicalize().ok()).as_deref()
}

impl RunCommand {
    /// Identity of the pipeline, whose file the command line names as `name`. See [`RunRecord::pipeline_identity`].
    #[must_use]
    pub fn pipeline_identity<'c>(&'c self, name: &'c str) -> &'c str {
        self.file.as_deref().unwrap_or(name)
    }
}

impl StageRecord {
    /// Identity of the stage's artefact, from the record or else from the artefact's manifest; `None` if both lack it.
    pub fn identity(&self, store: &Store) -> Result<Option<ArtefactIdentity>> {
        match &self.identity {
            Some(identity) => Ok(Some(identity.clone())),
            None => Ok(store.artefact(&self.kind, &self.key).manifest()?.map(|manifest| manifest.identity)),
        }
    }
}

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
    pub fn open(store: &Store) -> Result<Self> {
        Self::open_observed(store, |_| {})
    }

    /// Opens the log of a store. `on_damage` is called once for each record that cannot be read, when it is first needed.
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
