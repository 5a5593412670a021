//! Settings of a stage and of everything that it follows from, as flat names and texts.

use std::collections::{BTreeMap, BTreeSet};

pub use crate::stage::flat_settings::{flatten, is_value, text};
use crate::store::key::ArtefactIdentity;
use crate::store::lineage::artefact_inputs;
use crate::store::record::{RunRecord, StageRecord};

/// Settings on which the result of a stage depends, as text: its own and those of the stages of the run that it follows
/// from, named `stage.setting`.
#[must_use]
pub fn settings_of_result(run: &RunRecord, stage: &StageRecord) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![stage];
    while let Some(stage) = open.pop() {
        let Some(identity) = &stage.identity else { continue };
        if !seen.insert(&stage.name) {
            continue;
        }
        for (name, value) in flatten(&identity.settings) {
            settings.insert(format!("{}.{name}", stage.name), text(&value));
        }
        open.extend(producers(run, identity));
    }
    settings
}

/// Stages of a run whose results an artefact reads.
fn producers<'r>(run: &'r RunRecord, identity: &ArtefactIdentity) -> Vec<&'r StageRecord> {
    let names: BTreeSet<_> = artefact_inputs(identity).map(|(_, name)| name).collect();
    run.stages.iter().filter(|stage| names.iter().any(|(kind, key)| stage.kind == *kind && stage.key == *key)).collect()
}
