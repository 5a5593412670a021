//! Format of a pipeline file, as Rust types and as JSON Schema: named alternatives of a setting, and for hints the search for
//! a setting by its name in nested settings (`margin` is `loss.max.margin`).

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, Value as Json, json};

use super::expectation::ExpectationTable;
use super::toml_tree::{TomlNode, TomlValue};
use pairloom_base::suggest::closest_name;

/// A pipeline: stages, their connections, and expectations of the results.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "Pairloom pipeline")]
#[expect(dead_code, reason = "only its schema is used: the file is checked against it and read stage by stage")]
struct PipelineFile<S> {
    /// Random seed of the stages that do not set their own.
    #[serde(default)]
    seed: u64,
    /// Stages by name: `[stage.NAME.KIND]`.
    stage: BTreeMap<StageName, S>,
    /// Axes over whose values stages are repeated: `[matrix.AXIS]`.
    #[serde(default)]
    matrix: MatrixTable,
    /// Named sets of settings, of which `--profile NAME` chooses one: `[profile.NAME]`.
    #[serde(default)]
    profile: BTreeMap<String, ProfileTable>,
    /// Conditions that the results must satisfy.
    #[serde(default)]
    expect: Vec<ExpectationTable>,
}

/// Settings that replace those of the file and of its rows.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ProfileTable {
    /// Settings by name of the stage: `set.fit.epochs = 20`.
    #[serde(default)]
    set: BTreeMap<String, serde_json::Map<String, Value>>,
}

/// Matrix of a pipeline file. The checks of its content are in `matrix`.
#[derive(Default)]
struct MatrixTable;

impl JsonSchema for MatrixTable {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Matrix".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> Schema {
        let scalar = json!({ "type": ["string", "number", "boolean"] });
        let setting = json!({ "type": "string", "description": "Stage and setting: `fit.seed`." });
        schemars::json_schema!({
            "type": "object",
            "description": "Axes over whose values stages are repeated. A stage is repeated if an axis sets something in it, or in a stage that it reads.",
            "propertyNames": { "pattern": AXIS_NAME },
            "properties": {
                "exclude": {
                    "type": "array",
                    "description": "Combinations that are left out: `{ row = \"1.2\", seed = 3 }`.",
                    "items": { "type": "object", "minProperties": 1, "additionalProperties": scalar },
                },
            },
            "additionalProperties": {
                "anyOf": [
                    {
                        "type": "object",
                        "description": "Values of one setting.",
                        "properties": {
                            "setting": setting,
                            "settings": { "type": "array", "minItems": 1, "items": setting, "description": "Settings that have the same value." },
                            "values": { "type": "array", "minItems": 1, "items": scalar, "description": "Values of the setting." },
                        },
                        "required": ["values"],
                        "additionalProperties": false,
                    },
                    {
                        "type": "array",
                        "minItems": 1,
                        "description": "Named rows, each with settings of its own.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": { "type": ["string", "number"], "description": "Name of the row.", "pattern": VALUE_TEXT },
                                "set": {
                                    "type": "object",
                                    "description": "Settings by name of the stage: `set.fit.loss = \"max\"`.",
                                    "additionalProperties": { "type": "object" },
                                },
                            },
                            "required": ["name"],
                            "additionalProperties": false,
                        },
                    },
                ],
            },
        })
    }
}

/// Name of a stage.
struct StageName;

/// Regular expression for names of stages.
pub(super) const STAGE_NAME: &str = "^[A-Za-z0-9_-]+$";

/// Key of the list of combinations that a matrix leaves out.
pub(super) const EXCLUDE: &str = "exclude";

/// Regular expression for names of axes, which become columns in SQL.
pub(super) const AXIS_NAME: &str = "^[a-z][a-z0-9_]*$";

/// Regular expression for texts of values, which become parts of names.
pub(super) const VALUE_TEXT: &str = r"^[A-Za-z0-9._+-]{1,64}$";

impl JsonSchema for StageName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "StageName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": "string", "pattern": STAGE_NAME })
    }
}

