//! Settings of a value of the matrix, set in the settings of a stage.

use super::setting_schema::SettingSchema;
use crate::toml_tree::{TomlNode, TomlValue};

/// Sets the values of `new` in `base`, whose JSON Schema is `schema`. Tables are merged. A value with named alternatives
/// is merged if both choose the same one, and replaced otherwise.
pub(super) fn merge(base: &mut TomlNode, new: &TomlNode, schema: SettingSchema<'_>) {
    let is_same_choice = || match (base.entries(), new.entries()) {
        ([base], [new]) => base.key == new.key,
        _ => false,
    };
    if schema.has_alternatives() && !is_same_choice() {
        *base = new.clone();
        return;
    }
    let (TomlValue::Table(entries), TomlValue::Table(added)) = (&mut base.value, &new.value) else {
        *base = new.clone();
        return;
    };
    for added in added {
        match entries.iter_mut().find(|entry| entry.key == added.key) {
            Some(entry) => merge(&mut entry.node, &added.node, schema.property(&added.key)),
            None => entries.push(added.clone()),
        }
    }
}
