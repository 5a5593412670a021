//! Lookup of a table of the schema `store`.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};

use super::{artefacts, lineage, runs};
use crate::error::Result;
use crate::sql::catalog::StoreCatalog;
use crate::tables;

/// Rows of the table `store.NAME`; `None` if there is no such table.
///
/// # Errors
/// The store cannot be read.
pub(in crate::sql) fn table(catalog: &StoreCatalog, name: &str) -> Result<Option<RecordBatch>> {
    let columns = match name {
        "runs" => runs::runs(catalog)?,
        "stages" => runs::stages(catalog)?,
        "settings" => runs::settings(catalog)?,
        "expectations" => runs::expectations(catalog)?,
        "artefacts" => artefacts::artefacts(catalog)?,
        "parts" => artefacts::parts(catalog)?,
        "warnings" => artefacts::warnings(catalog)?,
        "inputs" => lineage::inputs(catalog)?,
        "lineage" => lineage::lineage(catalog)?,
        _ => return Ok(None),
    };
    let fields: Vec<Field> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    tables::batch(&Arc::new(Schema::new(fields)), columns).map(Some)
}
