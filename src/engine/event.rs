//! Events of a run, as one closed list. Progress bars and `--json` lines are made from them.

use serde::Serialize;

use pairloom_base::runtime::Stalls;
use pairloom_stage::{TrainedStep, ValidationScores, Warning};

/// Event of a run.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "fields that several events have: `stage` is its name in the pipeline file; `done` and `total` count rows or \
    the stage's own units; `seconds` is wall time"
)]
pub enum Event {
    /// The content of a source is being hashed, before the run starts.
    Hashing { source: String, done_bytes: u64, total_bytes: u64 },
    /// A run waits for another process before it starts.
    Waiting { waiting_for: String },
    /// A run started. `stages` are in the order of the pipeline: producers before their consumers.
    RunStarted { run: String, pipeline: String, stages: Vec<String> },
    /// The artefact of a stage is in the store already.
    StageReused { stage: String, kind: String, key: String, rows: u64 },
    /// A stage started, or resumed after the rows that an earlier run committed. `reasons` say why its result was not
    /// reused.
    StageStarted { stage: String, kind: String, key: String, resumed_rows: u64, reasons: Vec<String> },
    /// Progress of a stage in `unit`, such as `steps`, and the name of the input or resource that it waits for. An
    /// event without `waiting_for` ends the wait.
    Progress { stage: String, done: u64, total: Option<u64>, unit: String, waiting_for: Option<String> },
    /// A training made a step. Not every step has an event: at most ten a second, and the last one.
    Trained {
        stage: String,
        #[serde(flatten)]
        step: TrainedStep,
    },
    /// A training was validated at the end of an epoch.
    Validated {
        stage: String,
        #[serde(flatten)]
        scores: ValidationScores,
    },
    /// Data stalls of a stage since its start, in seconds: waiting for `storage` and `decode`, and work of the
    /// `trainer`.
    Loading { stage: String, stalls: Stalls },
    /// A part of a table was published.
    PartCommitted { stage: String, table: String, part: usize, rows: u64, bytes: u64 },
    /// A stage saved a state, from which it can resume.
    StateSaved { stage: String, bytes: u64 },
    /// A stage gave a warning.
    Warned { stage: String, warning: Warning },
    /// The artefact of a stage is complete. `copied` of its rows are those of earlier results.
    StageFinished { stage: String, rows: u64, copied: u64, bytes: u64, seconds: f64, warnings: u64 },
    /// A stage failed or was interrupted.
    StageFailed { stage: String, error: String, interrupted: bool },
    /// The run ended. Stages that are not finished can be resumed.
    RunFinished { run: String, seconds: f64, outcome: String, peak_bytes_in_flight: u64 },
}

/// Callback for events; called from several threads.
pub type Observer<'o> = dyn Fn(&Event) + Sync + 'o;
