//! Tables over all runs: `all_runs.summary` has the rows of every `summary` in the store.
//!
//! Each result of a stage of a pipeline appears once, however many runs repeated it. Five columns come after those of
//! the table: `last_run` (the last finished run with this result, otherwise the last run), `pipeline`, `stage`, `key`,
//! and `settings`, a map from `stage.setting` to the text of the value, for the stage and all stages that its result
//! follows from. If the table has a column of such a name, that of the run gets the prefix `run_`.

mod results;
mod run_columns;

pub(super) use results::table;
pub(super) use run_columns::described_columns;
