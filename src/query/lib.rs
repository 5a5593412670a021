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

pub mod scalar_subqueries;
mod session;
pub mod format;
pub mod completion;
mod axis_columns;
mod bounded_functions;
mod catalog;
mod column_names;
mod cooperative;
mod condition_message;
mod csv_schema;
mod query_size;
mod deep_stack;
mod epoch_order;
mod errors;
mod file_scans;
mod files;
mod record_limits;
mod json_names;
mod file_records;
mod functions;
mod information;
mod integer_operators;
mod instances;
mod interrupt;
mod misread_queries;
mod missing_values;
mod names;
mod nested_loop_joins;
mod null_safe_joins;
mod operator_messages;
mod parameters;
mod part_ranges;
mod pass_through;
mod plan_rewrites;
mod projection_filters;
mod projection_names;
mod plan_runner;
mod cast_types;
mod plan_size;
mod planners;
mod planning_messages;
mod query_memory;
mod query_options;
mod query_threads;
mod rank_of_positive;
mod read_once;
mod read_order;
mod session_catalog;
mod session_tables;
mod setting_comparisons;
mod setting_queries;
mod settings_column;
mod show;
mod small_batches;
mod sort_measures;
mod stage_table;
mod state;
mod statements;
mod store_descriptions;
mod subquery_forms;
mod subquery_names;
mod text_concatenation;
mod text_views;
mod topk_join;
mod topk_join_function;
mod unknown_table;
mod unmoved_filters;
mod value_sizes;
mod vector_cache;
mod vectors;
mod store_tables;
mod all_runs;
mod result_files;
mod run_catalogs;
// Tests of other modules use it too.
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod bounded_functions_tests;
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

pub use catalog::{ALL_RUNS_SCHEMA, DeclaredTable, STORE_SCHEMA, StageArtefact};
pub use files::check_text_file;
pub use format::OutputFormat;
pub use information::INFORMATION_SCHEMA;
pub use interrupt::StatementInterrupt;
pub use names::{ListedTable, quote_identifier};
pub use operator_messages::{decode_operator, encode_operator};
pub use parameters::ParameterValue;
pub use plan_runner::PlanRunner;
pub use query_options::{QueryLimits, QueryOptions};
pub use query_threads::{QueryRows, QueryStream};
pub use read_order::ReadOrder;
pub use session::{PreparedQuery, Session};
pub use state::{CATALOG, FILES, function_state, store_url};
pub use statements::split_statements;
pub use vector_cache::VECTOR_CACHE_BYTES;
