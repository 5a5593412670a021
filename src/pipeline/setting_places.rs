//! Search for a setting by its name in nested settings, for hints: `margin` is `loss.max.margin`.

use serde_json::Value as Json;

use super::file_format::resolve;

/// Depth of the search.
const MAX_DEPTH: usize = 5;

/// Number of places that are found.
const MAX_PLACES: usize = 4;

/// Paths of the nested settings with this name below `schema`, whose own properties have another name.
pub(super) fn places(definitions: &Json, schema: &Json, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(definitions, schema, name, &mut Vec::new(), &mut found);
    found.truncate(MAX_PLACES);
    found
}

fn collect(definitions: &Json, schema: &Json, name: &str, path: &mut Vec<String>, found: &mut Vec<String>) {
    if path.len() > MAX_DEPTH || found.len() > MAX_PLACES {
        return;
    }
    let schema = resolve(definitions, schema);
    for (key, content) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
        path.push(key.clone());
        let is_own = path.len() == 1;
        if key == name && !is_own {
            found.push(path.join("."));
        } else {
            collect(definitions, content, name, path, found);
        }
        path.pop();
    }
    for alternatives in ["oneOf", "anyOf"] {
        for alternative in schema.get(alternatives).and_then(Json::as_array).into_iter().flatten() {
            collect(definitions, alternative, name, path, found);
        }
    }
}
