//! Tables of the schema `information_schema`: schemas, tables and columns, with their descriptions, and the functions that a
//! query can call.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Documentation;

use crate::names::ListedTable;
use crate::state::{CATALOG, FILES};
use crate::topk_join_function::TOPK_JOIN;
use crate::{epoch_order, store_tables};
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
        "store" => store_tables::table_description(&table.table).map(str::to_owned),
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
            store_tables::column_description(&table.table, field.name()).map(str::to_owned)
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

/// Description of a function of ours, or of a library that describes its functions nowhere a program can read.
const DESCRIBED: [(&str, &str, &str); 12] = [
    (epoch_order::NAME, "epoch_order('stage', epoch [, ranks])", "Samples of an epoch of a training, in their order."),
    (
        TOPK_JOIN,
        "topk_join('queries', 'items', k [, 'measure' [, 'method' [, 'bank' [, 'bank of items']]]])",
        "The k rows of a table whose vectors are nearest to those of each row of another, with rank and score.",
    ),
    ("||", "a || b", "The second text or list after the first; missing if one of two texts is."),
    ("json_get", "json_get(json, key, …)", "Value at a path of keys and positions; also `json->key`."),
    ("json_as_text", "json_as_text(json, key, …)", "Value at a path as text; also `json->>key`."),
    ("json_get_str", "json_get_str(json, key, …)", "Text at a path; missing if it is something else."),
    ("json_get_int", "json_get_int(json, key, …)", "Whole number at a path; missing if it is something else."),
    ("json_get_float", "json_get_float(json, key, …)", "Number at a path; missing if it is something else."),
    ("json_get_bool", "json_get_bool(json, key, …)", "Truth value at a path; missing if it is something else."),
    ("json_contains", "json_contains(json, key, …)", "True if there is a value at a path."),
    ("json_length", "json_length(json, key, …)", "Number of values of the list or object at a path."),
    ("json_object_keys", "json_object_keys(json, key, …)", "Keys of the object at a path."),
];

/// Functions, one row each, by name.
pub(super) fn functions(state: &SessionState) -> Result<RecordBatch> {
    let scalar = state.scalar_functions().iter().map(|(name, function)| row(name, "scalar", function.documentation()));
    let aggregate = state.aggregate_functions().iter();
    let aggregate = aggregate.map(|(name, function)| row(name, "aggregate", function.documentation()));
    let window = state.window_functions().iter().map(|(name, function)| row(name, "window", function.documentation()));
    // Those over the tables of a session are not in the state that reads these tables.
    let own = [epoch_order::NAME, TOPK_JOIN];
    let table = state.table_functions().keys().map(String::as_str).chain(own).map(|name| row(name, "table", None));
    let mut rows: Vec<_> = scalar.chain(aggregate).chain(window).chain(table).collect();
    rows.sort();
    let columns = ["routine_name", "routine_type", "syntax", "description"];
    let fields = columns.map(|name| Field::new(name, DataType::Utf8, true));
    let texts = (0..columns.len())
        .map(|column| Arc::new(StringArray::from_iter(rows.iter().map(|row| row[column].clone()))) as _);
    tables::batch(&Arc::new(Schema::new(fields.to_vec())), texts.collect())
}

/// Name, kind, syntax and description of a function.
fn row(name: &str, kind: &str, documentation: Option<&Documentation>) -> [Option<String>; 4] {
    let ours = DESCRIBED.iter().find(|(known, _, _)| *known == name);
    let syntax = documentation.map(|text| text.syntax_example.as_str()).or(ours.map(|(_, syntax, _)| *syntax));
    let about = documentation.map(|text| text.description.as_str()).or(ours.map(|(_, _, about)| *about));
    // One line, as in a table.
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    [Some(name.to_owned()), Some(kind.to_owned()), syntax.map(line), about.map(line)]
}
