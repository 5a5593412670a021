//! Settings of a stage and of everything that it follows from, as flat names and texts.

use std::collections::{BTreeMap, BTreeSet};

pub use crate::stage::flat_settings::{flatten, is_value, text};
use crate::stage::stage_of_instance;
use crate::store::key::ArtefactIdentity;
use crate::store::lineage::artefact_inputs;
use crate::store::record::{RunRecord, StageRecord};

/// First part of the names of coordinates.
const MATRIX: &str = "matrix";

/// Settings on which the result of a stage depends, as text: its own and those of the stages of the run that it follows
/// from, named `stage.setting`, without the coordinates of instances. Coordinates of the stage itself are named
/// `matrix.axis`.
#[must_use]
pub fn settings_of_result(run: &RunRecord, stage: &StageRecord) -> BTreeMap<String, String> {
    let mut ancestors: BTreeMap<&str, &StageRecord> = BTreeMap::new();
    let mut open = vec![stage];
    while let Some(stage) = open.pop() {
        if let Some(identity) = &stage.identity
            && ancestors.insert(&stage.name, stage).is_none()
        {
            open.extend(producers(run, identity));
        }
    }
    let mut settings: BTreeMap<String, String> = stage
        .coordinates
        .iter()
        .map(|coordinate| (format!("{MATRIX}.{}", coordinate.axis), coordinate.value_text()))
        .collect();
    for stage in ancestors.values() {
        let own = stage_of_instance(&stage.name);
        // A stage that reads several instances of another one has settings of each.
        let is_only = ancestors.keys().filter(|name| stage_of_instance(name) == own).count() == 1;
        let name = if is_only { own } else { &stage.name };
        let values = stage.identity.iter().flat_map(|identity| flatten(&identity.settings));
        settings.extend(values.map(|(setting, value)| (format!("{name}.{setting}"), text(&value))));
    }
    settings
}

/// Stages of a run whose results an artefact reads.
fn producers<'r>(run: &'r RunRecord, identity: &ArtefactIdentity) -> Vec<&'r StageRecord> {
    let names: BTreeSet<_> = artefact_inputs(identity).map(|(_, name)| name).collect();
    run.stages.iter().filter(|stage| names.iter().any(|(kind, key)| stage.kind == *kind && stage.key == *key)).collect()
}
