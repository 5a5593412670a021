//! All that can be told of a run, in one closed list. Progress bars, `--json` lines and run records are made from it.

use serde::Serialize;

use crate::runtime::Stalls;
use crate::stage::Warning;

/// Something that happened in a run.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "fields that repeat from event to event are explained once, here: \
    `stage` is its name in the pipeline file; `done`, `total` count rows, or the stage's own units; `seconds` is wall time"
)]
pub enum Event {
    /// Content of sources is being hashed, before the plan is known.
    Hashing { source: String, done_bytes: u64, total_bytes: u64 },
    /// A run began.
    RunStarted { run: String, pipeline: String },
    /// A stage's artefact is in the store already.
    StageReused { stage: String, kind: String, key: String, rows: u64 },
    /// A stage began, or goes on from what an earlier run committed.
    StageStarted { stage: String, kind: String, key: String, resumed_rows: u64 },
    /// How far a stage has come, and what it waits for, if it waits.
    Progress { stage: String, done: u64, total: Option<u64>, waiting_for: Option<String> },
    /// What a stage waited for since it began, in seconds: `storage`, `decode`; `trainer` is work.
    Loading { stage: String, stalls: Stalls },
    /// A part of a table was published.
    PartCommitted { stage: String, table: String, part: usize, rows: u64, bytes: u64 },
    /// A stage saved a state to go on from.
    StateSaved { stage: String, bytes: u64 },
    /// A person should know.
    Warned { stage: String, warning: Warning },
    /// A stage's artefact is complete.
    StageFinished { stage: String, rows: u64, bytes: u64, seconds: f64, warnings: u64 },
    /// A stage failed or was interrupted.
    StageFailed { stage: String, error: String, interrupted: bool },
    /// The run ended; what is not finished can be resumed.
    RunFinished { run: String, seconds: f64, outcome: String, peak_bytes_in_flight: u64 },
}

/// Who is told of events; called from several threads.
pub type Observer<'o> = dyn Fn(&Event) + Sync + 'o;
