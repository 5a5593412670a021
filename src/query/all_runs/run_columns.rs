//! Columns of the run of a row, beside the columns of the table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, MapBuilder, RecordBatch, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use crate::settings_column::{RUN_PREFIX, SETTINGS};
use pairloom_base::error::Result;
use pairloom_store::flat_settings;
use pairloom_store::record::{RunRecord, StageRecord};
use pairloom_tables as tables;

/// Columns of the run of a row, after the columns of the table.
const RUN_COLUMNS: [&str; 4] = ["last_run", "pipeline", "stage", "key"];

/// Columns of `all_runs.NAME` as the program declares them; those that depend on settings are left out.
pub(crate) fn described_columns(name: &str) -> SchemaRef {
    let described = tables::all().into_iter().find(|table| table.name == name);
    let own = described.map_or_else(|| Arc::new(Schema::empty()) as SchemaRef, |table| table.schema());
    let fields: Vec<FieldRef> = own.fields().iter().cloned().chain(run_fields(&own)).collect();
    Arc::new(Schema::new(fields))
}

/// Columns of the run beside the columns `own` of a table. A name that the table has itself gets the prefix `run_`.
pub(super) fn run_fields(own: &Schema) -> Vec<FieldRef> {
    let map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new()).finish();
    let texts = RUN_COLUMNS.iter().map(|name| (*name, DataType::Utf8));
    let columns = texts.chain(std::iter::once((SETTINGS, map.data_type().clone())));
    let field = |(name, data_type): (&str, DataType)| {
        let name = if own.index_of(name).is_ok() { format!("{RUN_PREFIX}{name}") } else { name.to_owned() };
        Arc::new(Field::new(name, data_type, false))
    };
    columns.map(|column| field(column) as FieldRef).collect()
}

/// Columns of the run, one row for each result.
pub(super) fn results_batch(
    uses: &[(&RunRecord, &StageRecord)],
    pipelines: &BTreeMap<&str, &str>,
) -> Result<RecordBatch> {
    let text = |of: &dyn Fn(&RunRecord, &StageRecord) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(uses.iter().map(|(run, stage)| of(run, stage))))
    };
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for (run, stage) in uses {
        for (name, value) in flat_settings::settings_of_result(run, stage) {
            map.keys().append_value(name);
            map.values().append_value(value);
        }
        map.append(true)?;
    }
    let map: ArrayRef = Arc::new(map.finish());
    let columns = vec![
        text(&|run, _| run.run.clone()),
        text(&|run, _| pipelines[run.pipeline_identity()].to_owned()),
        text(&|_, stage| stage.name.clone()),
        text(&|_, stage| stage.key.to_string()),
        map,
    ];
    tables::batch(&Arc::new(Schema::new(run_fields(&Schema::empty()))), columns)
}
