//! Differences between two runs: versions, stages, settings and sources.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::flat_settings::{flatten, text};
use crate::store::key::InputIdentity;
use crate::store::record::{RunRecord, StageRecord};

/// Difference between two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDifference {
    /// Subject: `fit.epochs`, the name of a stage, `pairloom`.
    pub subject: String,
    /// Value in the first run; `None` if it has none.
    pub before: Option<String>,
    /// Value in the second run; `None` if it has none.
    pub after: Option<String>,
    /// True for a setting of an alternative that only one of the runs chose, such as the margin of another loss.
    pub is_detail: bool,
}

/// Differences between two runs in the order of the stages. Results that differ only because their inputs do are left
/// out.
#[must_use]
pub fn compare_runs(first: &RunRecord, second: &RunRecord) -> Vec<RunDifference> {
    let mut found = Vec::new();
    let mut add = |subject: String, before: Option<String>, after: Option<String>| {
        if before != after {
            found.push(RunDifference { subject, before, after, is_detail: false });
        }
    };
    add("pipeline".to_owned(), Some(first.pipeline.clone()), Some(second.pipeline.clone()));
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    add("pairloom".to_owned(), known(&first.pairloom), known(&second.pairloom));
    add("device".to_owned(), known(&first.command.device), known(&second.command.device));
    let names = second.stages.iter().chain(&first.stages).map(|stage| stage.name.as_str());
    let mut seen = BTreeSet::new();
    for name in names.filter(|name| seen.insert(*name)) {
        match (first.stage(name), second.stage(name)) {
            (Some(one), Some(other)) if one.kind == other.kind => compare_stages(one, other, &mut found),
            (one, other) => {
                let kind = |stage: Option<&StageRecord>| stage.map(|stage| stage.kind.clone());
                found.push(RunDifference {
                    subject: name.to_owned(),
                    before: kind(one),
                    after: kind(other),
                    is_detail: false,
                });
            }
        }
    }
    found
}

fn compare_stages(one: &StageRecord, other: &StageRecord, found: &mut Vec<RunDifference>) {
    let (Some(before), Some(after)) = (&one.identity, &other.identity) else { return };
    if one.key == other.key {
        return;
    }
    if before.version != after.version {
        let version = |version: u32| Some(format!("version {version}"));
        found.push(RunDifference {
            subject: format!("code of {}", one.name),
            before: version(before.version),
            after: version(after.version),
            is_detail: false,
        });
    }
    let values = |settings: &serde_json::Value| -> BTreeMap<String, String> {
        flatten(settings).into_iter().map(|(name, value)| (name, text(&value))).collect()
    };
    let (ours, theirs) = (values(&before.settings), values(&after.settings));
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let changed: BTreeSet<&String> = names.into_iter().filter(|name| ours.get(*name) != theirs.get(*name)).collect();
    for name in &changed {
        let (before, after) = (ours.get(*name).cloned(), theirs.get(*name).cloned());
        let one_sided = before.is_none() || after.is_none();
        let chosen_above =
            changed.iter().any(|above| name.strip_prefix(above.as_str()).is_some_and(|rest| rest.starts_with('.')));
        let subject = format!("{}.{name}", one.name);
        found.push(RunDifference { subject, before, after, is_detail: one_sided && chosen_above });
    }
    for input in before.inputs.keys().chain(after.inputs.keys()).collect::<BTreeSet<_>>() {
        let (ours, theirs) = (before.inputs.get(input), after.inputs.get(input));
        let is_source = |of: Option<&InputIdentity>| matches!(of, None | Some(InputIdentity::Source(_)));
        if ours == theirs || !(is_source(ours) && is_source(theirs)) {
            continue;
        }
        let source = |stage: &StageRecord, of: Option<&InputIdentity>| match of {
            Some(InputIdentity::Source(digest)) => {
                let path = stage.sources.get(input).map_or("", String::as_str);
                Some(format!("{path} ({})", digest.get(..8).unwrap_or(digest)))
            }
            _ => None,
        };
        found.push(RunDifference {
            subject: format!("{}.{input}", one.name),
            before: source(one, ours),
            after: source(other, theirs),
            is_detail: false,
        });
    }
}
