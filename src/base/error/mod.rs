//! Error type of the crate, and helpers for error messages.

pub mod error_type;
pub mod validation_errors;
pub mod problem;
pub mod truncated_list;
pub mod skipped;
pub mod panics;

pub use error_type::{Error, ErrorCategory, Result, escape_control, escape_line, with_causes};
pub use panics::{catch_panic, panic_error};
pub use problem::{Problem, Severity};
pub use skipped::SkippedItems;
pub use truncated_list::TruncatedList;
pub use validation_errors::ValidationErrors;
