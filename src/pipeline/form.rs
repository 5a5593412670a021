//! The form of a pipeline file, and its JSON Schema.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A pipeline: stages, how they are connected, and what is expected of the results.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "Pairloom pipeline")]
#[expect(dead_code, reason = "only its schema is used: the file is checked against it and read stage by stage")]
struct PipelineFile<S> {
    /// Seed of everything that is drawn at random, where a stage gives none of its own.
    #[serde(default)]
    seed: u64,
    /// Stages by name: `[stage.NAME.KIND]`.
    stage: BTreeMap<StageName, S>,
    /// What must hold of the results.
    #[serde(default)]
    expect: Vec<Expectation>,
}

/// The name of a stage.
struct StageName;

/// What the name of a stage looks like.
pub(super) const STAGE_NAME: &str = "^[A-Za-z0-9_-]+$";

impl JsonSchema for StageName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "StageName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": "string", "pattern": STAGE_NAME })
    }
}

/// A check that travels with the experiment: a query with one row and one column, and what its value must be.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The query. Tables of this pipeline are called `stage.table`.
    pub sql: String,
    /// The value must not be less.
    pub at_least: Option<f64>,
    /// The value must not be more.
    pub at_most: Option<f64>,
    /// The value must be this.
    pub equals: Option<f64>,
    /// The line of the file that it begins in, from 1.
    #[serde(skip)]
    pub line: usize,
}

impl Expectation {
    /// What is wanted, for people: `at least 300`.
    #[must_use]
    pub fn wanted(&self) -> String {
        let bounds = [("at least", self.at_least), ("at most", self.at_most), ("exactly", self.equals)];
        let texts = bounds.into_iter().filter_map(|(word, bound)| Some(format!("{word} {}", bound?)));
        texts.collect::<Vec<_>>().join(" and ")
    }

    /// Whether `value` is what is wanted; NaN never is.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        // The bit pattern of the number in the file is what is wanted; -0 is 0.
        let equal = |wanted: f64| (value - wanted).abs() <= 0.0;
        !value.is_nan()
            && self.at_least.is_none_or(|bound| value >= bound)
            && self.at_most.is_none_or(|bound| value <= bound)
            && self.equals.is_none_or(equal)
    }
}

/// The JSON Schema of pipeline files whose stages are `S`.
#[must_use]
pub fn schema<S: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12();
    let mut schema = settings.into_generator().into_root_schema_for::<PipelineFile<S>>();
    Shorthand { definitions: schema.get("$defs").cloned().unwrap_or_default() }.transform(&mut schema);
    schema.to_value()
}

/// Lets an alternative whose settings all have defaults be named by its name alone: `loss = "max"`.
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

/// The schema that `schema` refers to, or itself.
pub(super) fn resolve<'s>(definitions: &'s Value, schema: &'s Value) -> &'s Value {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix("#/$defs/"));
    name.and_then(|name| definitions.get(name)).unwrap_or(schema)
}

/// The name and the content of an alternative in the key form: an object with exactly one, required property.
pub(super) fn sole_property(alternative: &Value) -> Option<(&String, &Value)> {
    let properties = alternative.get("properties")?.as_object()?;
    if properties.len() != 1 || alternative.get("required")?.as_array()?.len() != 1 {
        return None;
    }
    properties.iter().next()
}
