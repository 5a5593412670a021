//! Flat names of settings, as in SQL, comparisons and TensorBoard.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use pairloom_base::error::TruncatedList;

/// Bytes of a list's text above which a change shows only what is different.
const LONG_LIST: usize = 80;

/// Different items of a list that a change shows.
const SHOWN_ITEMS: usize = 3;

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

/// Change of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// Flat name of the setting.
    pub name: String,
    /// Text of the value before; `None` if it was not set.
    pub before: Option<String>,
    /// Text of the value after; `None` if it is not set.
    pub after: Option<String>,
    /// True for a setting of an alternative that only one side chose, such as the margin of another loss.
    pub is_detail: bool,
}

/// Changes between two trees of settings, in the order of the names.
#[must_use]
pub fn setting_changes(before: &Value, after: &Value) -> Vec<SettingChange> {
    let (ours, theirs) = (flatten(before), flatten(after));
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let changed: BTreeSet<&String> = names.into_iter().filter(|name| ours.get(*name) != theirs.get(*name)).collect();
    let is_below = |name: &str, above: &str| name.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'));
    let change = |name: &&String| {
        let (before, after) = match (ours.get(*name), theirs.get(*name)) {
            (Some(before), Some(after)) => {
                let (before, after) = change_texts(before, after);
                (Some(before), Some(after))
            }
            (before, after) => (before.map(text), after.map(text)),
        };
        let is_one_sided = before.is_none() || after.is_none();
        let is_detail = is_one_sided && changed.iter().any(|above| is_below(name, above));
        SettingChange { name: (*name).clone(), before, after, is_detail }
    };
    changed.iter().map(change).collect()
}

/// Texts of a value before and after a change. Of two long lists, only the items that one of them has.
fn change_texts(before: &Value, after: &Value) -> (String, String) {
    let whole = (text(before), text(after));
    let (Value::Array(ours), Value::Array(theirs)) = (before, after) else { return whole };
    if whole.0.len() <= LONG_LIST && whole.1.len() <= LONG_LIST {
        return whole;
    }
    let texts = |items: &[Value]| items.iter().map(text).collect::<Vec<_>>();
    list_change_texts(&texts(ours), &texts(theirs))
}

/// Texts of a list before and after a change: its length, and the items that the other one does not have.
#[must_use]
pub fn list_change_texts(before: &[String], after: &[String]) -> (String, String) {
    let only = |these: &[String], others: &[String]| {
        let known: BTreeSet<&String> = others.iter().collect();
        let mut items = TruncatedList::new(SHOWN_ITEMS);
        items.extend(these.iter().filter(|item| !known.contains(item)));
        match (items.is_empty(), these.len()) {
            (true, n) => format!("{n} items"),
            (false, n) => format!("{n} items, with {}", items.join("; ")),
        }
    };
    (only(before, after), only(after, before))
}

/// Returns true if a value is the one that a person writes as `expected`. Numbers are compared as numbers: `1e-3` is 0.001.
#[must_use]
pub fn is_value(value: &Value, expected: &str) -> bool {
    let number = expected.trim().parse::<f64>().ok();
    text(value) == expected
        || value.as_f64().zip(number).is_some_and(|(value, expected)| value.total_cmp(&expected).is_eq())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers() {
        for (value, expected) in
            [(json!(0.001), "1e-3"), (json!(3), "3.0"), (json!("max"), "max"), (json!(true), "true")]
        {
            assert!(is_value(&value, expected), "{value} {expected}");
        }
        for (value, expected) in
            [(json!(0.001), "0.0011"), (json!("3"), "3.0"), (json!(null), "0"), (json!(3), "three")]
        {
            assert!(!is_value(&value, expected), "{value} {expected}");
        }
    }

    #[test]
    fn changes_of_long_lists_show_what_is_different() {
        assert_eq!(change_texts(&json!(["nns"]), &json!(["csls"])), (r#"["nns"]"#.into(), r#"["csls"]"#.into()));
        assert_eq!(change_texts(&json!(0.1), &json!("max")), ("0.1".to_owned(), "max".to_owned()));
        let runs = |numbers: std::ops::Range<u32>| -> Value { numbers.map(|n| json!(format!("run {n}"))).collect() };
        let expected = ("20 items".to_owned(), "25 items, with run 20; run 21; run 22; and 2 more".to_owned());
        assert_eq!(change_texts(&runs(0..20), &runs(0..25)), expected);
        let expected = ("20 items, with run 0".to_owned(), "20 items, with run 20".to_owned());
        assert_eq!(change_texts(&runs(0..20), &runs(1..21)), expected);
    }

    #[test]
    fn settings_become_flat_names() {
        let settings = json!({
            "epochs": 3, "loss": { "max": { "margin": 0.2 } }, "features": null, "methods": ["nns", { "csls": { "k": 10 } }],
            "model": { "vse": { "embed_size": 64, "word_dim": 32 } }, "shuffle": "global",
        });
        let flat: Vec<(String, String)> =
            flatten(&settings).into_iter().map(|(name, value)| (name, text(&value))).collect();
        let expected = [
            ("epochs", "3"),
            ("loss", "max"),
            ("loss.margin", "0.2"),
            ("methods", r#"["nns",{"csls":{"k":10}}]"#),
            ("model", "vse"),
            ("model.embed_size", "64"),
            ("model.word_dim", "32"),
            ("shuffle", "global"),
        ];
        assert_eq!(flat, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
