//! Named alternatives of a setting, as its JSON Schema lists them.

use serde_json::Value as Json;

use super::file_format::sole_property;

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
