//! Display of a run's events: progress bars on a terminal, otherwise lines of text or JSON.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::console::{Console, write_stderr};
use super::units::{format_bytes, format_count, format_duration};
use crate::engine::event::Event;
use crate::runtime::Stalls;
use crate::stage::Warning;

/// Maximum number of warnings kept per stage.
const MAX_WARNINGS: usize = 1000;
/// Redraws of the bars per second.
const BAR_REFRESH_HZ: u8 = 10;

/// Displays events and collects those that the summary needs.
pub(super) struct ProgressDisplay {
    console: Console,
    bars: MultiProgress,
    state: Mutex<DisplayState>,
}

#[derive(Default)]
struct DisplayState {
    /// Bars of running stages.
    running: BTreeMap<String, ProgressBar>,
    /// Bar of the hashing of sources.
    hashing: Option<ProgressBar>,
    summary: EventSummary,
}

/// Facts from the events of a run that its summary shows.
#[derive(Debug, Clone, Default)]
pub(super) struct EventSummary {
    /// Rows that existed when a stage was resumed, by stage.
    pub(super) resumed: BTreeMap<String, u64>,
    /// Warnings of this run by stage, at most [`MAX_WARNINGS`] of each.
    pub(super) warnings: BTreeMap<String, Vec<Warning>>,
    /// Wall time of the run in seconds.
    pub(super) seconds: f64,
}

impl ProgressDisplay {
    pub(super) fn new(console: Console) -> Self {
        let target = if console.has_bars {
            ProgressDrawTarget::stderr_with_hz(BAR_REFRESH_HZ)
        } else {
            ProgressDrawTarget::hidden()
        };
        Self { console, bars: MultiProgress::with_draw_target(target), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, DisplayState> {
        // A panic while the lock was held can only have left the display incomplete.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all bars from the screen.
    pub(super) fn clear(&self) {
        self.state().hashing = None;
        // A bar that cannot be removed does no harm.
        let _ = self.bars.clear();
    }

    /// Facts from the events up to now.
    pub(super) fn summary(&self) -> EventSummary {
        self.state().summary.clone()
    }

    /// Displays an event.
    pub(super) fn show(&self, event: &Event) {
        if self.console.json {
            // A closed stdout does not stop the run.
            let _ = self.console.print_json(event);
        }
        let mut state = self.state();
        match event {
            Event::Hashing { source, done_bytes, total_bytes } => {
                self.show_hashing(&mut state, source, *done_bytes, *total_bytes);
            }
            Event::StageStarted { stage, kind, resumed_rows, .. } => {
                state.hashing = None;
                if *resumed_rows > 0 {
                    state.summary.resumed.insert(stage.clone(), *resumed_rows);
                    self.print_line(&format!("{stage} ({kind}): resumed after {} rows", format_count(*resumed_rows)));
                } else {
                    self.print_line(&format!("{stage} ({kind}): started"));
                }
                if self.console.has_bars {
                    let bar =
                        self.bars.add(ProgressBar::no_length().with_style(bar_style(false)).with_prefix(stage.clone()));
                    bar.set_position(*resumed_rows);
                    bar.reset_eta();
                    bar.enable_steady_tick(Duration::from_millis(200));
                    state.running.insert(stage.clone(), bar);
                }
            }
            Event::Progress { stage, done, total, waiting_for } => {
                if let Some(bar) = state.running.get(stage) {
                    update_bar(bar, *done, *total, waiting_for.as_deref());
                }
            }
            Event::Warned { stage, warning } => {
                let kept = state.summary.warnings.entry(stage.clone()).or_default();
                if kept.len() < MAX_WARNINGS {
                    kept.push(warning.clone());
                }
            }
            Event::StageReused { stage, kind, rows, .. } => {
                self.print_line(&format!("{stage} ({kind}): reused, {} rows", format_count(*rows)));
            }
            Event::StageFinished { stage, rows, seconds: time, .. } => {
                remove_bar(&mut state, &self.bars, stage);
                self.print_line(&format!(
                    "{stage}: finished, {} rows in {}",
                    format_count(*rows),
                    format_duration(*time)
                ));
            }
            Event::StageFailed { stage, interrupted, .. } => {
                remove_bar(&mut state, &self.bars, stage);
                self.print_line(&format!("{stage}: {}", if *interrupted { "stopped" } else { "failed" }));
            }
            Event::RunFinished { seconds, .. } => state.summary.seconds = *seconds,
            Event::Loading { stage, stalls } => {
                if let Some(bar) = state.running.get(stage) {
                    bar.set_message(stall_message(*stalls));
                }
            }
            Event::RunStarted { .. } | Event::PartCommitted { .. } | Event::StateSaved { .. } => {}
        }
    }

    fn show_hashing(&self, state: &mut DisplayState, source: &str, done: u64, total: u64) {
        if !self.console.has_bars {
            self.print_line(&format!("reading {source}: {} of {}", format_bytes(done), format_bytes(total)));
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

    /// Prints a line, unless bars are drawn or output is JSON or quiet.
    fn print_line(&self, text: &str) {
        if !self.console.has_bars && !self.console.json && !self.console.quiet {
            write_stderr(&format!("{text}\n"));
        }
    }
}

/// Message with the shares of time that a training waits for storage and decoding; empty if both are below 0.5 %.
fn stall_message(stalls: Stalls) -> String {
    let share = |seconds: f64| 100.0 * seconds / stalls.total().max(f64::MIN_POSITIVE);
    let waits = [(share(stalls.storage), "storage"), (share(stalls.decode), "decoding")];
    let waits = waits.iter().filter(|(share, _)| *share >= 0.5).map(|(share, what)| format!("{share:.0} % for {what}"));
    let waits = waits.collect::<Vec<_>>().join(", ");
    if waits.is_empty() { waits } else { format!("waited {waits}") }
}

fn update_bar(bar: &ProgressBar, done: u64, total: Option<u64>, waiting_for: Option<&str>) {
    if bar.length() != total {
        bar.set_style(bar_style(total.is_some()));
        match total {
            Some(total) => bar.set_length(total),
            None => bar.unset_length(),
        }
    }
    bar.set_position(done);
    match waiting_for {
        Some(what) => bar.set_message(format!("waiting for {what}")),
        None if bar.message().starts_with("waiting for ") => bar.set_message(""),
        None => {}
    }
}

fn remove_bar(state: &mut DisplayState, bars: &MultiProgress, stage: &str) {
    if let Some(bar) = state.running.remove(stage) {
        bar.finish_and_clear();
        bars.remove(&bar);
    }
}

/// Style of a progress line: a bar if the total is known, otherwise a spinner.
fn bar_style(known: bool) -> ProgressStyle {
    let template = if known {
        "{prefix:>14} {bar:24} {human_pos}/{human_len} {per_sec:>12} {eta:>4} left  {msg}"
    } else {
        "{prefix:>14} {spinner} {human_pos} {per_sec:>12} {elapsed}  {msg}"
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