/// JSON Schema of pipeline files with stages of type `S`.
#[must_use]
pub fn schema<S: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12();
    let mut schema = settings.into_generator().into_root_schema_for::<PipelineFile<S>>();
    Shorthand { definitions: schema.get("$defs").cloned().unwrap_or_default() }.transform(&mut schema);
    schema.to_value()
}

/// The schema that [`schema`] returns, made once for each type.
pub(super) fn shared_schema<S: JsonSchema + 'static>() -> &'static Value {
    static SCHEMAS: Mutex<BTreeMap<TypeId, &'static Value>> = Mutex::new(BTreeMap::new());
    let mut schemas = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    schemas.entry(TypeId::of::<S>()).or_insert_with(|| Box::leak(Box::new(schema::<S>())))
}

/// Transform that allows the name alone, `loss = "max"`, for an alternative whose settings all have defaults.
struct Shorthand {
    definitions: Value,
}

impl Transform for Shorthand {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(Value::Array(alternatives)) = schema.get_mut("oneOf") else { return };
        let short: Vec<Value> = alternatives
            .iter()
            .filter_map(|alternative| {
                let (name, content) = sole_property(alternative)?;
                let content = resolve(&self.definitions, content);
                let object = content.get("type")?.as_str()? == "object";
                let needed = content.get("required").and_then(Value::as_array).map_or(0, Vec::len);
                let description = alternative.get("description").or_else(|| content.get("description"));
                (object && needed == 0).then(|| json!({ "type": "string", "const": name, "description": description.cloned().unwrap_or_default() }))
            })
            .collect();
        alternatives.extend(short);
    }
}

/// Schema that `schema` refers to, or `schema` itself.
pub(super) fn resolve<'s>(definitions: &'s Value, schema: &'s Value) -> &'s Value {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix("#/$defs/"));
    name.and_then(|name| definitions.get(name)).unwrap_or(schema)
}

/// Name and content of an alternative `{ name = … }`: an object with exactly one property, which is required.
fn sole_property(alternative: &Value) -> Option<(&String, &Value)> {
    let properties = alternative.get("properties")?.as_object()?;
    if properties.len() != 1 || alternative.get("required")?.as_array()?.len() != 1 {
        return None;
    }
    properties.iter().next()
}

/// Named alternative of a value.
pub(super) struct Alternative<'s> {
    pub(super) name: &'s str,
    /// True if `"name"` alone is valid.
    pub(super) by_name: bool,
    /// Schema of the value in `{ name = … }`.
    pub(super) content: Option<&'s Json>,
}

impl<'s> Alternative<'s> {
    /// Alternatives of a schema, in the order of the Rust type.
    pub(super) fn all(schema: &'s Json) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        let parts = schema.get("oneOf").and_then(Json::as_array).map_or(std::slice::from_ref(schema), Vec::as_slice);
        for part in parts {
            let several = part.get("enum").and_then(Json::as_array).into_iter().flatten();
            for name in part.get("const").into_iter().chain(several).filter_map(Json::as_str) {
                match all.iter_mut().find(|alternative| alternative.name == name) {
                    Some(known) => known.by_name = true,
                    None => all.push(Self { name, by_name: true, content: None }),
                }
            }
            if let Some((name, content)) = sole_property(part) {
                all.push(Self { name, by_name: false, content: Some(content) });
            }
        }
        all
    }
}

/// Depth of the search.
const MAX_DEPTH: usize = 5;

/// Number of places that are found.
const MAX_PLACES: usize = 4;

/// Number of nested settings among which near names are searched.
const MAX_SETTINGS: usize = 1000;

/// Paths of the nested settings with this name below `schema`, whose own properties have another name.
pub(super) fn places(definitions: &Json, schema: &Json, name: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (path, _) in nested(definitions, schema).into_iter().filter(|(path, last)| last == name && path != last) {
        found.push(path);
    }
    found.truncate(MAX_PLACES);
    found
}

