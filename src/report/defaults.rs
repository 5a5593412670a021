//! Defaults of the settings of stages, from the schema of pipeline files.

use serde_json::Value;

use pairloom_base::error::{Error, Result};

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
