//! Text of settings: JSON values as short phrases, and their differences from defaults, which the schema of pipeline files
//! has.

use serde_json::{Map, Value};

use pairloom_base::error::{Error, Result};

/// Text of a setting: `sum (margin = 0.2)`, `nns, csls (k = 10)`. Members that are null are left out; references to
/// tables and sources are null.
pub(super) fn setting_text(value: &Value) -> String {
    match value {
        Value::Object(members) => match variant(members) {
            Some((name, Value::Object(content))) if content.values().any(|value| !value.is_null()) => {
                format!("{name} ({})", member_texts(content))
            }
            Some((name, Value::Array(items))) if !items.is_empty() => format!("{name} ({})", item_texts(items)),
            Some((name, _)) => name.to_owned(),
            None => member_texts(members),
        },
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => item_texts(items),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Variant of an enum with its content: the only member of an object, unless its content is a plain value.
fn variant(members: &Map<String, Value>) -> Option<(&str, &Value)> {
    let mut members = members.iter();
    let (Some((name, content)), None) = (members.next(), members.next()) else { return None };
    matches!(content, Value::Object(_) | Value::Array(_) | Value::Null).then_some((name, content))
}

fn member_texts(members: &Map<String, Value>) -> String {
    let given = members.iter().filter(|(_, value)| !value.is_null());
    given.map(|(name, value)| format!("{name} = {}", nested_text(value))).collect::<Vec<_>>().join(", ")
}

fn item_texts(items: &[Value]) -> String {
    items.iter().map(nested_text).collect::<Vec<_>>().join(", ")
}

/// Text of a value within another: lists and structures are in brackets.
fn nested_text(value: &Value) -> String {
    let text = setting_text(value);
    let is_list = match value {
        Value::Array(_) => true,
        Value::Object(members) => variant(members).is_none(),
        _ => false,
    };
    if is_list { format!("({text})") } else { text }
}

/// Part of `value` that differs from `default`: members of structures that are equal are left out. `None` if nothing
/// differs.
pub(super) fn changed_part(value: &Value, default: &Value) -> Option<Value> {
    if value == default {
        return None;
    }
    let (Value::Object(members), Value::Object(defaults)) = (value, default) else { return Some(value.clone()) };
    if let (Some((name, _)), Some((default_name, _))) = (variant(members), variant(defaults))
        && name != default_name
    {
        return Some(value.clone());
    }
    let changed = members.iter().filter_map(|(name, member)| {
        let default = defaults.get(name).unwrap_or(&Value::Null);
        Some((name.clone(), changed_part(member, default)?))
    });
    Some(Value::Object(changed.collect()))
}

/// Schema of pipeline files. It has the settings of all stages, which a stage does not know of one another.
const SCHEMA: &str = include_str!("../../schemas/pipeline.schema.json");

/// Defaults of the settings of all stages.
pub(super) struct SettingDefaults(Value);

impl SettingDefaults {
    /// Reads the defaults of this program.
    ///
    /// # Errors
    /// An internal error if the schema is no JSON.
    pub(super) fn read() -> Result<Self> {
        serde_json::from_str(SCHEMA)
            .map(Self)
            .map_err(|error| Error::internal(format!("the schema of pipeline files: {error}")))
    }

    /// Schema of the settings of a stage of this kind, or of this form of the kind.
    pub(super) fn settings_schema(&self, kind: &str, form: Option<&str>) -> Option<&Value> {
        let schema = self.variant(self.0.pointer("/$defs/AnyStage")?, kind)?;
        match form {
            Some(form) => self.variant(schema, form),
            None => Some(schema),
        }
    }

    /// True if the settings of a stage of this kind are one of several forms, as those of `ingest`.
    pub(super) fn has_forms(&self, kind: &str) -> bool {
        self.settings_schema(kind, None).is_some_and(|schema| schema.get("oneOf").is_some())
    }

    /// Schema of the content of a variant of an enum.
    fn variant<'s>(&'s self, schema: &'s Value, name: &str) -> Option<&'s Value> {
        let variants = schema.get("oneOf")?.as_array()?;
        let content = variants.iter().find_map(|variant| variant.get("properties")?.get(name))?;
        match content.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.0.pointer(reference.strip_prefix('#')?),
            None => Some(content),
        }
    }
}

/// Default of a setting; `None` if it must be set.
pub(super) fn default_value<'s>(schema: Option<&'s Value>, setting: &str) -> Option<&'s Value> {
    schema?.get("properties")?.get(setting)?.get("default")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_read_as_phrases() {
        for (value, text) in [
            (json!("sum"), "sum"),
            (json!(2e-4), "0.0002"),
            (json!({ "sum": { "margin": 0.2 } }), "sum (margin = 0.2)"),
            (json!({ "info_nce": {} }), "info_nce"),
            (json!({ "file": null }), "file"),
            (json!([]), "none"),
            (json!({ "windows": 64 }), "windows = 64"),
            (json!({ "fraction": 0.05, "neighbours": 250, "mask": null }), "fraction = 0.05, neighbours = 250"),
            (json!(["nns", { "csls": { "k": 10 } }]), "nns, csls (k = 10)"),
            (json!([{ "name": "spice", "neighbours": [5, 10] }]), "(name = spice, neighbours = (5, 10))"),
            (
                json!({ "best_of": { "methods": ["nns", { "csls": { "k": 1 } }] } }),
                "best_of (methods = (nns, csls (k = 1)))",
            ),
        ] {
            assert_eq!(setting_text(&value), text, "{value}");
        }
    }

    #[test]
    fn changes_leave_out_what_is_equal() {
        let default = json!({ "vse": { "size": 1024, "pooling": "last" } });
        assert_eq!(changed_part(&default, &default), None);
        let value = json!({ "vse": { "size": 256, "pooling": "last" } });
        assert_eq!(changed_part(&value, &default), Some(json!({ "vse": { "size": 256 } })));
        let other = json!({ "toy": { "size": 1024 } });
        assert_eq!(changed_part(&other, &default), Some(other.clone()));
        assert_eq!(changed_part(&json!({ "windows": 64 }), &json!("global")), Some(json!({ "windows": 64 })));
    }

    #[test]
    fn defaults_are_those_of_the_schema() {
        let defaults = SettingDefaults::read().expect("a schema");
        let train = defaults.settings_schema("train", None);
        assert_eq!(default_value(train, "batch_size"), Some(&json!(128)));
        assert_eq!(default_value(train, "epochs"), None);
        assert!(defaults.has_forms("ingest") && !defaults.has_forms("train") && !defaults.has_forms("toy"));
        let karpathy = defaults.settings_schema("ingest", Some("karpathy"));
        assert_eq!(default_value(karpathy, "captions_per_image"), Some(&json!(5)));
        assert_eq!(defaults.settings_schema("toy", None), None);
    }
}