/// Paths of the nested settings below `schema` whose name is the closest to `name`.
pub(super) fn near_places(definitions: &Json, schema: &Json, name: &str) -> Vec<String> {
    let all = nested(definitions, schema);
    let Some(near) = closest_name(name, all.iter().map(|(_, last)| last.as_str())) else { return Vec::new() };
    let same = all.iter().filter(|(_, last)| last == near).map(|(path, _)| path);
    // A setting of the stage itself is meant before those inside of others.
    match same.clone().find(|path| *path == near) {
        Some(own) => vec![own.clone()],
        None => same.take(MAX_PLACES).cloned().collect(),
    }
}

/// Paths and names of all settings below `schema`.
fn nested(definitions: &Json, schema: &Json) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(definitions, schema, &mut Vec::new(), &mut found);
    found
}

fn collect(definitions: &Json, schema: &Json, path: &mut Vec<String>, found: &mut Vec<(String, String)>) {
    if path.len() > MAX_DEPTH || found.len() > MAX_SETTINGS {
        return;
    }
    let schema = resolve(definitions, schema);
    for (key, content) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
        path.push(key.clone());
        found.push((path.join("."), key.clone()));
        collect(definitions, content, path, found);
        path.pop();
    }
    for alternatives in ["oneOf", "anyOf"] {
        for alternative in schema.get(alternatives).and_then(Json::as_array).into_iter().flatten() {
            collect(definitions, alternative, path, found);
        }
    }
}

/// Full paths of settings, for arguments `--set` that leave out parts of one.
pub(super) struct SettingPaths<'s> {
    pub(super) definitions: &'s Json,
    /// Schema of a stage: one alternative for each kind.
    pub(super) stage: &'s Json,
}

impl SettingPaths<'_> {
    /// Hint with the full path of the setting that `words` means: `fit.epochs` is `stage.fit.train.epochs`. `stages` are
    /// the stages of the file.
    pub(super) fn hint(&self, stages: &TomlNode, words: &[&str]) -> Option<String> {
        let kinds = Alternative::all(self.stage);
        let words = if words.first() == Some(&"stage") { &words[1..] } else { words };
        let all = stages.entries().iter().filter_map(|stage| {
            let kind = stage.node.entries().first()?;
            let known = kinds.iter().find(|known| known.name == kind.key)?;
            Some((stage.key.as_str(), known.name, known.content?))
        });
        let all: Vec<(&str, &str, &Json)> = all.collect();
        let is_of = |stage: &(&str, &str, &Json), word: &str| stage.0 == word || stage.1 == word;
        let (mut chosen, mut rest) = (all, words);
        while let Some((first, after)) = rest.split_first()
            && !after.is_empty()
            && chosen.iter().any(|stage| is_of(stage, first))
        {
            chosen.retain(|stage| is_of(stage, first));
            rest = after;
        }
        let name = rest.last()?;
        let stage_settings = |(stage, kind, _): &(&str, &str, &Json), found: Vec<String>| -> Vec<String> {
            found.into_iter().map(|path| format!("`stage.{stage}.{kind}.{path}`")).collect()
        };
        let exact = chosen.iter().flat_map(|stage| {
            let whole = rest.join(".");
            let mut found: Vec<String> = nested(self.definitions, stage.2)
                .into_iter()
                .filter(|(path, last)| *path == whole || last == name)
                .map(|(path, _)| path)
                .collect();
            // The whole path is meant if it exists.
            if found.contains(&whole) {
                found.retain(|path| *path == whole);
            }
            stage_settings(stage, found)
        });
        let mut found: Vec<String> = exact.collect();
        if found.is_empty() {
            let near = |stage: &(&str, &str, &Json)| near_places(self.definitions, stage.2, name);
            found = chosen.iter().flat_map(|stage| stage_settings(stage, near(stage))).collect();
        }
        found.truncate(MAX_PLACES);
        match found.as_slice() {
            [] => None,
            [only] => Some(format!("did you mean {only}?")),
            several => Some(format!("did you mean one of {}?", several.join(", "))),
        }
    }
}

/// Names on the way to the first value below a setting.
pub(super) fn first_path<'n>(key: &'n str, node: &'n TomlNode) -> Vec<&'n str> {
    let mut path = vec![key];
    let mut node = node;
    while let TomlValue::Table(entries) = &node.value
        && let Some(entry) = entries.first()
    {
        path.push(&entry.key);
        node = &entry.node;
    }
    path
}
