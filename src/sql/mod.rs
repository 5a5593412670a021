//! SQL over a store.
//!
//! | name | table |
//! |---|---|
//! | `stage.table` | a table of one run, to which the session is bound |
//! | `all_runs.table` | rows of all results with a table of this name, with the columns `run`, `pipeline`, `stage`, `key`, `settings` |
//! | `store.table` | the store's own records |
//!
//! Tables are looked up when a query names them.

pub mod session;
pub mod format;
mod epoch_order;
mod catalog;
mod unknown_table;
mod store_tables;
mod all_runs;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod run_tests;

pub use format::OutputFormat;
pub use session::{QueryRows, Session};
