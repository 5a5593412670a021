//! SQL over a store: `stage.table` for the tables of the latest runs, `store.*` for the store's own records.
//!
//! Tables are looked up when a query names them, so opening a session reads no file.

pub mod session;
pub mod format;
mod epoch_order;
mod catalog;
mod store_tables;
#[cfg(test)]
mod tests;

pub use format::OutputFormat;
pub use session::{QueryRows, Session};
