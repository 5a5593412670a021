//! Settings as text, for tables: `k = 10`.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A setting of any type.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Setting {
    Flag(bool),
    Number(serde_json::Number),
    Text(String),
    Settings(Settings),
    List(Vec<Setting>),
    /// JSON has no number for infinity.
    Infinity,
}

/// Settings by name, in the order in which they were declared.
#[derive(Debug, Clone, PartialEq)]
struct Settings(Vec<(String, Setting)>);

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Settings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("settings by name")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Settings, M::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Settings(all))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

/// The free numbers of a method: `beta = 30`, in the order of its settings. Flags are named where they are set; a choice, and
/// a method inside of this one, where it is not the default.
pub(super) fn parameters<M: Serialize>(method: &M, default: &M, unused: &[&str]) -> Vec<String> {
    let read = |method: &M| -> Option<Settings> {
        let Settings(mut by_name) = serde_json::from_str(&serde_json::to_string(method).ok()?).ok()?;
        match by_name.pop() {
            Some((_, Setting::Settings(settings))) => Some(settings),
            _ => None,
        }
    };
    match (read(method), read(default)) {
        (Some(settings), Some(default)) => texts(&settings, &default, unused),
        _ => Vec::new(),
    }
}

fn texts(Settings(all): &Settings, Settings(default): &Settings, unused: &[&str]) -> Vec<String> {
    let mut texts = Vec::new();
    // Whom a method learned from stands beside its numbers.
    for (name, setting) in all.iter().filter(|(name, _)| name != "bank" && !unused.contains(&name.as_str())) {
        let is_default = default.iter().any(|(other, value)| other == name && value == setting);
        match setting {
            Setting::Flag(true) => texts.push(name.clone()),
            Setting::Number(number) => match number.as_u64() {
                Some(count) => texts.push(format!("{name} = {count}")),
                None => texts.push(format!("{name} = {}", number.as_f64().unwrap_or(f64::NAN))),
            },
            Setting::Infinity => texts.push(format!("{name} = inf")),
            Setting::Text(text) if !is_default => texts.push(text.clone()),
            Setting::Settings(Settings(inner)) if !is_default => {
                if let Some((method, Setting::Settings(settings))) = inner.first() {
                    texts.push(format!("{name} {method}"));
                    texts.extend(self::texts(settings, &Settings(Vec::new()), &[]));
                }
            }
            Setting::Flag(false) | Setting::Text(_) | Setting::Settings(_) | Setting::List(_) => {}
        }
    }
    texts
}
