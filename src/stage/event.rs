//! Events of a running stage, for the user.

use serde::{Deserialize, Serialize};

use crate::runtime::Stalls;

/// Event of a running stage.
#[derive(Debug, Clone, PartialEq)]
pub enum StageEvent {
    /// Warning: shown at the end of the run, stored with the artefact, readable in SQL.
    Warning(Warning),
    /// Progress of the stage. The engine counts the rows that a stage maps or writes without this event.
    Progress(Progress),
    /// Data stalls since the stage started.
    Stalls(Stalls),
}

/// Problem that the user should know of and that does not stop the stage, such as an image that was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Subject: the name of a file, a row.
    pub subject: String,
    /// Text of the warning.
    pub message: String,
}

/// Progress of a stage, in its own units (steps, queries).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Total number of units, if known.
    pub total: Option<u64>,
}
