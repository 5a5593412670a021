//! Pipeline files: TOML text to stages, with every mistake of the file told at once, by line and column.
//!
//! ```text
//! text ─► tree (values with places) ─► + overrides ─► checked against the schema ─► stages ─► connections checked
//!          tree.rs                      overrides.rs   check.rs                      load.rs    load.rs
//! ```
//!
//! The schema is the JSON Schema of the Rust types of the settings ([`schema`]), so that what a person is told, what an
//! editor completes and what serde reads cannot differ.
//!
//! Paths of sources are relative to the pipeline file. Those of `--set`, and those that begin with an environment
//! variable, are relative to the current folder, as everything else that a shell passes.

pub mod form;
pub mod load;
pub mod fault;
mod check;
mod overrides;
mod place;
mod tree;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod arbitrary_tests;

pub use fault::{Fault, Faults};
pub use form::{Expectation, schema};
pub use load::{Options, Pipeline, load};
