//! Pipeline files: TOML text to connected stages. All mistakes of a file are reported at once, by line and column.
//!
//! ```text
//! text ─► tree (values with spans) ─► + overrides ─► instances of stages ─► checked against the schema ─► connections checked
//!          toml_tree.rs                overrides.rs   instances.rs, matrix/  stage_check.rs, schema_check.rs  connect.rs
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
mod expectation_check;
pub mod diagnostic;
mod alternative;
mod schema_check;
mod source_check;
mod not_toml;
mod size_check;
mod setting_places;
mod matrix;
mod stage_check;
mod instance_names;
mod profile_check;
mod instances;
mod overrides;
mod read_file;
mod source_map;
mod sources;
mod toml_tree;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod message_tests;
#[cfg(test)]
mod size_tests;
#[cfg(test)]
mod source_tests;
#[cfg(test)]
mod arbitrary_tests;

pub use diagnostic::{Diagnostic, Diagnostics};
pub use expectation::{ConditionValue, Expectation, ExpectedValue, TableValue};
pub use file_format::schema;
pub use load::{LoadOptions, Pipeline, load};
