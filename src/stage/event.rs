//! Events of a running stage, for the people who wait for it.

use serde::{Deserialize, Serialize};

use crate::runtime::Stalls;

/// News of a running stage.
#[derive(Debug, Clone, PartialEq)]
pub enum StageEvent {
    /// Something that a person should know of: shown at the end of the run, kept with the artefact, readable in SQL.
    Warning(Warning),
    /// Progress. Rows that a stage maps or writes are counted without it.
    Progress(Progress),
    /// Time that the stage has waited since it began.
    Stalls(Stalls),
}

/// Something that a person should know of and that does not stop the stage: a picture that was skipped, say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Subject: the name of a file, a row.
    pub subject: String,
    /// Text of the warning.
    pub message: String,
}

/// How far a stage has come, in its own units (steps, queries).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Units in all, when known.
    pub total: Option<u64>,
}
