//! The one interface through which artefacts are read and written: named byte objects, published whole, in a folder or at
//! a URL (`s3://`, `gs://`, `az://`, `http(s)://`).
//!
//! ```text
//! Location ──► Objects: get, size, list, put, create, replace, delete ──► a folder: files and renames
//!  (a folder                                                         └──► a URL: the client of `object_store`, with
//!   or a URL)                                                              retries and time-outs, on its own threads
//! ```

mod view;
mod location;
mod client;
mod fault;
#[cfg(test)]
mod tests;

pub(in crate::io) use client::runtime;
pub use location::Location;
pub use view::{Objects, Version};
