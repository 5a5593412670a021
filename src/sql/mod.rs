//! SQL over a store: `stage.table` for the tables of the latest runs, `store.*` for the store's own records.
//!
//! Tables are looked up when a query names them, so opening a session reads no file.

pub mod session;
pub mod format;
pub mod completion;
mod catalog;
mod epoch_order;
mod errors;
mod files;
mod functions;
mod information;
mod interrupt;
mod names;
mod plan_rewrites;
mod planners;
mod query_threads;
mod show;
mod state;
mod statements;
mod store_descriptions;
mod store_tables;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod files_tests;
#[cfg(test)]
mod functions_tests;
#[cfg(test)]
mod hints_tests;
#[cfg(test)]
mod show_tests;

pub use files::NamedFile;
pub use format::OutputFormat;
pub use interrupt::StatementInterrupt;
pub use names::{ListedTable, quote_identifier};
pub use query_threads::QueryRows;
pub use session::Session;
pub use statements::split_statements;
