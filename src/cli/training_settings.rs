//! Settings of trainings as flat names and values, for TensorBoard.

use std::collections::BTreeMap;

use serde_json::Value;

use pairloom_formats::tensorboard::{Hparam, HparamValue};
use pairloom_store::flat_settings::{flatten, text};

/// Settings of a training by name: `loss`, `loss.margin`, `learning_rate`.
pub(super) type FlatSettings = BTreeMap<String, HparamValue>;

/// Settings that are always part of the name of a training.
const NAMED_SETTINGS: [&str; 2] = ["loss", "seed"];
/// Maximum number of settings in the name of a training.
const MAX_NAMED: usize = 5;
/// Maximum number of characters of a value in the name of a training.
const MAX_VALUE: usize = 24;

/// Flattens the settings of a training. A list is one text.
pub(super) fn flat_settings(settings: &Value) -> FlatSettings {
    let plain = |value: Value| match value {
        Value::Bool(flag) => HparamValue::Flag(flag),
        Value::Number(number) => HparamValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        other => HparamValue::Text(text(&other)),
    };
    flatten(settings).into_iter().map(|(name, value)| (name, plain(value))).collect()
}

/// Collects the settings of all trainings, with their distinct values.
pub(super) fn hparams<'s>(trainings: impl Iterator<Item = &'s FlatSettings> + Clone) -> Vec<Hparam> {
    let mut values: BTreeMap<&str, Vec<HparamValue>> = BTreeMap::new();
    for (name, value) in trainings.clone().flatten() {
        let values = values.entry(name).or_default();
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    let hparam = |(name, values): (&str, Vec<HparamValue>)| {
        let differs = values.len() > 1 || trainings.clone().any(|settings| !settings.contains_key(name));
        Hparam { name: name.to_owned(), values, differs }
    };
    values.into_iter().map(hparam).collect()
}

/// Short description of a training for its name: loss, seed, and the settings in which it differs from `others`, each
/// with a leading comma: `,loss=sum,seed=7`. Empty if no settings are known.
pub(super) fn describe(settings: &FlatSettings, others: &[&FlatSettings]) -> String {
    let differs = |name: &&str| others.iter().any(|other| other.get(*name) != settings.get(*name));
    let own = settings.keys().map(String::as_str).filter(|name| !NAMED_SETTINGS.contains(name)).filter(differs);
    let text = |name: &str| -> Option<String> {
        let value = match settings.get(name)? {
            HparamValue::Text(text) => text.clone(),
            HparamValue::Number(number) => number.to_string(),
            HparamValue::Flag(flag) => flag.to_string(),
        };
        (value.chars().count() <= MAX_VALUE).then(|| format!(",{name}={}", path_safe(&value)))
    };
    NAMED_SETTINGS.into_iter().chain(own).filter_map(text).take(MAX_NAMED).collect()
}

/// Name with every character that is not alphanumeric, `_`, `-` or `.` replaced by `-`.
pub(super) fn path_safe(name: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.chars().map(|c| if fits(c) { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_become_flat_names_and_short_descriptions() {
        let settings = |loss: Value, rate: f64| {
            flat_settings(&json!({
                "captions": null, "loss": loss, "learning_rate": rate, "seed": 7, "shuffle": { "windows": 64 },
                "model": { "vse": { "bidirectional": false } }, "finetune": null, "mixed_with": [1, 2],
            }))
        };
        let (sum, max) = (settings(json!({ "sum": { "margin": 0.2 } }), 1e-3), settings(json!({ "max": {} }), 2e-4));
        let text = |text: &str| HparamValue::Text(text.to_owned());
        let wanted = [
            ("learning_rate", HparamValue::Number(0.001)),
            ("loss", text("sum")),
            ("loss.margin", HparamValue::Number(0.2)),
            ("mixed_with", text("[1,2]")),
            ("model", text("vse")),
            ("model.bidirectional", HparamValue::Flag(false)),
            ("seed", HparamValue::Number(7.0)),
            ("shuffle.windows", HparamValue::Number(64.0)),
        ];
        assert_eq!(sum, wanted.map(|(name, value)| (name.to_owned(), value)).into());
        assert_eq!(describe(&sum, &[&sum]), ",loss=sum,seed=7");
        assert_eq!(describe(&max, &[&sum, &max]), ",loss=max,seed=7,learning_rate=0.0002");
        assert_eq!(describe(&FlatSettings::new(), &[&sum]), "");

        let found = hparams([&sum, &max].into_iter());
        let differing: Vec<&str> =
            found.iter().filter(|found| found.differs).map(|found| found.name.as_str()).collect();
        assert_eq!(differing, ["learning_rate", "loss", "loss.margin"]);
        assert_eq!(found[1].values, [text("sum"), text("max")]);
    }
}
