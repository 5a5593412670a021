//! SQL over a store: `stage.table` for every table of the latest runs, `store.*` for the store's own records.
//!
//! A query looks up the names that it mentions and nothing else, so opening a session reads no file.

pub mod session;
pub mod format;
mod epoch_plan;
mod names;
mod system;
#[cfg(test)]
mod tests;

pub use format::Format;
pub use session::{Rows, Session};
