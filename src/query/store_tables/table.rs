//! Lookup of a table of the schema `store`.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};

use super::columns::NamedColumns;
use super::{artefacts, lineage, runs};
use crate::catalog::StoreCatalog;
use pairloom_base::error::Result;
use pairloom_tables as tables;

/// Function that computes the columns of a table.
type TableFn = fn(&StoreCatalog) -> Result<NamedColumns>;

/// Tables of the schema `store`.
const TABLES: [(&str, TableFn); 9] = [
    ("runs", runs::runs),
    ("stages", runs::stages),
    ("settings", runs::settings),
    ("artefacts", artefacts::artefacts),
    ("inputs", lineage::inputs),
    ("lineage", lineage::lineage),
    ("parts", artefacts::parts),
    ("warnings", artefacts::warnings),
    ("expectations", runs::expectations),
];

/// Names of the tables.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|(name, _)| *name)
}

/// Rows of the table `store.NAME`; `None` if there is no such table.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn table(catalog: &StoreCatalog, name: &str) -> Result<Option<RecordBatch>> {
    let Some((_, columns)) = TABLES.iter().find(|(known, _)| *known == name) else { return Ok(None) };
    let columns = columns(catalog)?;
    let fields: Vec<Field> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    tables::batch(&Arc::new(Schema::new(fields)), columns).map(Some)
}
