//! Checkpoints of a search: its results so far, saved under a name that is a digest of all inputs.

mod progress;
mod payload;
mod checksum;
mod sections;

pub(super) use checksum::{checkpoint_name, load, save, seal, unseal};
pub(super) use payload::{PayloadReader, PayloadWriter};
pub(super) use sections::{Sections, cut};

pub use progress::{CheckpointStore, MINIMUM_COST, SearchProgress};
