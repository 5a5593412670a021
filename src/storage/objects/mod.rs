//! Object storage for artefacts: named byte objects that are written atomically, in a folder or at a URL (`s3://`,
//! `gs://`, `az://`, `http(s)://`).
//!
//! ```text
//! Location ──► ObjectStorage: get, size, list, put, create, replace, delete ─► a folder: files and renames
//!  (a folder                                                              └─► a URL: clients of `object_store`, with
//!   or a URL)                                                                 retries and time-outs
//! ```
//!
//! In a folder each write and removal is on the disk when it returns (`durable_folder.rs`).

mod storage;
mod parsed_objects;
mod object_version;
mod read_whole;
mod location;
mod listed_object;
mod limited_client;
mod client;
mod folder_calls;
mod durable_folder;
mod storage_error;
mod file_sizes;
mod leftovers;
// Tests of other modules use it too.
#[doc(hidden)]
pub mod power_cut;
#[cfg(test)]
mod tests;

pub use client::runtime;
pub use listed_object::{ListedObject, ObjectStamp, ReadObject};
pub use location::Location;
pub use object_version::ObjectVersion;
pub use storage::ObjectStorage;
