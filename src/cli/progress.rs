//! What happens in a run, as it happens: bars on a terminal, a line a stage elsewhere, or JSON.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::bytes::{count, human, seconds};
use super::output::{Output, tell};
use crate::engine::event::Event;
use crate::runtime::Stalls;
use crate::stage::Warning;

/// Warnings kept of a stage; the rest is counted.
const KEPT_WARNINGS: usize = 1000;
/// Bars drawn a second.
const DRAWS: u8 = 10;

/// Shows events, and keeps what the summary needs of them.
pub(super) struct Progress {
    output: Output,
    bars: MultiProgress,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bars of the stages that run.
    running: BTreeMap<String, ProgressBar>,
    /// The bar of sources being hashed.
    hashing: Option<ProgressBar>,
    seen: Seen,
}

/// What the summary needs.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Rows that were there when a stage went on, for those that were resumed.
    pub(super) resumed: BTreeMap<String, u64>,
    /// Warnings of this run by stage, at most [`KEPT_WARNINGS`] of each.
    pub(super) warnings: BTreeMap<String, Vec<Warning>>,
    /// Wall time of the run in seconds.
    pub(super) seconds: f64,
}

impl Progress {
    pub(super) fn new(output: Output) -> Self {
        let target = if output.bars { ProgressDrawTarget::stderr_with_hz(DRAWS) } else { ProgressDrawTarget::hidden() };
        Self { output, bars: MultiProgress::with_draw_target(target), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked while it held the lock has only shown less.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the bars off the screen.
    pub(super) fn clear(&self) {
        self.state().hashing = None;
        // Bars that cannot be removed are only untidy.
        let _ = self.bars.clear();
    }

    /// What was seen.
    pub(super) fn seen(&self) -> Seen {
        self.state().seen.clone()
    }

    /// Shows an event.
    pub(super) fn see(&self, event: &Event) {
        if self.output.json {
            // A reader that is gone does not stop the run.
            let _ = self.output.object(event);
        }
        let mut state = self.state();
        match event {
            Event::Hashing { source, done_bytes, total_bytes } => {
                self.hashing(&mut state, source, *done_bytes, *total_bytes);
            }
            Event::StageStarted { stage, kind, resumed_rows, .. } => {
                state.hashing = None;
                if *resumed_rows > 0 {
                    state.seen.resumed.insert(stage.clone(), *resumed_rows);
                    self.line(&format!("{stage} ({kind}): goes on after {} rows", count(*resumed_rows)));
                } else {
                    self.line(&format!("{stage} ({kind}): started"));
                }
                if self.output.bars {
                    let bar =
                        self.bars.add(ProgressBar::no_length().with_style(style(false)).with_prefix(stage.clone()));
                    bar.set_position(*resumed_rows);
                    bar.reset_eta();
                    bar.enable_steady_tick(Duration::from_millis(200));
                    state.running.insert(stage.clone(), bar);
                }
            }
            Event::Progress { stage, done, total, waiting_for } => {
                if let Some(bar) = state.running.get(stage) {
                    show(bar, *done, *total, waiting_for.as_deref());
                }
            }
            Event::Warned { stage, warning } => {
                let kept = state.seen.warnings.entry(stage.clone()).or_default();
                if kept.len() < KEPT_WARNINGS {
                    kept.push(warning.clone());
                }
            }
            Event::StageReused { stage, kind, rows, .. } => {
                self.line(&format!("{stage} ({kind}): reused, {} rows", count(*rows)));
            }
            Event::StageFinished { stage, rows, seconds: time, .. } => {
                remove(&mut state, &self.bars, stage);
                self.line(&format!("{stage}: finished, {} rows in {}", count(*rows), seconds(*time)));
            }
            Event::StageFailed { stage, interrupted, .. } => {
                remove(&mut state, &self.bars, stage);
                self.line(&format!("{stage}: {}", if *interrupted { "stopped" } else { "failed" }));
            }
            Event::RunFinished { seconds, .. } => state.seen.seconds = *seconds,
            Event::Loading { stage, stalls } => {
                if let Some(bar) = state.running.get(stage) {
                    bar.set_message(stalled(*stalls));
                }
            }
            Event::RunStarted { .. } | Event::PartCommitted { .. } | Event::StateSaved { .. } => {}
        }
    }

    fn hashing(&self, state: &mut State, source: &str, done: u64, total: u64) {
        if !self.output.bars {
            self.line(&format!("reading {source}: {} of {}", human(done), human(total)));
            return;
        }
        let bar = state.hashing.get_or_insert_with(|| {
            let template = "{prefix:>14} {bar:24} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}";
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            self.bars.add(ProgressBar::new(total).with_style(style).with_prefix("reading"))
        });
        bar.set_position(done);
        bar.set_message(source.to_owned());
    }

    /// A line for people who see no bars.
    fn line(&self, text: &str) {
        if !self.output.bars && !self.output.json && !self.output.quiet {
            tell(&format!("{text}\n"));
        }
    }
}

/// What a training waits for, if that is more than nothing.
fn stalled(stalls: Stalls) -> String {
    let share = |seconds: f64| 100.0 * seconds / stalls.total().max(f64::MIN_POSITIVE);
    let waits = [(share(stalls.storage), "storage"), (share(stalls.decode), "decoding")];
    let waits = waits.iter().filter(|(share, _)| *share >= 0.5).map(|(share, what)| format!("{share:.0} % for {what}"));
    let waits = waits.collect::<Vec<_>>().join(", ");
    if waits.is_empty() { waits } else { format!("waited {waits}") }
}

fn show(bar: &ProgressBar, done: u64, total: Option<u64>, waiting_for: Option<&str>) {
    if bar.length() != total {
        bar.set_style(style(total.is_some()));
        match total {
            Some(total) => bar.set_length(total),
            None => bar.unset_length(),
        }
    }
    bar.set_position(done);
    match waiting_for {
        Some(what) => bar.set_message(format!("waits for {what}")),
        None if bar.message().starts_with("waits for ") => bar.set_message(""),
        None => {}
    }
}

fn remove(state: &mut State, bars: &MultiProgress, stage: &str) {
    if let Some(bar) = state.running.remove(stage) {
        bar.finish_and_clear();
        bars.remove(&bar);
    }
}

/// A line with a bar, or without one while nobody knows the total.
fn style(known: bool) -> ProgressStyle {
    let template = if known {
        "{prefix:>14} {bar:24} {human_pos}/{human_len} {per_sec:>12} {eta:>4} left  {msg}"
    } else {
        "{prefix:>14} {spinner} {human_pos} {per_sec:>12} {elapsed}  {msg}"
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
