//! Display of a run's events: progress bars on a terminal, otherwise lines of text or JSON.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::MultiProgress;

use self::activity::{BYTES, StageActivity};
use self::bars::StageBars;
use super::console::{Console, write_stderr};
use super::units::{format_count, format_duration};
use pairloom_base::error::{Error, Result, escape_control};
use pairloom_engine::event::Event;
use pairloom_stage::Warning;

mod activity;
mod bars;

/// Maximum number of warnings kept per stage.
const MAX_WARNINGS: usize = 1000;

/// Facts from the events of a run that its summary shows.
#[derive(Debug, Clone, Default)]
pub(super) struct EventSummary {
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

/// Time after which a stage that makes progress prints a line.
const INTERVAL: Duration = Duration::from_secs(30);
/// Minimum time between two lines of a stage.
const MINIMUM: Duration = Duration::from_secs(5);

/// Pace of the progress lines of a stage: one every 30 s, or at each tenth of the work, at most one in 5 s.
#[derive(Debug)]
struct LinePace {
    last: Instant,
    tenth: u64,
}

impl LinePace {
    /// A pace after a line that was printed now.
    fn start(now: Instant) -> Self {
        Self { last: now, tenth: 0 }
    }

    /// Returns true if a line is due, and counts it as printed. The end has a line of its own.
    fn is_due(&mut self, now: Instant, done: u64, total: Option<u64>) -> bool {
        if total == Some(done) {
            return false;
        }
        let tenth = total.and_then(|total| (done.saturating_mul(10)).checked_div(total)).unwrap_or(0);
        let since = now.saturating_duration_since(self.last);
        let due = since >= INTERVAL || (since >= MINIMUM && tenth > self.tenth);
        if due {
            (self.last, self.tenth) = (now, tenth);
        }
        due
    }
}

/// Name of the bar and the lines of the hashing of sources.
const HASHING: &str = "reading";
/// Name of the bar and the lines of a run that waits for the store.
const STORE: &str = "store";

/// Displays events and collects those that the summary needs.
pub(super) struct ProgressDisplay {
    console: Console,
    /// Handle to the bars, which other threads may use while the state is locked.
    bars: MultiProgress,
    state: Mutex<DisplayState>,
    /// True once the run has ended.
    is_over: AtomicBool,
}

struct DisplayState {
    bars: StageBars,
    /// Stages that were started and have not ended, and the hashing of sources.
    running: BTreeMap<String, RunningStage>,
    summary: EventSummary,
    /// First error of a write to stdout, and the number of events that were not written.
    unwritten: Option<(Error, u64)>,
}

struct RunningStage {
    activity: StageActivity,
    pace: LinePace,
    /// Line about the start, until the stage has done something. One that only waited for a stage that failed has none.
    start: Option<String>,
}

impl ProgressDisplay {
    pub(crate) fn new(console: Console) -> Self {
        let bars = StageBars::new(console.has_bars);
        let handle = bars.handle();
        let state = DisplayState { bars, running: BTreeMap::new(), summary: EventSummary::default(), unwritten: None };
        Self { console, bars: handle, state: state.into(), is_over: AtomicBool::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, DisplayState> {
        // A panic while the lock was held can only have left the display incomplete.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all bars from the screen. Called when the events end.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        self.is_over.store(true, Ordering::SeqCst);
        state.running.clear();
        state.bars.clear();
    }

    /// Facts from the events up to now.
    pub(crate) fn summary(&self) -> EventSummary {
        self.state().summary.clone()
    }

    /// Keeps the error of a write of an event to stdout, for [`Self::check_written`].
    pub(crate) fn keep_error(&self, written: Result<()>) {
        self.state().keep_error(written);
    }

    /// Returns the error if events could not be written to stdout.
    pub(crate) fn check_written(&self) -> Result<()> {
        match self.state().unwritten.take() {
            Some((error, lost)) => Err(error
                .context(format!("the run is complete, and {} of its events are lost", format_count(lost)))
                .hint("its results and its record are in the store: `pairloom show latest`")),
            None => Ok(()),
        }
    }

    /// Prints a message above the bars, unless the run is over or `--quiet` is given.
    pub(crate) fn announce(&self, text: &str) {
        if !self.console.quiet && !self.is_over.load(Ordering::SeqCst) {
            self.bars.suspend(|| write_stderr(&format!("{text}\n")));
        }
    }

    /// Stages that have not ended, each with its position, in the order of names; `None` once the run is over.
    pub(crate) fn running_stages(&self) -> Option<Vec<String>> {
        if self.is_over.load(Ordering::SeqCst) {
            return None;
        }
        let state = self.state();
        let stages = state.running.iter().map(|(name, stage)| {
            let position = stage.activity.counts(" of ");
            if position.is_empty() { format!("`{name}`") } else { format!("`{name}` (at {position})") }
        });
        Some(stages.collect())
    }

    /// Displays an event.
    pub(crate) fn show(&self, event: &Event) {
        #[expect(clippy::disallowed_methods, reason = "the display measures rates")]
        self.show_at(event, Instant::now());
    }

    fn show_at(&self, event: &Event, now: Instant) {
        let mut guard = self.state();
        let state = &mut *guard;
        if self.console.json {
            state.keep_error(self.console.print_json(event));
        }
        state.summary.add(event);
        match event {
            Event::Hashing { source, done_bytes, total_bytes } => {
                let running = state.running_stage(HASHING, now);
                running.activity.record(now, *done_bytes, Some(*total_bytes), BYTES, None);
                self.show_stage(state, HASHING, source, now);
            }
            Event::Waiting { waiting_for } => {
                self.show_progress(state, STORE, (0, None, ""), Some(waiting_for), now);
            }
            Event::RunStarted { stages, .. } => {
                self.is_over.store(false, Ordering::SeqCst);
                state.remove(HASHING);
                state.remove(STORE);
                state.bars.set_order(stages);
            }
            Event::StageStarted { stage, kind, resumed_rows, reasons, .. } => {
                let activity = StageActivity::resumed(*resumed_rows);
                let start = Some(start_line(stage, kind, *resumed_rows, reasons, self.console.verbose));
                state.running.insert(stage.clone(), RunningStage { activity, pace: LinePace::start(now), start });
                if self.console.verbose {
                    self.print_start(state, stage);
                }
                self.show_stage(state, stage, "", now);
            }
            Event::Progress { stage, done, total, unit, waiting_for } => {
                // A wait also ends when the stage that was waited for fails.
                if *done > 0 {
                    self.print_start(state, stage);
                }
                self.show_progress(state, stage, (*done, *total, unit), waiting_for.as_deref(), now);
            }
            Event::Trained { stage, step } => state.running_stage(stage, now).activity.record_step(*step),
            Event::Validated { stage, scores } => {
                state.running_stage(stage, now).activity.record_validation(scores.clone());
                self.show_stage(state, stage, "", now);
            }
            Event::Loading { stage, stalls } => state.running_stage(stage, now).activity.record_stalls(*stalls),
            Event::StageReused { stage, kind, rows, .. } => {
                state.remove(stage);
                self.print_line(&format!("{stage} ({kind}): reused, {} rows", format_count(*rows)));
            }
            Event::StageFinished { stage, rows, copied, seconds: time, .. } => {
                self.print_start(state, stage);
                state.remove(stage);
                let rows = if *rows > 0 { format!(", {} rows", format_count(*rows)) } else { String::new() };
                let copied = match copied {
                    0 => String::new(),
                    copied => format!(" ({} copied from earlier results)", format_count(*copied)),
                };
                self.print_line(&format!("{stage}: finished{rows}{copied} in {}", format_duration(*time)));
            }
            Event::StageFailed { stage, interrupted, .. } => {
                let has_started = state.running.get(stage).is_some_and(|running| running.start.is_none());
                state.remove(stage);
                if has_started {
                    self.print_line(&format!("{stage}: {}", if *interrupted { "stopped" } else { "failed" }));
                }
            }
            Event::PartCommitted { stage, .. } | Event::StateSaved { stage, .. } => self.print_start(state, stage),
            Event::Warned { .. } | Event::RunFinished { .. } => {}
        }
    }

    /// Shows the progress of a stage, or that it waits. One that waits before it starts has a line at once.
    fn show_progress(
        &self,
        state: &mut DisplayState,
        stage: &str,
        (done, total, unit): (u64, Option<u64>, &str),
        waiting_for: Option<&str>,
        now: Instant,
    ) {
        if let Some(process) = waiting_for
            && !state.running.contains_key(stage)
            && !self.console.has_bars
            && self.console.has_progress_lines
        {
            self.print_line(&format!("{stage}: waiting for {process}"));
        }
        let running = state.running_stage(stage, now);
        running.activity.record(now, done, total, unit, waiting_for);
        self.show_stage(state, stage, "", now);
    }

    /// Prints the line about the start of a stage, unless it has been printed.
    fn print_start(&self, state: &mut DisplayState, stage: &str) {
        if let Some(line) = state.running.get_mut(stage).and_then(|running| running.start.take()) {
            self.print_line(&line);
        }
    }

    /// Draws the bar of a stage, or prints a line about it if one is due.
    fn show_stage(&self, state: &mut DisplayState, stage: &str, subject: &str, now: Instant) {
        let Some(running) = state.running.get_mut(stage) else { return };
        let (done, total) = running.activity.position();
        let subject = escape_control(subject);
        if self.console.has_bars {
            let width = state.bars.text_width();
            // Numbers have at least half of the place; the rest of a long subject is cut.
            let text = running.activity.bar_text(width.saturating_sub(subject.chars().count() + 1).max(width / 2));
            let text = if subject.is_empty() { text } else { format!("{text} {subject}") };
            state.bars.show(stage, done, total, text);
        } else if self.console.has_progress_lines
            && let Some(line) = progress_line(stage, &subject, &running.activity)
            && running.pace.is_due(now, done, total)
        {
            self.print_start(state, stage);
            self.print_line(&line);
        }
    }

    /// Prints a line unless the output is JSON or quiet. Bars replace the lines of stages, except with `--verbose`.
    fn print_line(&self, text: &str) {
        let console = self.console;
        if !console.json && !console.quiet && (!console.has_bars || console.verbose) {
            self.bars.suspend(|| write_stderr(&format!("{text}\n")));
        }
    }
}

impl DisplayState {
    /// Running stage of this name. A stage that waits for its artefact reports progress before it starts.
    fn running_stage(&mut self, stage: &str, now: Instant) -> &mut RunningStage {
        let new = || RunningStage { activity: StageActivity::default(), pace: LinePace::start(now), start: None };
        self.running.entry(stage.to_owned()).or_insert_with(new)
    }

    /// Keeps the error of a write to stdout. The results are worth more than their events, so the run goes on.
    fn keep_error(&mut self, written: Result<()>) {
        if let Err(error) = written {
            self.unwritten.get_or_insert((error, 0)).1 += 1;
        }
    }

    fn remove(&mut self, stage: &str) {
        self.running.remove(stage);
        self.bars.remove(stage);
    }
}

/// Line about the progress of a stage; `None` if nothing is known about it yet, as of a stage that waits for a model.
fn progress_line(stage: &str, subject: &str, activity: &StageActivity) -> Option<String> {
    let space = if subject.is_empty() { "" } else { " " };
    let text = activity.line_text();
    (!text.is_empty()).then(|| format!("{stage}{space}{subject}: {text}"))
}

/// Line about the start of a stage, with its reasons if they are wanted.
fn start_line(stage: &str, kind: &str, resumed_rows: u64, reasons: &[String], has_reasons: bool) -> String {
    let start = match resumed_rows {
        0 => "started".to_owned(),
        rows => format!("resumed after {} rows", format_count(rows)),
    };
    let reasons = if has_reasons { reasons } else { &[] };
    let reasons = if reasons.is_empty() { String::new() } else { format!(", because {}", reasons.join("; ")) };
    format!("{stage} ({kind}): {start}{}", escape_control(&reasons))
}

/// Instants at these seconds after a start: a fake clock for tests.
#[cfg(test)]
fn clock() -> impl Fn(u64) -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a fake clock needs a start")]
    let start = Instant::now();
    move |seconds| start + Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_every_half_minute_or_tenth() {
        #[expect(clippy::disallowed_methods, reason = "a fake clock needs a start")]
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // 1,000 units in 100 s: a line at each tenth, every 10 s, but none at the end.
        let mut pace = LinePace::start(start);
        let printed: Vec<u64> = (1..=100).filter(|&second| pace.is_due(at(second), 10 * second, Some(1000))).collect();
        assert_eq!(printed, [10, 20, 30, 40, 50, 60, 70, 80, 90]);
        // A tenth takes 2 s: at most one line in 5 s.
        let mut pace = LinePace::start(start);
        let printed: Vec<u64> = (1..=20).filter(|&second| pace.is_due(at(second), 50 * second, Some(1000))).collect();
        assert_eq!(printed, [5, 10, 15]);
        // Without a total: every 30 s.
        let mut pace = LinePace::start(start);
        let printed: Vec<u64> = (1..=100).filter(|&second| pace.is_due(at(second), second, None)).collect();
        assert_eq!(printed, [30, 60, 90]);
        // Nothing at all to do.
        assert!(!LinePace::start(start).is_due(at(60), 0, Some(0)));
    }

    #[test]
    fn a_start_line_has_reasons_if_wanted() {
        let reasons = ["epochs: 3 → 4".to_owned(), "input `features` changed".to_owned()];
        assert_eq!(start_line("fit", "train", 0, &reasons, false), "fit (train): started");
        assert_eq!(
            start_line("fit", "train", 1200, &reasons, true),
            "fit (train): resumed after 1,200 rows, because epochs: 3 → 4; input `features` changed"
        );
    }

    #[test]
    fn a_stage_without_progress_has_no_line() {
        let at = clock();
        let mut joint = StageActivity::resumed(0);
        joint.record(at(0), 0, None, "rows", None);
        joint.record(at(31), 0, None, "rows", None);
        assert_eq!(progress_line("joint", "", &joint), None);
        joint.record(at(32), 64, Some(100), "rows", None);
        let line = progress_line("joint", "", &joint).unwrap();
        assert!(line.starts_with("joint: 64 of 100 rows (64 %)"), "{line}");
        assert!(progress_line("reading", "captions.csv", &joint).unwrap().starts_with("reading captions.csv: 64 of"));
    }

    #[test]
    fn stages_that_have_not_ended_are_known_until_the_end_of_the_run() {
        let console = Console {
            json: false,
            quiet: true,
            verbose: false,
            colour: false,
            has_bars: false,
            has_progress_lines: false,
        };
        let display = ProgressDisplay::new(console);
        let progress = |stage: &str, done| Event::Progress {
            stage: stage.to_owned(),
            done,
            total: Some(3600),
            unit: "steps".to_owned(),
            waiting_for: None,
        };
        let start = |stage: &str| Event::StageStarted {
            stage: stage.to_owned(),
            kind: "train".to_owned(),
            key: String::new(),
            resumed_rows: 0,
            reasons: vec![],
        };
        let end = |stage: &str| Event::StageFailed { stage: stage.to_owned(), error: String::new(), interrupted: true };
        for event in [start("fit"), start("other"), progress("fit", 120), end("other")] {
            display.show(&event);
        }
        assert_eq!(display.running_stages(), Some(vec!["`fit` (at 120 of 3,600 steps)".to_owned()]));
        display.clear();
        assert_eq!(display.running_stages(), None);
    }
}
