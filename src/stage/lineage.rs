//! Lineage of a stage: the artefacts and sources that its inputs follow from.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::{Error, Result};

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

    /// Artefacts that `artefact` follows from, and itself, in the order of [`StageLineage::artefacts`].
    #[must_use]
    pub fn with_ancestors(&self, artefact: &AncestorArtefact) -> Vec<&AncestorArtefact> {
        let mut wanted = vec![artefact.key.as_str()];
        let mut found = Vec::new();
        // Consumers come after their producers, so one pass from the end finds all.
        for candidate in self.artefacts.iter().rev() {
            if wanted.contains(&candidate.key.as_str()) {
                wanted.extend(candidate.inputs.values().filter_map(|input| match input {
                    AncestorInput::Artefact { key, .. } => Some(key.as_str()),
                    AncestorInput::Source { .. } => None,
                }));
                found.push(candidate);
            }
        }
        found.reverse();
        found
    }
}
