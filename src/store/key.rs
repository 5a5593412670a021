//! Identity of an artefact, and the key computed from it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use pairloom_stage::flat_settings::setting_changes;
use pairloom_stage::matches_glob;

/// Key of an artefact: a hash of everything that its content depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key(String);

impl Key {
    /// The key as 32 hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first eight digits, for display.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identity of an artefact: everything that its content depends on. It contains neither names of stages nor paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArtefactIdentity {
    /// Kind of the stage.
    pub kind: String,
    /// Version of the stage's code.
    pub version: u32,
    /// Settings of the stage.
    pub settings: Value,
    /// Identities of the inputs, by name.
    pub inputs: BTreeMap<String, InputIdentity>,
}

/// Identity of an input: everything that its content depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputIdentity {
    /// A table or files of another stage.
    Artefact {
        /// Kind of the producer.
        kind: String,
        /// Key of the producer's artefact.
        key: Key,
        /// Output of the producer.
        output: String,
    },
    /// A file or folder outside of the store, as a digest of its content.
    Source(String),
}

impl ArtefactIdentity {
    /// Computes the key: the first 128 bits of the BLAKE3 hash of the identity as canonical JSON.
    #[must_use]
    pub fn key(&self) -> Key {
        let json = serde_json::json!(self);
        let hash = blake3::hash(canonical(&json).as_bytes()).to_hex();
        Key(hash[..32].to_owned())
    }

    /// The same identity without these settings and inputs; `*` in a name stands for any characters.
    #[must_use]
    pub fn without(&self, names: &[&str]) -> Self {
        let mut rest = self.clone();
        let is_left = |name: &str| !names.iter().any(|pattern| matches_glob(pattern, name));
        rest.inputs.retain(|name, _| is_left(name));
        if let Some(settings) = rest.settings.as_object_mut() {
            settings.retain(|name, _| is_left(name));
        }
        rest
    }

    /// Name under which rows are cached: a hash of kind, version, inputs, `name` and `settings`. The other settings of
    /// the stage are left out.
    #[must_use]
    pub fn cache_name(&self, name: &str, settings: &Value) -> String {
        let Self { kind, version, inputs, .. } = self;
        let whole = serde_json::json!(["kept 1", kind, version, name, settings, inputs]);
        blake3::hash(canonical(&whole).as_bytes()).to_hex()[..32].to_owned()
    }

    /// Lists the changes since `before`, which are the reasons why a stage runs again.
    #[must_use]
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        if self.kind != before.kind {
            changes.push(format!("kind: {} → {}", before.kind, self.kind));
        }
        if self.version != before.version {
            changes.push(format!("code of `{}`: version {} → {}", self.kind, before.version, self.version));
        }
        let settings = setting_changes(&before.settings, &self.settings);
        changes.extend(settings.into_iter().filter(|change| !change.is_detail).map(|change| {
            let text = |value: Option<String>| value.unwrap_or_else(|| "not set".to_owned());
            format!("{}: {} → {}", change.name, text(change.before), text(change.after))
        }));
        if changes.is_empty() && self.settings != before.settings {
            // Settings that are not set have no name in a flat list.
            changes.push("settings that are not set".to_owned());
        }
        // Inputs of one list have one reason.
        let mut changed_inputs: BTreeMap<(&str, String), usize> = BTreeMap::new();
        let mut add =
            |name, change| *changed_inputs.entry((list_of_input(name).unwrap_or(name), change)).or_default() += 1;
        for (name, now) in &self.inputs {
            match (before.inputs.get(name), now) {
                (None, _) => add(name, "is new".to_owned()),
                (Some(old), now) if old == now => {}
                (Some(_), InputIdentity::Source(_)) => add(name, "has other content".to_owned()),
                (Some(_), InputIdentity::Artefact { kind, .. }) => add(name, format!("comes from another {kind}")),
            }
        }
        for name in before.inputs.keys().filter(|name| !self.inputs.contains_key(*name)) {
            add(name, "is gone".to_owned());
        }
        changes.extend(changed_inputs.into_iter().map(|((name, change), count)| match count {
            1 => format!("input `{name}` {change}"),
            _ => format!("input `{name}` {change} ({count} of the list)"),
        }));
        changes
    }
}

/// Name of the list that an input belongs to: `sweep.summaries` of `sweep.summaries.3`.
#[must_use]
pub fn list_of_input(name: &str) -> Option<&str> {
    let (list, number) = name.rsplit_once('.')?;
    number.bytes().all(|b| b.is_ascii_digit()).then_some(list)
}

/// Canonical JSON: the members of every object are sorted by name, so that equal values have equal text.
fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let sorted: BTreeMap<_, _> = members.iter().collect();
            text.push('{');
            for (name, member) in sorted {
                let _ = write!(text, "{}:", Value::String(name.clone()));
                write_canonical(member, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identity(settings: Value) -> ArtefactIdentity {
        let source = InputIdentity::Source("ab".to_owned());
        ArtefactIdentity {
            kind: "train".to_owned(),
            version: 1,
            settings,
            inputs: [("images".to_owned(), source)].into(),
        }
    }

    #[test]
    fn the_key_does_not_depend_on_the_order_of_members() {
        let one: Value = serde_json::from_str(r#"{"a": 1, "b": {"c": 2, "d": 3}}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"b": {"d": 3, "c": 2}, "a": 1}"#).unwrap();
        assert_eq!(identity(one.clone()).key(), identity(two).key());
        assert_ne!(identity(one).key(), identity(json!({"a": 1, "b": {"c": 2, "d": 4}})).key());
    }

    #[test]
    fn changes_name_what_differs() {
        let before = identity(json!({"epochs": 3, "loss": {"max": {"margin": 0.2}}}));
        let mut now = identity(json!({"epochs": 5, "loss": {"sum": {"margin": 0.2}}}));
        now.version = 2;
        now.inputs.insert("images".to_owned(), InputIdentity::Source("cd".to_owned()));
        assert_eq!(
            now.changes_since(&before),
            ["code of `train`: version 1 → 2", "epochs: 3 → 5", "loss: max → sum", "input `images` has other content",]
        );
        assert_eq!(now.changes_since(&now), Vec::<String>::new());
    }
}
