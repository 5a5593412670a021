//! Connection of the stages of a file to a plan, with one diagnostic for each mistake.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::diagnostic::{Diagnostic, SourceMap, SourceSpan};
use super::toml_tree::TomlNode;
use pairloom_base::suggest::{MAX_SUGGESTIONS, closest_name};
use pairloom_stage::plan::{Plan, PlanNode, StageProblem, setting_name};
use pairloom_stage::{Coordinate, Problem, Stage};

/// Number of lines that a note names.
const NAMED_LINES: usize = 5;

/// Stage of the file: its settings as a tree, and as a Rust value if they are valid.
pub(super) struct ParsedStage<S> {
    /// Name, with the coordinates of an instance.
    pub(super) name: String,
    /// Name in the file.
    pub(super) base: String,
    pub(super) coordinates: Vec<Coordinate>,
    pub(super) span: SourceSpan,
    /// Name in the place of the kind. If there is no such kind, it may be the name of the stage.
    pub(super) other_name: Option<String>,
    /// Table of the settings, below the kind.
    pub(super) settings: Option<TomlNode>,
    pub(super) stage: Option<S>,
    /// Range of the checker's references that belong to this stage.
    pub(super) references: Range<usize>,
    /// Names of settings that are wrong, mistyped or meant by a mistyped name, and therefore not set.
    pub(super) dropped: Vec<String>,
}

impl<S: Stage> ParsedStage<S> {
    /// Node of the plan; `None` if the stage could not be read.
    pub(super) fn node(&self) -> Option<PlanNode<S>>
    where
        S: Clone,
    {
        let (name, coordinates) = (self.name.clone(), self.coordinates.clone());
        Some(PlanNode { name, coordinates, stage: self.stage.clone()? })
    }

    /// True if the stage may have other outputs once its mistakes are corrected.
    pub(super) fn is_doubtful(&self) -> bool {
        self.stage.is_none() || !self.dropped.is_empty()
    }

    /// True if a problem probably follows from a mistake that is already reported: it mentions a dropped setting.
    fn is_consequence(&self, problem: &Problem) -> bool {
        let texts = [Some(&problem.setting), Some(&problem.message), problem.hint.as_ref()];
        let is_part = |c: char| !(c.is_alphanumeric() || c == '_');
        let mut words = texts.into_iter().flatten().flat_map(|text| text.split(is_part));
        words.any(|word| self.dropped.iter().any(|dropped| dropped == word))
    }
}

/// Reference `stage.table` in a setting.
pub(super) type Reference = (String, SourceSpan);

/// Connects the stages that could be read, and checks the references of the others. Returns a plan if all stages could
/// be read and connected. `misplaced` are unknown names at the top of the file, whose mistake is reported already.
pub(super) fn connect_stages<S: Stage + Clone>(
    parsed_stages: &[ParsedStage<S>],
    source_map: &SourceMap,
    references: &[Reference],
    misplaced: &[&str],
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Plan<S>> {
    let nodes = parsed_stages.iter().filter_map(ParsedStage::node);
    let by_name: BTreeMap<&str, &ParsedStage<S>> =
        parsed_stages.iter().rev().map(|parsed| (parsed.name.as_str(), parsed)).collect();
    let is_doubtful = |name: &str| by_name.get(name).is_some_and(|parsed| parsed.is_doubtful());
    let (plan, found) = match Plan::with_doubtful(nodes.collect(), &is_doubtful) {
        Ok(plan) => {
            let warnings = plan.warnings().to_vec();
            (parsed_stages.iter().all(|parsed| parsed.stage.is_some()).then_some(plan), warnings)
        }
        Err(found) => (None, found),
    };
    let mut reporter = ConnectionReporter {
        parsed_stages,
        by_name: &by_name,
        own_references: own_references(parsed_stages, references),
        source_map,
        refused: diagnostics.iter().map(|diagnostic| diagnostic.span).collect(),
        missing_stages: BTreeMap::new(),
        refused_items: BTreeSet::new(),
        diagnostics,
    };
    for problem in found {
        reporter.report_problem(problem);
    }
    for parsed in parsed_stages.iter().filter(|parsed| parsed.stage.is_none()) {
        for (reference, span) in &references[parsed.references.clone()] {
            reporter.report_reference(reference, *span);
        }
    }
    let unread = parsed_stages.iter().filter(|parsed| parsed.stage.is_none());
    let meant: Vec<&str> = unread.filter_map(|parsed| parsed.other_name.as_deref()).collect();
    reporter.missing_stages.retain(|name, _| !meant.contains(&name.as_str()) && !misplaced.contains(&name.as_str()));
    reporter.report_missing_stages();
    plan
}

/// References by the stage that has them and their span. Those that one text of the file means have its span: the first.
type OwnReferences<'a> = BTreeMap<(&'a str, SourceSpan), &'a str>;

fn own_references<'a, S>(parsed_stages: &'a [ParsedStage<S>], references: &'a [Reference]) -> OwnReferences<'a> {
    let mut own = OwnReferences::new();
    for parsed in parsed_stages {
        for (reference, span) in &references[parsed.references.clone()] {
            own.entry((parsed.name.as_str(), *span)).or_insert(reference);
        }
    }
    own
}

