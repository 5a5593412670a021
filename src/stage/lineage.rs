//! Lineage of a stage: the artefacts and sources that its inputs follow from.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::flat_settings::{flatten, text};
use pairloom_base::error::{Error, Result};

/// Lineage of a running stage. It is a function of the key of the stage, so results may depend on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StageLineage {
    /// Origins of the inputs of the stage, by the name of the input.
    pub inputs: BTreeMap<String, AncestorInput>,
    /// Every artefact that the inputs follow from, producers before consumers, in an order that depends on the key of
    /// the stage only.
    pub artefacts: Vec<AncestorArtefact>,
}

/// Artefact that an input follows from, directly or through other artefacts.
#[derive(Debug, Clone, PartialEq)]
pub struct AncestorArtefact {
    /// Kind of the stage that wrote it.
    pub kind: String,
    /// Key, 32 hexadecimal digits.
    pub key: String,
    /// Version of the stage's code.
    pub version: u32,
    /// Settings of the stage. References to tables and sources are null.
    pub settings: Value,
    /// Origins of its inputs, by the name of the input.
    pub inputs: BTreeMap<String, AncestorInput>,
}

/// Origin of an input of an artefact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AncestorInput {
    /// A table or files of another artefact.
    Artefact {
        /// Key of the artefact.
        key: String,
        /// Output of the stage that wrote it.
        output: String,
    },
    /// A file or folder outside of the store, as a digest of its content.
    Source {
        /// Digest, in hexadecimal digits.
        digest: String,
    },
}

impl AncestorArtefact {
    /// The first eight digits of the key, for display.
    #[must_use]
    pub fn short_key(&self) -> &str {
        self.key.get(..8).unwrap_or(&self.key)
    }
}

impl StageLineage {
    /// Artefact that the input of this name was read from; `None` for a source.
    ///
    /// # Errors
    /// An internal error if the lineage has no such input.
    pub fn producer(&self, input: &str) -> Result<Option<&AncestorArtefact>> {
        match self.inputs.get(input) {
            Some(AncestorInput::Source { .. }) => Ok(None),
            Some(AncestorInput::Artefact { key, .. }) => match self.artefact(key) {
                Some(artefact) => Ok(Some(artefact)),
                None => Err(Error::internal(format!("the lineage has no artefact `{key}` of input `{input}`"))),
            },
            None => Err(Error::internal(format!("the lineage has no input `{input}`"))),
        }
    }

    /// Artefact with this key.
    #[must_use]
    pub fn artefact(&self, key: &str) -> Option<&AncestorArtefact> {
        self.artefacts.iter().find(|artefact| artefact.key == key)
    }

    /// Settings and sources of `artefact`, and of everything that it follows from, that `other` does not have: `train:
    /// loss = max, seed = 2; extract: weights.file = 3f2a…`, by [flat names](super::flat_settings). `None` if there are
    /// none.
    ///
    /// Artefacts are compared with those that stand in the same place: from the same inputs of the same inputs.
    #[must_use]
    pub fn own_settings(&self, artefact: &AncestorArtefact, other: &AncestorArtefact) -> Option<String> {
        let mut found = Vec::new();
        self.compare(artefact, other, &mut found);
        let stages: Vec<String> = found.iter().map(|(kind, own)| format!("{kind}: {}", own.join(", "))).collect();
        (!stages.is_empty()).then(|| stages.join("; "))
    }

    /// Collects what `artefact` has of its own, by kind, producers first.
    fn compare<'l>(
        &'l self,
        artefact: &'l AncestorArtefact,
        other: &AncestorArtefact,
        found: &mut Vec<(&'l str, Vec<String>)>,
    ) {
        if artefact.key == other.key {
            return;
        }
        let mut own = Vec::new();
        for (name, input) in &artefact.inputs {
            match (input, other.inputs.get(name)) {
                (AncestorInput::Artefact { key, .. }, Some(AncestorInput::Artefact { key: other, .. })) => {
                    if let (Some(artefact), Some(other)) = (self.artefact(key), self.artefact(other)) {
                        self.compare(artefact, other, found);
                    }
                }
                (input, Some(other)) if input == other => {}
                (AncestorInput::Source { digest }, _) => {
                    own.push(format!("{name} = {}", digest.get(..12).unwrap_or(digest)));
                }
                (AncestorInput::Artefact { key, .. }, _) => {
                    let producer =
                        self.artefact(key).map(|producer| format!("{} {}", producer.kind, producer.short_key()));
                    own.push(format!("{name} = {}", producer.as_deref().unwrap_or(key)));
                }
            }
        }
        if artefact.kind == other.kind {
            let (settings, others) = (flatten(&artefact.settings), flatten(&other.settings));
            let different = settings.iter().filter(|(name, value)| others.get(*name) != Some(*value));
            own.extend(different.map(|(name, value)| format!("{name} = {}", text(value))));
            if artefact.version != other.version {
                own.push(format!("version {}", artefact.version));
            }
        } else {
            own.insert(0, artefact.short_key().to_owned());
        }
        if !own.is_empty() && !found.iter().any(|(kind, before)| *kind == artefact.kind && *before == own) {
            found.push((&artefact.kind, own));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn artefact(kind: &str, key: &str, settings: Value, inputs: &[(&str, &str)]) -> AncestorArtefact {
        let origin = |from: &str| match from.strip_prefix("source ") {
            Some(digest) => AncestorInput::Source { digest: digest.to_owned() },
            None => AncestorInput::Artefact { key: from.to_owned(), output: "rows".to_owned() },
        };
        let inputs = inputs.iter().map(|(name, from)| ((*name).to_owned(), origin(from))).collect();
        AncestorArtefact { kind: kind.to_owned(), key: key.to_owned(), version: 1, settings, inputs }
    }

    #[test]
    fn two_artefacts_differ_in_the_settings_of_all_that_they_follow_from() {
        let images = artefact("ingest", "i", json!({ "n": 3 }), &[("file", "source 12")]);
        let train =
            |key: &str, settings| artefact("train", key, settings, &[("captions", "i"), ("init_from", "source 34")]);
        let one =
            train("t1", json!({ "loss": { "max": { "margin": 0.2 } }, "seed": 1, "epochs": 3, "captions": null }));
        let two = train("t2", json!({ "loss": { "sum": { "margin": 0.2 } }, "seed": 2, "epochs": 3, "bank": 0.5 }));
        // `model` is read twice, and named once.
        let embed = |key: &str, model: &str| artefact("embed", key, json!({}), &[("model", model), ("words", model)]);
        let lineage = StageLineage {
            inputs: BTreeMap::new(),
            artefacts: vec![images, one, two, embed("e1", "t1"), embed("e2", "t2")],
        };
        let (first, second) = (lineage.artefact("e1").unwrap(), lineage.artefact("e2").unwrap());
        let own = |one, other| lineage.own_settings(one, other);
        assert_eq!(own(first, second).as_deref(), Some("train: loss = max, seed = 1"));
        assert_eq!(own(second, first).as_deref(), Some("train: bank = 0.5, loss = sum, seed = 2"));
        assert_eq!(own(first, first), None);
        let imported = artefact("import_model", "m", json!({}), &[]);
        assert_eq!(own(&imported, lineage.artefact("t1").unwrap()).as_deref(), Some("import_model: m"));
    }
}
