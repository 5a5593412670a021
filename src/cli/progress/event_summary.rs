//! Facts from the events of a run that its summary shows.

use std::collections::BTreeMap;

use pairloom_engine::event::Event;
use pairloom_stage::Warning;

/// Maximum number of warnings kept per stage.
const MAX_WARNINGS: usize = 1000;

/// Facts from the events of a run that its summary shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventSummary {
    /// Rows that existed when a stage was resumed, by stage.
    pub(crate) resumed: BTreeMap<String, u64>,
    /// Warnings of this run by stage, at most [`MAX_WARNINGS`] of each.
    pub(crate) warnings: BTreeMap<String, Vec<Warning>>,
    /// Error of each stage that failed. An interruption is no failure.
    pub(crate) failures: BTreeMap<String, String>,
    /// Wall time of the run in seconds.
    pub(crate) seconds: f64,
}

impl EventSummary {
    /// Keeps the facts of an event.
    pub(super) fn add(&mut self, event: &Event) {
        match event {
            Event::StageStarted { stage, resumed_rows, .. } if *resumed_rows > 0 => {
                self.resumed.insert(stage.clone(), *resumed_rows);
            }
            Event::StageFailed { stage, error, interrupted: false } => {
                self.failures.insert(stage.clone(), error.clone());
            }
            Event::Warned { stage, warning } => {
                let kept = self.warnings.entry(stage.clone()).or_default();
                if kept.len() < MAX_WARNINGS {
                    kept.push(warning.clone());
                }
            }
            Event::RunFinished { seconds, .. } => self.seconds = *seconds,
            _ => {}
        }
    }
}
