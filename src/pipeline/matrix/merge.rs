//! Settings of a value of the matrix, set in the settings of a stage.

use serde_json::Value as Json;

use crate::pipeline::alternative::Alternative;
use crate::pipeline::file_format::resolve;
use crate::pipeline::toml_tree::{TomlNode, TomlValue};

/// Sets the values of `new` in `base`, whose JSON Schema is `schema`. Tables are merged. A value with named alternatives
/// is merged if both choose the same one, and replaced otherwise.
pub(super) fn merge(base: &mut TomlNode, new: &TomlNode, schema: Option<&Json>, definitions: &Json) {
    let schema = schema.map(|schema| plain(schema, definitions));
    let is_choice = schema.is_some_and(|schema| schema.get("oneOf").is_some());
    let is_same_choice = || match (base.entries(), new.entries()) {
        ([base], [new]) => base.key == new.key,
        _ => false,
    };
    if is_choice && !is_same_choice() {
        *base = new.clone();
        return;
    }
    let (TomlValue::Table(entries), TomlValue::Table(added)) = (&mut base.value, &new.value) else {
        *base = new.clone();
        return;
    };
    for added in added {
        match entries.iter_mut().find(|entry| entry.key == added.key) {
            Some(entry) => {
                let content = schema.and_then(|schema| property(schema, &added.key));
                merge(&mut entry.node, &added.node, content, definitions);
            }
            None => entries.push(added.clone()),
        }
    }
}

/// Schema that a reference means. An optional value has the schema of the value.
fn plain<'s>(schema: &'s Json, definitions: &'s Json) -> &'s Json {
    let schema = resolve(definitions, schema);
    let options = schema.get("anyOf").and_then(Json::as_array);
    let option = options.and_then(|options| options.iter().find(|of| of.get("type") != Some(&Json::from("null"))));
    option.map_or(schema, |option| resolve(definitions, option))
}

/// Schema of the entry `key` of a table, or of the alternative `key` of a choice.
fn property<'s>(schema: &'s Json, key: &str) -> Option<&'s Json> {
    if schema.get("oneOf").is_some() {
        return Alternative::all(schema).into_iter().find(|of| of.name == key)?.content;
    }
    schema.get("properties").and_then(|properties| properties.get(key)).or_else(|| schema.get("additionalProperties"))
}
