//! Functions that a query can call, with their syntax and description, for `SHOW FUNCTIONS`.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Documentation;

use crate::epoch_order;
use crate::topk_join::TOPK_JOIN;
use pairloom_base::error::Result;
use pairloom_tables as tables;

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
    let higher = state.higher_order_functions().iter();
    let higher = higher.map(|(name, function)| row(name, "scalar", function.documentation()));
    let aggregate = state.aggregate_functions().iter();
    let aggregate = aggregate.map(|(name, function)| row(name, "aggregate", function.documentation()));
    let window = state.window_functions().iter().map(|(name, function)| row(name, "window", function.documentation()));
    // Those over the tables of a session are not in the state that reads these tables.
    let own = [epoch_order::NAME, TOPK_JOIN];
    let table = state.table_functions().keys().map(String::as_str).chain(own).map(|name| row(name, "table", None));
    let mut rows: Vec<_> = scalar.chain(higher).chain(aggregate).chain(window).chain(table).collect();
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
