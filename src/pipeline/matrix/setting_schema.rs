//! JSON Schema of a setting, along the path to it.

use serde_json::Value as Json;

use crate::alternative::Alternative;
use crate::file_format::resolve;

/// JSON Schema of a setting; unknown below a setting that does not exist.
#[derive(Debug, Clone, Copy)]
pub(super) struct SettingSchema<'s> {
    schema: Option<&'s Json>,
    /// `$defs` of the schema of the file.
    definitions: &'s Json,
}

impl<'s> SettingSchema<'s> {
    /// Schema `schema`, or what it refers to. An optional value has the schema of the value.
    pub(super) fn new(schema: Option<&'s Json>, definitions: &'s Json) -> Self {
        let plain = |schema: &'s Json| {
            let schema = resolve(definitions, schema);
            let options = schema.get("anyOf").and_then(Json::as_array);
            let option =
                options.and_then(|options| options.iter().find(|of| of.get("type") != Some(&Json::from("null"))));
            option.map_or(schema, |option| resolve(definitions, option))
        };
        Self { schema: schema.map(plain), definitions }
    }

    /// Schema of the entry `key` of a table, or of the alternative `key` of a choice.
    pub(super) fn property(self, key: &str) -> Self {
        let property = self.schema.and_then(|schema| {
            if self.has_alternatives() {
                return Alternative::all(schema).into_iter().find(|of| of.name == key)?.content;
            }
            let properties = schema.get("properties");
            properties.and_then(|properties| properties.get(key)).or_else(|| schema.get("additionalProperties"))
        });
        Self::new(property, self.definitions)
    }

    /// Schema of the items of a list.
    pub(super) fn items(self) -> Self {
        Self::new(self.schema.and_then(|schema| schema.get("items")), self.definitions)
    }

    /// True for a choice between named alternatives.
    pub(super) fn has_alternatives(self) -> bool {
        self.schema.is_some_and(|schema| schema.get("oneOf").is_some())
    }

    /// True for a reference to a table of a stage.
    pub(super) fn is_table_reference(self) -> bool {
        self.schema.zip(self.definitions.get("TableRef")).is_some_and(|(schema, of)| std::ptr::eq(schema, of))
    }
}
