//! Tables of the schema `information_schema`: schemas, tables and columns, with their descriptions.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema, SchemaRef};

use crate::names::ListedTable;
use crate::state::{CATALOG, FILES};
use crate::store_descriptions;
use pairloom_base::error::Result;
use pairloom_tables as tables;

/// Name of the schema.
pub const INFORMATION_SCHEMA: &str = "information_schema";
/// Names of its tables.
pub(super) const INFORMATION_TABLES: [&str; 4] = ["schemata", "tables", "columns", "routines"];

/// Schemas of the store, one row each.
pub(super) fn schemata(tables: &[ListedTable]) -> Result<RecordBatch> {
    let mut names: Vec<&str> = tables.iter().map(|table| table.schema.as_str()).collect();
    names.dedup();
    named_batch(vec![
        ("catalog_name", text_array(names.iter().map(|_| Some(CATALOG.to_owned())))),
        ("schema_name", text_array(names.iter().map(|name| Some((*name).to_owned())))),
    ])
}

/// Tables, one row each. No table is opened.
pub(super) fn tables(tables: &[ListedTable]) -> Result<RecordBatch> {
    let all = tables::all();
    let comment = |table: &ListedTable| match table.schema.as_str() {
        "store" => store_descriptions::table_description(&table.table).map(str::to_owned),
        FILES => Some("A file, from the command line.".to_owned()),
        INFORMATION_SCHEMA => information_comment(&table.table).map(str::to_owned),
        _ => all.iter().find(|known| known.name == table.table).map(|known| known.description.to_owned()),
    };
    let rows: Int64Array = tables.iter().map(|table| table.rows.and_then(|rows| i64::try_from(rows).ok())).collect();
    named_batch(vec![
        ("table_catalog", text_array(tables.iter().map(|_| Some(CATALOG.to_owned())))),
        ("table_schema", text_array(tables.iter().map(|table| Some(table.schema.clone())))),
        ("table_name", text_array(tables.iter().map(|table| Some(table.table.clone())))),
        ("table_type", text_array(tables.iter().map(|_| Some("BASE TABLE".to_owned())))),
        ("table_rows", Arc::new(rows)),
        ("table_comment", text_array(tables.iter().map(comment))),
    ])
}

/// Description of a table of the schema itself.
fn information_comment(table: &str) -> Option<&'static str> {
    Some(match table {
        "schemata" => "One row per schema.",
        "tables" => "One row per table.",
        "columns" => "One row per column of a table.",
        "routines" => "One row per function.",
        _ => return None,
    })
}

/// Columns of tables, one row each.
pub(super) fn columns(tables: &[(ListedTable, SchemaRef)]) -> Result<RecordBatch> {
    let columns: Vec<_> = tables
        .iter()
        .flat_map(|(table, schema)| {
            let comments = column_comments(table, schema);
            schema.fields().iter().cloned().enumerate().zip(comments).map(move |column| (table, column))
        })
        .collect();
    let positions = columns.iter().map(|(_, ((index, _), _))| i64::try_from(*index + 1).ok());
    named_batch(vec![
        ("table_catalog", text_array(columns.iter().map(|_| Some(CATALOG.to_owned())))),
        ("table_schema", text_array(columns.iter().map(|(table, _)| Some(table.schema.clone())))),
        ("table_name", text_array(columns.iter().map(|(table, _)| Some(table.table.clone())))),
        ("column_name", text_array(columns.iter().map(|(_, ((_, field), _))| Some(field.name().clone())))),
        ("ordinal_position", Arc::new(positions.collect::<Int64Array>())),
        ("is_nullable", text_array(columns.iter().map(|(_, ((_, field), _))| Some(yes_no(field))))),
        (
            "data_type",
            text_array(columns.iter().map(|(_, ((_, field), _))| Some(tables::column_type(field.data_type())))),
        ),
        ("column_comment", text_array(columns.iter().map(|(_, (_, comment))| comment.clone()))),
    ])
}

/// Columns of one table for `DESCRIBE` and `SHOW COLUMNS`.
pub(super) fn description(table: &ListedTable, schema: &SchemaRef) -> Result<RecordBatch> {
    let fields = schema.fields();
    named_batch(vec![
        ("column_name", text_array(fields.iter().map(|field| Some(field.name().clone())))),
        ("data_type", text_array(fields.iter().map(|field| Some(tables::column_type(field.data_type()))))),
        ("is_nullable", text_array(fields.iter().map(|field| Some(yes_no(field))))),
        ("description", text_array(column_comments(table, schema).into_iter())),
    ])
}

/// Description of each column of a table.
fn column_comments(table: &ListedTable, schema: &SchemaRef) -> Vec<Option<String>> {
    let described = match table.schema.as_str() {
        "store" | FILES | INFORMATION_SCHEMA => None,
        _ => tables::described(&table.table, schema),
    };
    let comment = |field: &Arc<Field>| match &described {
        Some(known) => {
            let column = known.columns.iter().find(|column| column.name == field.name().as_str());
            column.map(|column| column.description.to_string())
        }
        None if table.schema == "store" => {
            store_descriptions::column_description(&table.table, field.name()).map(str::to_owned)
        }
        None => None,
    };
    schema.fields().iter().map(comment).collect()
}

fn yes_no(field: &Field) -> String {
    if field.is_nullable() { "YES" } else { "NO" }.to_owned()
}

fn named_batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    tables::batch(&Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect())
}

fn text_array(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}
