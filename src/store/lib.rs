//! The store: artefacts in a folder or at a URL, locks for building and removing them, and records of runs.
//!
//! ```text
//! store/v1/
//!   extract/                                   kind of the stage
//!     0d1c…/                                   key: a hash of everything that the content depends on
//!       features/part-00000.parquet            a table in parts, each published as a whole
//!       features/part-00001.parquet
//!       row_keys/features                      digests of the images of the rows, by which later results copy rows
//!       manifest.json                          written last: the artefact is complete
//!       journal/00000003.json                  while it is being built: one entry for each commit
//!       state-00000002                         while it is being built: a state that the stage saved
//!       means, ranks                           while it is being built: threads and device; number of processes
//!       lock, claim                            held by the process that builds it, in a folder or at a URL
//!       builder                                its token, on a disk whose locks other machines may not see
//!   train/93ab…/model/model.safetensors        a files output
//!   runs/20261121T070105-3f2a.json             record of a run
//!   tags/paper, notes/…, pins/…                labels of runs and results
//!   sources/5c9e….digests                      digests of files outside of the store, by size, times and place
//!   sources/5c9e….folders                      times of their folders
//!   holds/77b0…                                at a URL: lease of a run that uses the store, or of a removal
//! ```
//!
//! A finished artefact is never modified, with one exception: if an object turns out to be damaged, a marker `damaged`
//! is written, and the next run builds the artefact again.

pub mod claim;
mod process_identity;
pub mod artefact;
mod verified_store;
mod part_columns;
mod layout;
mod lock;
pub mod gc;
pub mod journal;
pub mod key;
pub mod record;
pub mod run_names;
pub mod search_tasks;
pub mod labels;
pub mod lineage;
pub mod comparison;
// Tests of other modules use it too.
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod run_tests;
#[cfg(test)]
mod run_names_tests;
#[cfg(test)]
mod state_machine_tests;

pub use artefact::{Artefact, FileEntry, Manifest, Part, Presence, ROW_KEYS_FOLDER, parse_checked, with_checksum};
pub use layout::{CLUSTER_FOLDER, LOCKS_FOLDER, SEARCH_FOLDER, SOURCES_FOLDER};
pub use layout::{Store, folder_times_name, source_list_name};
pub use process_identity::ProcessIdentity;
pub use verified_store::{BlockDigests, VerifiedStore};
