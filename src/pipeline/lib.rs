//! Pipeline files: TOML text to connected stages. All mistakes of a file are reported at once, by line and column.
//!
//! ```text
//! text ─► tree (values with spans) ─► + overrides ─► instances of stages ─► checked against the schema ─► connections checked
//!          toml_tree.rs                overrides.rs   instances.rs, matrix/  schema_check.rs          connect.rs
//! ```
//!
//! The JSON Schema is generated from the Rust types of the settings ([`schema`]), so that error messages, completion in
//! editors and serde agree.
//!
//! Paths of sources are relative to the folder of the pipeline file. Paths given by `--set`, and paths that begin with
//! an environment variable, are relative to the current folder.

pub mod file_format;
pub mod load;
mod connect;
mod expectation;
pub mod diagnostic;
mod schema_check;
mod matrix;
mod instances;
mod overrides;
mod sources;
mod toml_tree;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod message_tests;
#[cfg(test)]
mod large_file_tests;
#[cfg(test)]
mod source_tests;

pub use diagnostic::{Diagnostic, Diagnostics};
pub use expectation::{ConditionValue, Expectation, ExpectedValue, SkippedExpectation, TableValue};
pub use file_format::schema;
pub use load::{LoadOptions, Pipeline, load};
