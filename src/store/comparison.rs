//! Differences between two runs: versions, stages, settings, connections and sources; and the settings of a result as
//! flat names and texts.

use std::collections::{BTreeMap, BTreeSet};

use crate::key::{ArtefactIdentity, InputIdentity, Key, list_of_input};
use crate::record::{RunRecord, StageRecord};
use pairloom_stage::{names_of_instances, stage_of_instance};

pub use pairloom_stage::flat_settings::{SettingChange, flatten, is_value, list_change_texts, setting_changes, text};

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

impl RunDifference {
    fn new(subject: impl Into<String>, before: Option<String>, after: Option<String>) -> Self {
        Self { subject: subject.into(), before, after, is_detail: false }
    }
}

/// Differences between two runs in the order of the stages. Results that differ only because those before them do are
/// left out.
#[must_use]
pub fn compare_runs(first: &RunRecord, second: &RunRecord) -> Vec<RunDifference> {
    let mut found = Vec::new();
    if first.pipeline_identity() != second.pipeline_identity() {
        // Two files may have been named by the same text, in different folders.
        let is_same_text = first.pipeline == second.pipeline;
        let name =
            |run: &RunRecord| if is_same_text { run.pipeline_identity().to_owned() } else { run.pipeline.clone() };
        found.push(RunDifference::new("pipeline", Some(name(first)), Some(name(second))));
    }
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let mut add = |subject: &str, before: Option<String>, after: Option<String>| {
        if before != after {
            found.push(RunDifference::new(subject, before, after));
        }
    };
    add("pairloom", known(&first.pairloom), known(&second.pairloom));
    add("device", known(&first.command.device), known(&second.command.device));
    let names = second.stages.iter().chain(&first.stages).map(|stage| stage.name.as_str());
    let mut seen = BTreeSet::new();
    let names: Vec<&str> = names.filter(|name| seen.insert(*name)).collect();
    let mut stages_differing: Vec<StageDifferences<'_>> = Vec::new();
    for name in &names {
        let mut own = Vec::new();
        match (first.stage(name), second.stage(name)) {
            (Some(one), Some(other)) if one.kind == other.kind => {
                compare_stages((first, one), (second, other), &mut own);
            }
            (one, other) => {
                let prefix = if one.is_some() && other.is_some() { "kind of " } else { "" };
                let kind = |stage: Option<&StageRecord>| stage.map(|stage| stage.kind.clone());
                own.push(StageDifference::new(prefix, "", kind(one), kind(other)));
            }
        }
        let base = stage_of_instance(name);
        let is_common = first.stage(name).is_some() && second.stage(name).is_some();
        let place = stages_differing.iter().position(|stage| stage.base == base).unwrap_or_else(|| {
            stages_differing.push(StageDifferences { base, names: Vec::new(), common: Vec::new(), found: Vec::new() });
            stages_differing.len() - 1
        });
        stages_differing[place].add(name, is_common, own);
    }
    found.extend(stages_differing.into_iter().flat_map(StageDifferences::named));
    found
}

/// Difference of a stage. Its subject is the name of the stage between a prefix and a suffix.
#[derive(Debug, Clone, PartialEq)]
struct StageDifference {
    prefix: &'static str,
    suffix: String,
    before: Option<String>,
    after: Option<String>,
    is_detail: bool,
}

impl StageDifference {
    fn new(prefix: &'static str, suffix: &str, before: Option<String>, after: Option<String>) -> Self {
        Self { prefix, suffix: suffix.to_owned(), before, after, is_detail: false }
    }
}

/// Differences of a stage, or of all instances of a repeated one.
struct StageDifferences<'n> {
    base: &'n str,
    names: Vec<&'n str>,
    /// Instances that both runs have.
    common: Vec<&'n str>,
    /// Each difference with the instances that have it.
    found: Vec<(StageDifference, Vec<&'n str>)>,
}

impl<'n> StageDifferences<'n> {
    fn add(&mut self, name: &'n str, is_common: bool, own: Vec<StageDifference>) {
        self.names.push(name);
        self.common.extend(is_common.then_some(name));
        for difference in own {
            match self.found.iter_mut().find(|(known, _)| *known == difference) {
                Some((_, names)) => names.push(name),
                None => self.found.push((difference, vec![name])),
            }
        }
    }

    /// Differences with the names of those that have them: one for all instances, or for all with a coordinate.
    fn named(self) -> Vec<RunDifference> {
        let mut named = Vec::new();
        for (StageDifference { prefix, suffix, before, after, is_detail }, names) in self.found {
            let is_common = self.common.contains(&names[0]);
            for name in names_of_instances(&names, if is_common { &self.common } else { &self.names }) {
                let subject = format!("{prefix}{name}{suffix}");
                named.push(RunDifference { subject, before: before.clone(), after: after.clone(), is_detail });
            }
        }
        named
    }
}

