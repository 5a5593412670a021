//! Display of a run's events: progress bars on a terminal, otherwise lines of text or JSON.

mod activity;
mod bars;
mod display;
mod event_summary;
mod pace;
mod rate;
#[cfg(test)]
mod testing;

pub(super) use display::ProgressDisplay;
pub(super) use event_summary::EventSummary;
