//! Events of a run, as one closed list: progress bars and `--json` lines are made from them. The progress of a stage is
//! reported at a limited rate.

use std::time::{Duration, Instant};

use serde::Serialize;

use pairloom_base::runtime::Stalls;
use pairloom_stage::{Progress, TrainedStep, ValidationScores, Warning};

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

/// Minimum time between two events of one kind of a stage.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Unit of the progress that the engine counts.
pub(super) const ROWS: &str = "rows";

/// Sends the progress events of one stage.
pub(super) struct ProgressReporter<'e> {
    observer: &'e Observer<'e>,
    stage: String,
    /// Latest progress, sent or not.
    pub latest: Progress,
    last_progress: Option<Instant>,
    /// True if the last progress event named something that the stage waits for.
    is_waiting: bool,
    stalls: Paced<Stalls>,
    training: Paced<TrainedStep>,
}

impl<'e> ProgressReporter<'e> {
    /// A reporter of `stage`, with progress 0.
    pub fn new(observer: &'e Observer<'e>, stage: String) -> Self {
        Self {
            observer,
            stage,
            latest: Progress { done: 0, total: None, unit: ROWS },
            last_progress: None,
            is_waiting: false,
            stalls: Paced::default(),
            training: Paced::default(),
        }
    }

    /// Reports progress. Sends an event unless the last one is too recent; the end is always sent.
    pub fn report_progress(&mut self, latest: Progress) {
        self.latest = latest;
        if is_due(self.last_progress) || Some(latest.done) == latest.total {
            self.send_progress(None);
        }
    }

    /// Reports that the stage waits for `name`.
    pub fn report_waiting(&mut self, name: &str) {
        self.send_progress(Some(name.to_owned()));
    }

    /// Reports that the stage works again, if it waited.
    pub fn report_working(&mut self) {
        if self.is_waiting {
            self.send_progress(None);
        }
    }

    /// Callback that other threads call when a wait of the stage for a name starts, and, with `None`, when it ends.
    pub fn wait_reporter(&self) -> impl Fn(Progress, Option<String>) + Send + Sync + 'e {
        let (observer, stage) = (self.observer, self.stage.clone());
        move |progress, waiting_for| observer(&progress_event(&stage, progress, waiting_for))
    }

    /// Reports data stalls. If the last event is too recent, keeps them for [`Self::flush`].
    pub fn report_stalls(&mut self, stalls: Stalls) {
        if let Some(stalls) = self.stalls.push(stalls) {
            self.send_stalls(stalls);
        }
    }

    /// Reports a step of a training. If the last event is too recent, keeps it for [`Self::flush`].
    pub fn report_step(&mut self, step: TrainedStep) {
        if let Some(step) = self.training.push(step) {
            self.send_step(step);
        }
    }

    /// Reports the scores of a validation, after the last step before it.
    pub fn report_validation(&mut self, scores: ValidationScores) {
        self.flush();
        (self.observer)(&Event::Validated { stage: self.stage.clone(), scores });
    }

    /// Sends the events that were kept back. Called at the end of a stage.
    pub fn flush(&mut self) {
        if let Some(stalls) = self.stalls.take() {
            self.send_stalls(stalls);
        }
        if let Some(step) = self.training.take() {
            self.send_step(step);
        }
    }

    /// Reports a warning.
    pub fn report_warning(&self, warning: &Warning) {
        (self.observer)(&Event::Warned { stage: self.stage.clone(), warning: warning.clone() });
    }

    fn send_progress(&mut self, waiting_for: Option<String>) {
        self.last_progress = Some(now());
        self.is_waiting = waiting_for.is_some();
        (self.observer)(&progress_event(&self.stage, self.latest, waiting_for));
    }

    fn send_stalls(&self, stalls: Stalls) {
        (self.observer)(&Event::Loading { stage: self.stage.clone(), stalls });
    }

    fn send_step(&self, step: TrainedStep) {
        (self.observer)(&Event::Trained { stage: self.stage.clone(), step });
    }
}

fn progress_event(stage: &str, progress: Progress, waiting_for: Option<String>) -> Event {
    let Progress { done, total, unit } = progress;
    Event::Progress { stage: stage.to_owned(), done, total, unit: unit.to_owned(), waiting_for }
}

/// Latest value of a kind of event, with the time of the last one that was sent.
struct Paced<T> {
    last: Option<Instant>,
    pending: Option<T>,
}

impl<T> Default for Paced<T> {
    fn default() -> Self {
        Self { last: None, pending: None }
    }
}

impl<T> Paced<T> {
    /// Returns the value if it may be sent now, and keeps it otherwise.
    fn push(&mut self, value: T) -> Option<T> {
        self.pending = Some(value);
        if is_due(self.last) { self.take() } else { None }
    }

    /// Returns the value that was kept, to be sent now.
    fn take(&mut self) -> Option<T> {
        let value = self.pending.take()?;
        self.last = Some(now());
        Some(value)
    }
}

fn is_due(last: Option<Instant>) -> bool {
    last.is_none_or(|last| last.elapsed() >= PROGRESS_INTERVAL)
}

/// Current time, for the rate of progress events and for waiting times.
#[expect(
    clippy::disallowed_methods,
    reason = "results do not depend on the rate of progress events, nor on waiting times"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn frequent_events_are_kept_back_and_the_last_ones_are_sent_at_the_end() {
        let reported = Mutex::new(Vec::new());
        let observer = |event: &Event| {
            let mut reported = reported.lock().expect("no panic");
            match event {
                Event::Loading { stalls, .. } => reported.push(stalls.trainer),
                Event::Trained { step, .. } => reported.push(step.loss),
                _ => {}
            }
        };
        let mut reporter = ProgressReporter::new(&observer, "fit".to_owned());
        // The last events lie hours in the future, so every further one is too early.
        let late = Some(now() + Duration::from_secs(10_000));
        (reporter.stalls.last, reporter.training.last) = (late, late);
        for trainer in [1.0, 2.0, 3.0] {
            reporter.report_stalls(Stalls { trainer, ..Stalls::default() });
            reporter.report_step(TrainedStep { epoch: 0, epochs: 1, step: 1, loss: 10.0 * trainer });
        }
        assert!(reported.lock().expect("no panic").is_empty());
        reporter.flush();
        reporter.flush();
        assert_eq!(*reported.lock().expect("no panic"), [3.0, 30.0]);
    }

    #[test]
    fn the_end_of_a_wait_is_reported_once() {
        let reported = Mutex::new(Vec::new());
        let observer = |event: &Event| {
            if let Event::Progress { waiting_for, .. } = event {
                reported.lock().expect("no panic").push(waiting_for.clone());
            }
        };
        let mut reporter = ProgressReporter::new(&observer, "fit".to_owned());
        reporter.report_working();
        reporter.report_waiting("pairs.captions");
        reporter.report_working();
        reporter.report_working();
        assert_eq!(*reported.lock().expect("no panic"), [Some("pairs.captions".to_owned()), None]);
    }
}
