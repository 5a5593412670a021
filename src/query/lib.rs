//! SQL over a store.
//!
//! | name | table |
//! |---|---|
//! | `stage.table` | a table of one run, to which the session is bound; of a stage that the matrix repeats, the rows of all instances |
//! | `run.stage.table` | a table of another run |
//! | `all_runs.table` | rows of all results with a table of this name, with the columns `last_run`, `pipeline`, `stage`, `key`, `settings` |
//! | `store.table` | the store's own records |
//!
//! Tables are looked up when a query names them.

mod subqueries;
mod session;
pub mod format;
pub mod completion;
mod catalog;
mod column_names;
mod dialect;
mod epoch_order;
mod errors;
mod files;
mod file_records;
mod information;
mod interrupt;
mod names;
mod parameters;
mod pass_through;
mod plan_rewrites;
mod plan_runner;
mod planners;
mod query_options;
mod query_size;
mod query_threads;
mod rank_of_positive;
mod sent_errors;
mod session_tables;
mod setting_queries;
mod sort_measures;
mod stage_table;
mod state;
mod statements;
mod topk_join;
mod topk_join_function;
mod unmoved_filters;
mod value_sizes;
mod vector_cache;
mod vectors;
mod store_tables;
mod table_functions;
mod all_runs;
mod result_files;
// Tests of other modules use it too.
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod dialect_tests;
#[cfg(test)]
mod files_tests;
#[cfg(test)]
mod functions_tests;
#[cfg(test)]
mod hints_tests;
#[cfg(test)]
mod show_tests;
#[cfg(test)]
mod run_tests;
#[cfg(test)]
mod sql_tests;

pub use catalog::{ALL_RUNS_SCHEMA, DeclaredTable, STORE_SCHEMA, StageArtefact};
pub use files::check_text_file;
pub use format::OutputFormat;
pub use information::INFORMATION_SCHEMA;
pub use interrupt::StatementInterrupt;
pub use names::{ListedTable, quote_identifier};
pub use parameters::ParameterValue;
pub use plan_runner::{PlanRunner, decode_operator, encode_operator};
pub use query_options::{QueryLimits, QueryOptions};
pub use query_threads::{QueryRows, QueryStream};
pub use sent_errors::{error_to_send, sent_error, with_sent_errors};
pub use session::{PreparedQuery, Session};
pub use sort_measures::ReadOrder;
pub use state::{CATALOG, FILES, function_state, store_url};
pub use statements::split_statements;
pub use vector_cache::VECTOR_CACHE_BYTES;
