//! Records of runs. A record is written at the start of a run and again at its end.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::runtime::Stalls;
use crate::store::Store;
use crate::store::key::Key;

/// Record of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Name of the run, sortable by time: `20261121T070105.123Z-3f2a`.
    pub run: String,
    /// Pipeline file, as named on the command line.
    pub pipeline: String,
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

/// Record of a stage of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Name in the pipeline file.
    pub name: String,
    /// Kind of the stage.
    pub kind: String,
    /// Key of its artefact.
    pub key: Key,
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

impl RunRecord {
    /// A record of a run that starts now.
    #[must_use]
    pub fn start(pipeline: &str) -> Self {
        let started = jiff::Timestamp::now();
        let mut noise = blake3::Hasher::new();
        noise.update(&started.as_nanosecond().to_le_bytes());
        noise.update(&std::process::id().to_le_bytes());
        let run = format!("{}-{}", started.strftime("%Y%m%dT%H%M%S.%3fZ"), &noise.finalize().to_hex()[..4]);
        Self {
            run,
            pipeline: pipeline.to_owned(),
            started,
            finished: None,
            outcome: RunOutcome::Unfinished,
            error: None,
            stages: vec![],
            expectations: vec![],
        }
    }

    /// Writes the record. Replaces the previous version.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn save(&self, store: &Store) -> Result<()> {
        let content = serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))?;
        store.objects().put(&format!("runs/{}.json", self.run), content.into())
    }
}

/// Records of all runs, the latest first, read lazily. Skips records that cannot be read.
///
/// # Errors
/// The store cannot be read.
pub fn records(store: &Store) -> Result<impl Iterator<Item = RunRecord>> {
    Ok(try_records(store)?.filter_map(Result::ok))
}

/// Same as [`records`], but with an error in place of a record that cannot be read.
///
/// # Errors
/// The store cannot be read.
pub fn try_records(store: &Store) -> Result<impl Iterator<Item = Result<RunRecord>>> {
    let names = store.objects().list("runs")?;
    let objects = store.objects().clone();
    Ok(names.into_iter().rev().filter_map(move |name| {
        let content = objects.get(&name).transpose()?;
        let record = content.and_then(|content| {
            serde_json::from_slice(&content).map_err(|error| {
                Error::data(format!("the record of a run cannot be read: {error}: `{}`", objects.display_path(&name)))
            })
        });
        Some(record)
    }))
}
