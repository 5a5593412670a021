//! Flat names of settings, as in SQL, comparisons and TensorBoard.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Values of settings by flat name.
///
/// The name is the dotted path of a setting. The variant of an alternative is a value of its own, and its members do not
/// repeat it: `{"loss": {"max": {"margin": 0.2}}}` gives `loss` = `max` and `loss.margin` = 0.2. A list is one value.
/// Nulls, which are settings that are not set and references to inputs, are left out.
#[must_use]
pub fn flatten(settings: &Value) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    for (name, value) in settings.as_object().into_iter().flatten() {
        flatten_into(name, value, &mut flat);
    }
    flat
}

fn flatten_into(path: &str, value: &Value, flat: &mut BTreeMap<String, Value>) {
    let Value::Object(members) = value else {
        if !value.is_null() {
            flat.insert(path.to_owned(), value.clone());
        }
        return;
    };
    let none = Map::new();
    let (variant, members) = match members.iter().next() {
        Some((variant, Value::Object(content))) if members.len() == 1 => (Some(variant), content),
        Some((variant, Value::Null)) if members.len() == 1 => (Some(variant), &none),
        _ => (None, members),
    };
    if let Some(variant) = variant {
        flat.insert(path.to_owned(), Value::String(variant.clone()));
    }
    for (name, member) in members {
        flatten_into(&format!("{path}.{name}"), member, flat);
    }
}

/// Text of a value: a string without quotes, everything else as JSON.
#[must_use]
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns true if a value is the one that a person writes as `wanted`. Numbers are compared as numbers: `1e-3` is 0.001.
#[must_use]
pub fn is_value(value: &Value, wanted: &str) -> bool {
    let wanted_number = wanted.trim().parse::<f64>().ok();
    text(value) == wanted
        || value.as_f64().zip(wanted_number).is_some_and(|(value, wanted)| value.total_cmp(&wanted).is_eq())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers() {
        for (value, wanted) in [(json!(0.001), "1e-3"), (json!(3), "3.0"), (json!("max"), "max"), (json!(true), "true")]
        {
            assert!(is_value(&value, wanted), "{value} {wanted}");
        }
        for (value, wanted) in [(json!(0.001), "0.0011"), (json!("3"), "3.0"), (json!(null), "0"), (json!(3), "three")]
        {
            assert!(!is_value(&value, wanted), "{value} {wanted}");
        }
    }

    #[test]
    fn settings_become_flat_names() {
        let settings = json!({
            "epochs": 3, "loss": { "max": { "margin": 0.2 } }, "features": null, "methods": ["nns", { "csls": { "k": 10 } }],
            "model": { "vse": { "embed_size": 64, "word_dim": 32 } }, "shuffle": "global",
        });
        let flat: Vec<(String, String)> =
            flatten(&settings).into_iter().map(|(name, value)| (name, text(&value))).collect();
        let wanted = [
            ("epochs", "3"),
            ("loss", "max"),
            ("loss.margin", "0.2"),
            ("methods", r#"["nns",{"csls":{"k":10}}]"#),
            ("model", "vse"),
            ("model.embed_size", "64"),
            ("model.word_dim", "32"),
            ("shuffle", "global"),
        ];
        assert_eq!(flat, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
