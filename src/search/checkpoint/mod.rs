//! Checkpoints of a search: what it has found so far is kept, under a name that says what it follows from.

mod progress;
mod payload;
mod sealed;
mod sections;

pub(super) use payload::{Reader, Writer};
pub(super) use sealed::{load, name, save};
pub(super) use sections::Sections;

pub use progress::{CheckpointStore, MINIMUM_COST, Progress};
