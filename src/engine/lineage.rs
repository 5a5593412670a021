//! Lineage of a stage, from the identities of the stages of a plan.

use std::collections::BTreeMap;

use crate::status::StageStatus;
use pairloom_stage::{AncestorArtefact, AncestorInput, StageLineage};
use pairloom_store::key::{ArtefactIdentity, InputIdentity, Key};

/// Lineage of the stage with this identity. `statuses` are the stages that it may follow from.
pub(super) fn stage_lineage(identity: &ArtefactIdentity, statuses: &[StageStatus]) -> StageLineage {
    let mut artefacts = Vec::new();
    add_producers(identity, statuses, &mut artefacts);
    StageLineage { inputs: inputs(identity), artefacts }
}

/// Adds the producers of all inputs to `found`, after everything that they follow from. The inputs are visited in the
/// order of their names: the names of the stages and their order in the pipeline file are not part of the key.
fn add_producers(identity: &ArtefactIdentity, statuses: &[StageStatus], found: &mut Vec<AncestorArtefact>) {
    for input in identity.inputs.values() {
        let InputIdentity::Artefact { key, .. } = input else { continue };
        if found.iter().any(|ancestor| ancestor.key == key.as_str()) {
            continue;
        }
        if let Some(status) = statuses.iter().find(|status| status.key == *key) {
            add_producers(&status.identity, statuses, found);
            found.push(ancestor(key, &status.identity));
        }
    }
}

fn ancestor(key: &Key, identity: &ArtefactIdentity) -> AncestorArtefact {
    let ArtefactIdentity { kind, version, settings, .. } = identity;
    let (kind, key, settings) = (kind.clone(), key.to_string(), settings.clone());
    AncestorArtefact { kind, key, version: *version, settings, inputs: inputs(identity) }
}

fn inputs(identity: &ArtefactIdentity) -> BTreeMap<String, AncestorInput> {
    let origin = |input: &InputIdentity| match input {
        InputIdentity::Artefact { key, output, .. } => {
            AncestorInput::Artefact { key: key.to_string(), output: output.clone() }
        }
        InputIdentity::Source(digest) => AncestorInput::Source { digest: digest.clone() },
    };
    identity.inputs.iter().map(|(name, input)| (name.clone(), origin(input))).collect()
}
