//! Tables over all runs: `all_runs.summary` has the rows of every `summary` in the store.
//!
//! Each result of a stage of a pipeline appears once, however many runs repeated it. Five columns come after those of
//! the table: `last_run` (the last finished run with this result, otherwise the last run), `pipeline`, `stage`, `key`,
//! and `settings`, a map from `stage.setting` to the text of the value, for the stage and all stages that its result
//! follows from. If the table has a column of such a name, that of the run gets the prefix `run_`.
//!
//! Conditions on these columns select the files that are read. Small files are read several at a time.

mod results;
mod instances;
mod run_columns;
mod file_schemas;
mod provider;
mod small_files;

pub(super) use instances::instances_table;
pub(super) use provider::setting_kinds;
pub(super) use results::table;
pub(super) use run_columns::described_columns;
