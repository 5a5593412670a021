//! Parameters of methods as text, for tables: `k = 10`.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Value of a setting.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum SettingValue {
    Flag(bool),
    Number(serde_json::Number),
    Text(String),
    Settings(OrderedSettings),
    List(Vec<SettingValue>),
    /// Infinity, which is `null` in JSON.
    Infinity,
}

/// Settings by name, in the order of their declaration.
#[derive(Debug, Clone, PartialEq)]
struct OrderedSettings(Vec<(String, SettingValue)>);

impl<'de> Deserialize<'de> for OrderedSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = OrderedSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("settings by name")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<OrderedSettings, M::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(OrderedSettings(all))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

/// Parameters of a method as texts such as `beta = 30`, in the order of its settings. A flag is named if it is set; an
/// option with several choices and a nested method are named if they are not the default.
pub(super) fn parameters<M: Serialize>(method: &M, default: &M, unused: &[&str]) -> Vec<String> {
    let read = |method: &M| -> Option<OrderedSettings> {
        let OrderedSettings(mut by_name) = serde_json::from_str(&serde_json::to_string(method).ok()?).ok()?;
        match by_name.pop() {
            Some((_, SettingValue::Settings(settings))) => Some(settings),
            _ => None,
        }
    };
    match (read(method), read(default)) {
        (Some(settings), Some(default)) => texts(&settings, &default, unused),
        _ => Vec::new(),
    }
}

/// Texts of settings, compared with the default.
fn texts(
    OrderedSettings(all): &OrderedSettings,
    OrderedSettings(default): &OrderedSettings,
    unused: &[&str],
) -> Vec<String> {
    let mut texts = Vec::new();
    // The caller adds the name of the query bank.
    for (name, setting) in all.iter().filter(|(name, _)| name != "query_bank" && !unused.contains(&name.as_str())) {
        let is_default = default.iter().any(|(other, value)| other == name && value == setting);
        match setting {
            SettingValue::Flag(true) => texts.push(name.clone()),
            SettingValue::Number(number) => match number.as_u64() {
                Some(count) => texts.push(format!("{name} = {count}")),
                None => texts.push(format!("{name} = {}", number.as_f64().unwrap_or(f64::NAN))),
            },
            SettingValue::Infinity => texts.push(format!("{name} = inf")),
            SettingValue::Text(text) if !is_default => texts.push(text.clone()),
            SettingValue::Settings(OrderedSettings(inner)) if !is_default => {
                if let Some((method, SettingValue::Settings(settings))) = inner.first() {
                    texts.push(format!("{name} {method}"));
                    texts.extend(self::texts(settings, &OrderedSettings(Vec::new()), &[]));
                }
            }
            SettingValue::Flag(false) | SettingValue::Text(_) | SettingValue::Settings(_) | SettingValue::List(_) => {}
        }
    }
    texts
}
