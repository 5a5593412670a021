//! The one interface through which artefacts are read and written: named byte objects, published whole, in a folder or at
//! a URL (`s3://`, `gs://`, `az://`, `http(s)://`).
//!
//! ```text
//! Location ──► Objects: get, size, list, put, create, replace, delete ──► a folder: files and renames
//!  (a folder       │                                                 └──► a URL: the client of `object_store`, with
//!   or a URL)      └──► Pending: a read that goes on in the background        retries and time-outs, on its own threads
//! ```

mod view;
mod location;
mod client;
mod pending;
mod fault;
#[cfg(test)]
mod tests;

pub use location::Location;
pub use pending::Pending;
pub use view::{Objects, Version};
