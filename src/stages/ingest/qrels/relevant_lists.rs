//! JSON objects that map each query to the list of its relevant items.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::error::{Result, ValidationErrors};
use crate::io::image_names::shown_name;
use crate::io::json;
use crate::io::trec::Judgement;

/// Description of a valid file, for error messages.
const EXPECTED_FORMAT: &str = "a list of relevant items for each query, `{\"42\": [16, 23]}`";

/// Lists of relevant items by query, in the order of the file. A map would hide repeated queries.
struct RelevantLists(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for RelevantLists {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RelevantListsVisitor)
    }
}

struct RelevantListsVisitor;

impl<'de> Visitor<'de> for RelevantListsVisitor {
    type Value = RelevantLists;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RelevantLists, M::Error> {
        let mut lists = Vec::new();
        while let Some(list) = map.next_entry()? {
            lists.push(list);
        }
        Ok(RelevantLists(lists))
    }
}

/// Reads the file at `path`. Every listed item has the grade 1.
///
/// # Errors
/// The file is not such an object; a query or an item is not a whole number, or occurs twice. The error names the query.
pub(super) fn read(path: &Path, check: impl Fn() -> Result<()>) -> Result<Vec<Judgement>> {
    let RelevantLists(lists) = json::read_while(path, EXPECTED_FORMAT, check)?;
    let mut mistakes = ValidationErrors::in_file(path);
    let mut judgements = Vec::new();
    let mut queries: HashMap<i64, &str> = HashMap::with_capacity(lists.len());
    for (key, list) in &lists {
        let place = || format!("query `{}`", shown_name(key));
        let Ok(query) = key.trim().parse() else {
            mistakes.add(place(), "wanted a whole number");
            continue;
        };
        if let Some(first) = queries.insert(query, key) {
            let same = if first == key { String::new() } else { format!(", before as `{first}`") };
            mistakes.add(place(), format_args!("it appears twice{same}"));
        }
        let Value::Array(items) = list else {
            mistakes.add(place(), format_args!("it has {}, wanted a list of items", kind(list)));
            continue;
        };
        let mut seen = HashSet::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match item.as_i64() {
                None => {
                    let shown = item.to_string();
                    let shown = shown_name(&shown);
                    mistakes.add(place(), format_args!("item {index} (from 0) is {shown}, wanted a whole number"));
                }
                Some(item) if !seen.insert(item) => mistakes.add(place(), format_args!("item {item} appears twice")),
                Some(item) => judgements.push(Judgement { query, item, grade: 1.0 }),
            }
        }
    }
    mistakes.into_result()?;
    Ok(judgements)
}

/// Kind of a JSON value, for messages.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
