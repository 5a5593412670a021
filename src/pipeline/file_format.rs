//! Format of a pipeline file, as Rust types and as JSON Schema.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::expectation::ExpectationTable;

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
pub(super) fn sole_property(alternative: &Value) -> Option<(&String, &Value)> {
    let properties = alternative.get("properties")?.as_object()?;
    if properties.len() != 1 || alternative.get("required")?.as_array()?.len() != 1 {
        return None;
    }
    properties.iter().next()
}
