//! Events of a running stage, for the user.

use serde::{Deserialize, Serialize};

use pairloom_base::runtime::Stalls;

/// Event of a running stage.
#[derive(Debug, Clone, PartialEq)]
pub enum StageEvent {
    /// Warning: shown at the end of the run, stored with the artefact, readable in SQL.
    Warning(Warning),
    /// Progress of the stage. The engine counts the rows that a stage maps or writes without this event.
    Progress(Progress),
    /// Data stalls since the stage started.
    Stalls(Stalls),
    /// Step of a training.
    Trained(TrainedStep),
    /// Validation of a training.
    Validated(ValidationScores),
}

/// Problem that the user should know of and that does not stop the stage, such as an image that was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Subject: the name of a file, a row.
    pub subject: String,
    /// Text of the warning.
    pub message: String,
}

/// Progress of a stage, in its own units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Total number of units, if known.
    pub total: Option<u64>,
    /// Name of the units, in plural: `steps`, `queries`.
    pub unit: &'static str,
}

/// Optimiser step of a training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TrainedStep {
    /// Epoch, from 0 as in the table `history`.
    pub epoch: u64,
    /// Number of epochs of the training.
    pub epochs: u64,
    /// Number of optimiser steps so far.
    pub step: u64,
    /// Value of the objective on the batch before the step.
    pub loss: f64,
}

/// Scores of a training on its validation split, as in the table `validation`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValidationScores {
    /// Epoch that ended, from 0.
    pub epoch: u64,
    /// Number of optimiser steps so far.
    pub step: u64,
    /// Mean of the batch losses of the epoch.
    pub loss: f64,
    /// Image to text: recalls at 1, 5 and 10, percent.
    pub i2t: [f64; 3],
    /// Text to image: recalls at 1, 5 and 10, percent.
    pub t2i: [f64; 3],
    /// Sum of the six recalls.
    pub rsum: f64,
    /// Name of the measure that selects the best epoch: `rsum`, `t2i`, `ncs`.
    pub selection_metric: &'static str,
    /// Value of that measure.
    pub selection_score: f64,
    /// True if it is above that of every earlier epoch.
    pub best: bool,
}
