//! Differences between two runs: versions, stages, settings, connections and sources.

use std::collections::BTreeSet;

use crate::stage::stage_of_instance;
use crate::store::flat_settings::{SettingChange, list_change_texts, setting_changes};
use crate::store::key::{ArtefactIdentity, InputIdentity, list_of_input};
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
    for name in names.filter(|name| seen.insert(*name)) {
        match (first.stage(name), second.stage(name)) {
            (Some(one), Some(other)) if one.kind == other.kind => {
                compare_stages((first, one), (second, other), &mut found);
            }
            (one, other) => {
                let subject =
                    if one.is_some() && other.is_some() { format!("kind of {name}") } else { name.to_owned() };
                let kind = |stage: Option<&StageRecord>| stage.map(|stage| stage.kind.clone());
                found.push(RunDifference::new(subject, kind(one), kind(other)));
            }
        }
    }
    let mut told = BTreeSet::new();
    found.retain(|of| told.insert((of.subject.clone(), of.before.clone(), of.after.clone())));
    found
}

/// Stage of a run.
type StageOfRun<'r> = (&'r RunRecord, &'r StageRecord);

fn compare_stages(first: StageOfRun<'_>, second: StageOfRun<'_>, found: &mut Vec<RunDifference>) {
    let (one, other) = (first.1, second.1);
    if one.key == other.key {
        return;
    }
    // A difference of all instances is told once.
    let name = stage_of_instance(&one.name);
    let (Some(before), Some(after)) = (&one.identity, &other.identity) else {
        let is_known =
            |stage: &StageRecord| Some(if stage.identity.is_some() { "recorded" } else { "not recorded" }.to_owned());
        found.push(RunDifference::new(format!("settings of {name}"), is_known(one), is_known(other)));
        return;
    };
    if before.version != after.version {
        let version = |version: u32| Some(format!("version {version}"));
        let subject = format!("code of {name}");
        found.push(RunDifference::new(subject, version(before.version), version(after.version)));
    }
    for SettingChange { name: setting, before, after, is_detail } in setting_changes(&before.settings, &after.settings)
    {
        found.push(RunDifference { subject: format!("{name}.{setting}"), before, after, is_detail });
    }
    let inputs: BTreeSet<&String> = before.inputs.keys().chain(after.inputs.keys()).collect();
    for list in inputs.iter().filter_map(|input| list_of_input(input)).collect::<BTreeSet<_>>() {
        let texts = |of: StageOfRun<'_>, identity: &ArtefactIdentity| -> Vec<String> {
            let inputs = identity.inputs.keys().filter(|input| list_of_input(input) == Some(list));
            inputs.filter_map(|input| origin(of, identity, input)).map(Origin::into_text).collect()
        };
        let (ours, theirs) = (texts(first, before), texts(second, after));
        if ours.iter().collect::<BTreeSet<_>>() != theirs.iter().collect::<BTreeSet<_>>() {
            let (before, after) = list_change_texts(&ours, &theirs);
            found.push(RunDifference::new(format!("{name}.{list}"), Some(before), Some(after)));
        }
    }
    for input in inputs.into_iter().filter(|input| list_of_input(input).is_none()) {
        let (ours, theirs) = (origin(first, before, input), origin(second, after, input));
        if ours.as_ref().zip(theirs.as_ref()).is_some_and(|(ours, theirs)| ours.is_same_as(theirs)) {
            continue;
        }
        let text = |of: Option<Origin>| of.map(Origin::into_text);
        found.push(RunDifference::new(format!("{name}.{input}"), text(ours), text(theirs)));
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
                    && (names.is_empty() || others.is_empty() || names.iter().any(|of| others.contains(of)))
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
