//! Settings of a stage and of everything that it follows from, as flat names and texts.

use std::collections::{BTreeMap, BTreeSet};

use crate::key::{ArtefactIdentity, InputIdentity, Key};
use crate::record::{RunRecord, StageRecord};
pub use pairloom_stage::flat_settings::{SettingChange, flatten, is_value, list_change_texts, setting_changes, text};
use pairloom_stage::stage_of_instance;

/// First part of the names of coordinates.
const MATRIX: &str = "matrix";

/// Settings on which the result of a stage depends, as text: its own and those of the stages of the run that it follows
/// from, named `stage.setting`, without the coordinates of instances. Coordinates of the stage itself are named
/// `matrix.axis`.
#[must_use]
pub fn settings_of_result(run: &RunRecord, stage: &StageRecord) -> BTreeMap<String, String> {
    let mut ancestors: Vec<(&StageRecord, &ArtefactIdentity)> = Vec::new();
    // Instances of a stage can share a result.
    let mut seen = BTreeSet::new();
    let mut open = vec![stage];
    while let Some(stage) = open.pop() {
        if let Some(identity) = &stage.identity
            && seen.insert((stage_of_instance(&stage.name), &stage.key))
        {
            ancestors.push((stage, identity));
            open.extend(producers(run, identity));
        }
    }
    let mut results_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (stage, _) in &ancestors {
        *results_of.entry(stage_of_instance(&stage.name)).or_default() += 1;
    }
    let mut settings: BTreeMap<String, String> = stage
        .coordinates
        .iter()
        .map(|coordinate| (format!("{MATRIX}.{}", coordinate.axis), coordinate.value_text()))
        .collect();
    for (stage, identity) in ancestors {
        let own = stage_of_instance(&stage.name);
        // A stage that reads several instances of another one has settings of each.
        let name = if results_of[own] == 1 { own } else { &stage.name };
        let values = flatten(&identity.settings).into_iter();
        settings.extend(values.map(|(setting, value)| (format!("{name}.{setting}"), text(&value))));
    }
    settings
}

/// Stages of a run whose results an artefact reads.
fn producers<'r>(run: &'r RunRecord, identity: &ArtefactIdentity) -> Vec<&'r StageRecord> {
    let artefacts = identity.inputs.values().filter_map(|input| match input {
        InputIdentity::Artefact { kind, key, .. } => Some((kind.as_str(), key)),
        InputIdentity::Source(_) => None,
    });
    let results: BTreeSet<(&str, &Key)> = artefacts.collect();
    run.stages.iter().filter(|stage| results.contains(&(stage.kind.as_str(), &stage.key))).collect()
}