/// Stage of a run.
type StageOfRun<'r> = (&'r RunRecord, &'r StageRecord);

fn compare_stages(first: StageOfRun<'_>, second: StageOfRun<'_>, found: &mut Vec<StageDifference>) {
    let (one, other) = (first.1, second.1);
    if one.key == other.key {
        return;
    }
    let (Some(before), Some(after)) = (&one.identity, &other.identity) else {
        let is_known =
            |stage: &StageRecord| Some(if stage.identity.is_some() { "recorded" } else { "not recorded" }.to_owned());
        found.push(StageDifference::new("settings of ", "", is_known(one), is_known(other)));
        return;
    };
    if before.version != after.version {
        let version = |version: u32| Some(format!("version {version}"));
        found.push(StageDifference::new("code of ", "", version(before.version), version(after.version)));
    }
    let changes = setting_changes(&before.settings, &after.settings);
    let changed: BTreeSet<String> = changes.iter().map(|change| change.name.clone()).collect();
    for SettingChange { name, before, after, is_detail } in changes {
        found.push(StageDifference { is_detail, ..StageDifference::new("", &format!(".{name}"), before, after) });
    }
    let inputs: BTreeSet<&String> = before.inputs.keys().chain(after.inputs.keys()).collect();
    let lists: BTreeSet<&str> = inputs.iter().filter_map(|input| list_of_input(input)).collect();
    // The settings of some lists say more than their inputs.
    for list in lists.into_iter().filter(|list| !changed.contains(*list)) {
        let origins = |stage: StageOfRun<'_>, identity: &ArtefactIdentity| -> Vec<Origin> {
            let inputs = identity.inputs.keys().filter(|input| list_of_input(input) == Some(list));
            inputs.filter_map(|input| origin(stage, identity, input)).collect()
        };
        let (ours, theirs) = (origins(first, before), origins(second, after));
        let are_in = |some: &[Origin], others: &[Origin]| {
            some.iter().all(|origin| others.iter().any(|other| origin.is_same_as(other)))
        };
        if !are_in(&ours, &theirs) || !are_in(&theirs, &ours) {
            let texts = |origins: Vec<Origin>| origins.into_iter().map(Origin::into_text).collect::<Vec<_>>();
            let (before, after) = list_change_texts(&texts(ours), &texts(theirs));
            found.push(StageDifference::new("", &format!(".{list}"), Some(before), Some(after)));
        }
    }
    for input in inputs.into_iter().filter(|input| list_of_input(input).is_none()) {
        let (ours, theirs) = (origin(first, before, input), origin(second, after, input));
        if ours.as_ref().zip(theirs.as_ref()).is_some_and(|(ours, theirs)| ours.is_same_as(theirs)) {
            continue;
        }
        let text = |origin: Option<Origin>| origin.map(Origin::into_text);
        found.push(StageDifference::new("", &format!(".{input}"), text(ours), text(theirs)));
    }
}

/// Origin of an input.
enum Origin {
    /// Output of a stage of the same run. Stages with equal settings and inputs share a result, so there may be several
    /// names.
    Stages {
        /// Names of the stages.
        names: Vec<String>,
        /// Kind of the stages.
        kind: String,
        /// Name of the output.
        output: String,
    },
    /// File or folder outside of the store: its path and its digest.
    Source(String, String),
}

impl Origin {
    /// Returns true if both are the same output of a stage of the same name, or the same content.
    fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Stages { names, output, .. }, Self::Stages { names: others, output: theirs, .. }) => {
                output == theirs
                    && (names.is_empty() || others.is_empty() || names.iter().any(|name| others.contains(name)))
            }
            (Self::Source(_, digest), Self::Source(_, other)) => digest == other,
            _ => false,
        }
    }

    /// Text as in a pipeline file: `p1.images`; of a source, its path and digest.
    fn into_text(self) -> String {
        match self {
            Self::Stages { names, kind, output } => format!("{}.{output}", names.first().unwrap_or(&kind)),
            Self::Source(path, digest) => format!("{path} ({})", digest.get(..8).unwrap_or(&digest)),
        }
    }
}

/// Origin of an input of a stage; `None` if the stage has no such input.
fn origin((run, stage): StageOfRun<'_>, identity: &ArtefactIdentity, input: &str) -> Option<Origin> {
    Some(match identity.inputs.get(input)? {
        InputIdentity::Source(digest) => {
            Origin::Source(stage.sources.get(input).cloned().unwrap_or_default(), digest.clone())
        }
        InputIdentity::Artefact { kind, key, output } => {
            let producers = run.stages.iter().filter(|stage| stage.kind == *kind && stage.key == *key);
            let names = producers.map(|stage| stage.name.clone()).collect();
            Origin::Stages { names, kind: kind.clone(), output: output.clone() }
        }
    })
}

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
