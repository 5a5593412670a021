//! What each run did: one record a run, written at its start and again at its end.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::runtime::Stalls;
use crate::store::Store;
use crate::store::key::Key;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its name, which sorts by time: `20261121T070105.123Z-3f2a`.
    pub run: String,
    /// The pipeline file, as it was named on the command line.
    pub pipeline: String,
    /// When it began.
    pub started: jiff::Timestamp,
    /// When it ended; none while it runs, or if it was killed.
    pub finished: Option<jiff::Timestamp>,
    /// How it ended.
    pub outcome: Outcome,
    /// What went wrong, if anything did.
    pub error: Option<String>,
    /// Its stages, producers before consumers.
    pub stages: Vec<StageRecord>,
    /// Its expectations, once they are checked.
    #[serde(default)]
    pub expectations: Vec<ExpectationRecord>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It runs, or was killed.
    Unfinished,
    /// Every stage is complete.
    Finished,
    /// A stage failed.
    Failed,
    /// It was interrupted and can be resumed.
    Interrupted,
}

/// A stage of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Its name in the pipeline file.
    pub name: String,
    /// Its verb.
    pub kind: String,
    /// The key of its artefact.
    pub key: Key,
    /// Whether the artefact was there already.
    pub reused: bool,
    /// Wall time, if it ran to its end in this run.
    pub seconds: Option<f64>,
    /// What it waited for in this run, if it told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
}

/// An expectation of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExpectationRecord {
    /// The query.
    pub sql: String,
    /// What it gave.
    pub value: Option<f64>,
    /// What was wanted, as text.
    pub wanted: String,
    /// Whether it held.
    pub held: bool,
}

impl RunRecord {
    /// A record of a run that begins now.
    #[must_use]
    pub fn begin(pipeline: &str) -> Self {
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
            outcome: Outcome::Unfinished,
            error: None,
            stages: vec![],
            expectations: vec![],
        }
    }

    /// Writes it, in place of what was written before.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn save(&self, store: &Store) -> Result<()> {
        let content = serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))?;
        store.objects().put(&format!("runs/{}.json", self.run), content.into())
    }
}

/// The records of all runs, the latest first, read one by one as they are asked for. Damaged ones are passed over.
///
/// # Errors
/// The store cannot be read.
pub fn records(store: &Store) -> Result<impl Iterator<Item = RunRecord>> {
    Ok(all_records(store)?.filter_map(Result::ok))
}

/// As [`records`], with an error in the place of a record that cannot be read.
///
/// # Errors
/// The store cannot be read.
pub fn all_records(store: &Store) -> Result<impl Iterator<Item = Result<RunRecord>>> {
    let names = store.objects().list("runs")?;
    let objects = store.objects().clone();
    Ok(names.into_iter().rev().filter_map(move |name| {
        let content = objects.get(&name).transpose()?;
        let record = content.and_then(|content| {
            serde_json::from_slice(&content).map_err(|error| {
                Error::data(format!("the record of a run cannot be read: {error}: `{}`", objects.place(&name)))
            })
        });
        Some(record)
    }))
}