/// Reporter of problems of connections. It leaves out those that follow from others.
struct ConnectionReporter<'a, S> {
    parsed_stages: &'a [ParsedStage<S>],
    /// The same by name.
    by_name: &'a BTreeMap<&'a str, &'a ParsedStage<S>>,
    own_references: OwnReferences<'a>,
    source_map: &'a SourceMap,
    /// Spans of values that were refused before.
    refused: BTreeSet<SourceSpan>,
    /// Diagnostics of references to stages that do not exist, by the name of the stage.
    missing_stages: BTreeMap<String, Vec<Diagnostic>>,
    /// Places and messages of problems, without the numbers of items.
    refused_items: BTreeSet<(SourceSpan, String)>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl<'a, S: Stage> ConnectionReporter<'a, S> {
    fn find(&self, stage: &str) -> Option<&'a ParsedStage<S>> {
        self.by_name.get(stage).copied()
    }

    /// Reports a problem of the plan.
    fn report_problem(&mut self, found: StageProblem) {
        let Some(parsed) = self.find(&found.stage) else { return };
        if parsed.is_consequence(&found.problem) {
            return;
        }
        let settings = parsed.settings.as_ref();
        let span = settings.map_or(parsed.span, |settings| settings.span_of(&found.problem.setting, parsed.span));
        if span != parsed.span && self.refused.contains(&span) {
            return;
        }
        let reference = self.own_references.get(&(parsed.name.as_str(), span)).copied();
        let mut problem = found.problem;
        problem.message = with_setting_name(&problem.setting, problem.message);
        let diagnostic = Diagnostic { span, problem, note: None };
        match reference.and_then(|reference| reference.rsplit_once('.')) {
            Some((stage, _)) if self.find(stage).is_none() => {
                self.missing_stages.entry(stage.to_owned()).or_default().push(diagnostic);
            }
            Some((stage, table)) if self.may_exist(stage, table) => {}
            // A pattern such as `fit@*.history` stands for many items, which have one place and one mistake.
            _ if self.refused_items.insert((span, without_item_number(&diagnostic.problem.message))) => {
                self.diagnostics.push(diagnostic);
            }
            _ => {}
        }
    }

    /// True if a stage with mistakes may write `table` once they are corrected.
    fn may_exist(&self, stage: &str, table: &str) -> bool {
        let Some(parsed) = self.find(stage).filter(|parsed| parsed.is_doubtful()) else { return false };
        let Some(stage) = &parsed.stage else { return true };
        closest_name(table, stage.outputs().iter().map(|output| output.name)).is_none()
    }

    /// Reports a reference of a stage that could not be read, if it is to an unknown stage or table.
    fn report_reference(&mut self, reference: &str, span: SourceSpan) {
        let Some((stage, table)) = reference.rsplit_once('.').filter(|_| !self.refused.contains(&span)) else { return };
        let Some(parsed) = self.find(stage) else {
            let mut diagnostic = Diagnostic::new(span, format!("got `{reference}`, but no stage is called `{stage}`"));
            if self.missing_stages.len() < MAX_SUGGESTIONS {
                let mut names: Vec<&str> = self.parsed_stages.iter().map(|parsed| parsed.base.as_str()).collect();
                names.dedup();
                diagnostic = diagnostic.with_valid_names(stage, names);
            }
            self.missing_stages.entry(stage.to_owned()).or_default().push(diagnostic);
            return;
        };
        let Some(producer) = &parsed.stage else { return };
        let outputs = producer.outputs();
        let names: Vec<&str> = outputs.iter().map(|output| output.name).collect();
        if !names.contains(&table) && !self.may_exist(stage, table) {
            let diagnostic =
                Diagnostic::new(span, format!("got `{reference}`, but stage `{stage}` writes no `{table}`"));
            self.diagnostics.push(diagnostic.with_valid_names(table, names));
        }
    }

    /// Reports each missing stage once, at the first reference to it.
    fn report_missing_stages(self) {
        for (stage, mut all) in self.missing_stages {
            all.sort_by_key(|diagnostic| diagnostic.span);
            // Instances of a stage name it at one place.
            all.dedup_by_key(|diagnostic| diagnostic.span);
            let mut lines: Vec<usize> =
                all.iter().skip(1).map(|diagnostic| self.source_map.position(diagnostic.span).line).collect();
            lines.dedup();
            let first = all.swap_remove(0);
            self.diagnostics.push(match lines.as_slice() {
                [] => first,
                [line] => first.note(format!("`{stage}` is named again in line {line}")),
                lines => {
                    let shown: Vec<String> = lines.iter().take(NAMED_LINES).map(ToString::to_string).collect();
                    let more = if lines.len() > NAMED_LINES { " …" } else { "" };
                    first.note(format!("`{stage}` is named again in lines {}{more}", shown.join(", ")))
                }
            });
        }
    }
}

/// Message without the number in `item 3 of`.
fn without_item_number(message: &str) -> String {
    match message.strip_prefix("item ").and_then(|rest| rest.split_once(' ')) {
        Some((number, rest)) if number.parse::<usize>().is_ok() => rest.to_owned(),
        _ => message.to_owned(),
    }
}

/// Prefixes a message with the setting that it is about, unless it names it.
fn with_setting_name(setting: &str, message: String) -> String {
    let name = setting_name(setting);
    if setting.is_empty() || message.contains(&name) { message } else { format!("{name}: {message}") }
}
