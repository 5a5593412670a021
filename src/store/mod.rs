//! The store: artefacts in a folder or at a URL, the rights to build them, and the records of runs.
//!
//! ```text
//! store/v1/
//!   extract/                                   kind of the stage
//!     0d1c…/                                   key: a hash of all that the content depends on
//!       features/part-00000.parquet            a table in parts, each published whole
//!       features/part-00001.parquet
//!       manifest.json                          written last: the artefact is complete
//!       journal/00000003.json                  while it is being built: what is committed
//!       state-00000002                         while it is being built: the stage's own state
//!       means, ranks                           while it is being built: threads and device, and processes, that began it
//!       lock, claim                            held by the process that builds it, in a folder or at a URL
//!   train/93ab…/model/model.safetensors        files that are published together
//!   runs/20261121T070105-3f2a.json             what each run did
//!   sources/5c9e….tsv                          digests of files outside of the store, by size and time
//!   holds/77b0…                                at a URL: a run that uses the store, or who removes from it
//! ```
//!
//! A finished artefact is never modified, with one exception: when a part turns out damaged, a marker is put beside it,
//! and the next run builds the artefact again.

pub mod claim;
mod claimant;
mod artefact;
mod layout;
mod lock;
pub mod gc;
pub mod journal;
pub mod key;
pub mod record;

pub use artefact::{Artefact, FileEntry, Manifest, Part, Presence};
pub use claimant::Claimant;
pub(crate) use layout::HOLDS;
pub use layout::Store;
