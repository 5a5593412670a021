//! Overrides from the command line, `--set stage.fit.train.epochs=3`, applied to the tree of the file.
//!
//! A name may be in quotes. `*` in the name of a stage sets all stages of that kind: `stage.*.train.epochs=3`. An
//! assignment to a stage that the matrix repeats sets all of its instances; `stage."fit@row=1.1".train.epochs=3` sets
//! those with that value.

use std::collections::BTreeSet;

use toml::de::DeValue;

use super::diagnostic::{Diagnostic, SourceSpan};
use super::file_format::SettingPaths;
use super::toml_tree::{TomlEntry, TomlNode, TomlValue};
use pairloom_base::error::TruncatedList;
use pairloom_base::suggest::quoted_list;
use pairloom_stage::plan::PlanNode;
use pairloom_stage::{
    Coordinate, INSTANCE_SIGN, Stage, coordinate_texts, has_coordinates, instance_name, matches_glob, stage_of_instance,
};

/// Prefix of an assignment in messages.
const FLAG: &str = "--set ";

/// Assignment as shown in messages.
pub(super) fn argument_text(assignment: &str) -> String {
    format!("{FLAG}{assignment}")
}

/// Step of a path, with its span.
pub(super) type Step = (String, SourceSpan);

/// Assignment of a value to a setting.
#[derive(Debug)]
pub(super) struct SettingAssignment {
    /// Path of the setting.
    steps: Vec<Step>,
    value: TomlNode,
    /// True unless the file has this value already.
    is_change: bool,
}

impl SettingAssignment {
    /// Index of its text in the source map.
    pub(super) fn source_index(&self) -> usize {
        self.value.span.source_index
    }

    /// True if the assignment is to an expectation.
    pub(super) fn is_expectation(&self) -> bool {
        self.steps[0].0 == "expect"
    }

    /// True if the assignment changes a stage itself. The seed and the matrix are settings of all stages.
    pub(super) fn changes<S: Stage>(&self, node: &PlanNode<S>) -> bool {
        let is_meant = match self.steps.as_slice() {
            [(first, _), (name, _), rest @ ..] if first == "stage" => {
                means_instance(name, stage_of_instance(&node.name), &node.coordinates)
                    && rest.first().is_none_or(|(kind, _)| kind == node.stage.kind())
            }
            _ => !self.is_expectation(),
        };
        is_meant && self.is_change
    }

    /// Sets the value in an instance of a stage of the matrix, if it is meant. `settings` is the tree of the instance.
    pub(super) fn apply_to_instance(&self, settings: &mut TomlNode, stage: &str, coordinates: &[Coordinate]) {
        if let [(first, _), (name, _), rest @ ..] = self.steps.as_slice()
            && first == "stage"
            && rest.first().is_some_and(|(kind, _)| settings.get(kind).is_some())
            && means_instance(name, stage, coordinates)
        {
            set_value(settings, rest, self.value.clone());
        }
    }

    /// Span and names of the setting below the kind, if the assignment is to all instances of this stage.
    pub(super) fn setting_of_all(&self, stage: &TomlEntry) -> Option<(SourceSpan, Vec<&str>)> {
        let [(first, _), (name, _), (kind, _), setting @ ..] = self.steps.as_slice() else { return None };
        let is_meant = first == "stage" && matches_glob(name, &stage.key) && stage.node.get(kind).is_some();
        let names = setting.iter().map(|(name, _)| name.as_str()).collect();
        setting.first().filter(|_| is_meant).map(|(_, span)| (*span, names))
    }

    /// Coordinates of the instances that the assignment names, with their span; `None` if it names none.
    fn coordinates(&self) -> Option<(&str, SourceSpan)> {
        let (name, span) = self.steps.get(1).filter(|_| self.steps[0].0 == "stage")?;
        Some((name.split_once(INSTANCE_SIGN)?.1, *span))
    }

    /// Reports an assignment to instances, or to a kind of them, that do not exist. `instances` has the tree, the name of
    /// the stage and the coordinates of each.
    pub(super) fn check_instances<'i>(
        &self,
        instances: impl Iterator<Item = (&'i TomlNode, &'i str, &'i [Coordinate])> + Clone,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let Some((_, span)) = self.coordinates() else { return };
        let name = &self.steps[1].0;
        let meant = instances.clone().filter(|(_, stage, coordinates)| means_instance(name, stage, coordinates));
        let kinds: BTreeSet<&str> = meant.flat_map(|(settings, ..)| keys(settings)).collect();
        if !kinds.is_empty() {
            diagnostics.extend(self.steps.get(2).filter(|(kind, _)| !kinds.contains(kind.as_str())).map(
                |(kind, at)| {
                    let message = format!("no instance that matches `{name}` has the kind `{kind}`");
                    Diagnostic::new(*at, message).with_valid_names(kind, kinds)
                },
            ));
            return;
        }
        let message = format!("no instance of a stage matches `{name}`");
        let diagnostic = Diagnostic::new(span, message);
        let mut names = TruncatedList::new(SHOWN_INSTANCES);
        let matrix_stages = instances.filter(|(_, _, coordinates)| !coordinates.is_empty());
        let stage_instances =
            matrix_stages.clone().filter(|(_, stage, _)| matches_glob(stage_of_instance(name), stage));
        for (axis, value) in coordinate_texts(name) {
            let on_axis =
                stage_instances.clone().flat_map(|(_, _, coordinates)| coordinates).filter(|of| of.axis == axis);
            let values: BTreeSet<String> = on_axis.map(Coordinate::value_text).collect();
            if !values.is_empty() && !values.contains(value) {
                names.extend(values.iter().map(|value| format!("`{value}`")));
                diagnostics.push(diagnostic.note(format!("axis `{axis}` has the values {}", names.join(", "))));
                return;
            }
        }
        names.extend(matrix_stages.map(|(_, stage, coordinates)| format!("`{}`", instance_name(stage, coordinates))));
        diagnostics.push(if names.is_empty() {
            diagnostic.hint("the file has no `[matrix.AXIS]`, so no stage is repeated")
        } else {
            diagnostic.note(format!("there are {}", names.join(", ")))
        });
    }
}

/// Instances that a message lists.
const SHOWN_INSTANCES: usize = 6;

/// True if a name in an assignment means an instance: `fit` every instance of `fit`, `fit@row=1.1` those with that value.
pub(super) fn means_instance(name: &str, stage: &str, coordinates: &[Coordinate]) -> bool {
    matches_glob(stage_of_instance(name), stage) && has_coordinates(&instance_name(stage, coordinates), name)
}

/// Applies an assignment to `root`. `index` is the index of its text in the source map. Returns the assignment, if it
/// could be read, for the instances of stages.
pub(super) fn apply(
    root: &mut TomlNode,
    assignment: &str,
    index: usize,
    settings: &SettingPaths<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<SettingAssignment> {
    let at =
        |start: usize, end: usize| SourceSpan { source_index: index, start: FLAG.len() + start, end: FLAG.len() + end };
    let Some(equals) = unquoted(assignment).find_map(|(i, c)| (c == '=').then_some(i)) else {
        let diagnostic =
            Diagnostic::new(at(0, assignment.len()), format!("`{assignment}` assigns nothing: expected `PATH=VALUE`"));
        diagnostics.push(diagnostic.hint("write for example `--set stage.fit.train.epochs=3`, or `*` for all stages of a kind: `--set 'stage.*.train.epochs=3'`"));
        return None;
    };
    let (path, text) = (&assignment[..equals], &assignment[equals + 1..]);
    let offset = equals + 1;
    let value_at = at(offset, assignment.len());
    let value = match DeValue::parse(text.trim_end()) {
        Ok(value) if !text.trim().is_empty() => {
            TomlNode::from_value(value_at, value.get_ref(), &|span| at(offset + span.start, offset + span.end))
        }
        Err(error) if text.starts_with(['{', '[']) => {
            let reason = error.message().replace('\n', ", ");
            let diagnostic = Diagnostic::new(value_at, format!("the value is not TOML: {reason}"));
            let hint =
                "write for example `--set 'stage.fit.train.loss={ max = { margin = 0.1 } }'`, in quotes of the shell";
            diagnostics.push(diagnostic.hint(hint));
            return None;
        }
        // A value that is not TOML is plain text, since shells remove quotes.
        _ => TomlNode { span: value_at, value: TomlValue::Text(text.to_owned()) },
    };
    let steps = match parse_path(path, &at) {
        Ok(steps) => steps,
        Err(diagnostic) => {
            diagnostics.push(diagnostic);
            return None;
        }
    };
    let mut assignment = SettingAssignment { steps, value, is_change: true };
    if assignment.coordinates().is_none() {
        let before = root.to_toml();
        match matching_paths(root, assignment.steps.clone(), settings) {
            Ok(paths) => {
                for steps in &paths {
                    set_value(root, steps, assignment.value.clone());
                }
                assignment.is_change = root.to_toml() != before;
            }
            Err(diagnostic) => {
                diagnostics.push(diagnostic);
                return None;
            }
        }
    }
    Some(assignment)
}

/// Characters outside of quotes, with their positions.
fn unquoted(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    text.char_indices().filter(move |&(_, c)| {
        let is_quote = c == '"' || c == '\'';
        match quote {
            Some(open) if open == c => quote = None,
            None if is_quote => quote = Some(c),
            _ => return quote.is_none(),
        }
        false
    })
}

/// Splits a path at its dots. A name in quotes may have dots in it.
fn parse_path(path: &str, at: &impl Fn(usize, usize) -> SourceSpan) -> Result<Vec<Step>, Diagnostic> {
    let dots = unquoted(path).filter(|(_, c)| *c == '.').map(|(i, _)| i);
    let mut start = 0;
    let mut steps = Vec::new();
    for end in dots.chain([path.len()]) {
        let step = &path[start..end];
        let name = step.trim();
        if name.is_empty() {
            return Err(Diagnostic::new(at(start, end), format!("`{path}` has an empty name in it")));
        }
        let lead = step.len() - step.trim_start().len();
        let span = at(start + lead, start + lead + name.len());
        let is_quoted = name.starts_with(['"', '\'']);
        let name = match DeValue::parse(name).map(toml::Spanned::into_inner) {
            Ok(DeValue::String(text)) if is_quoted => text.into_owned(),
            _ if is_quoted => return Err(Diagnostic::new(span, format!("{name} is not a name in quotes"))),
            _ => name.to_owned(),
        };
        steps.push((name, span));
        start = end + 1;
    }
    Ok(steps)
}

/// Paths that an assignment sets: one, or with a `*` in the name of the stage one for each stage of that kind.
///
/// # Errors
/// No stage matches: overrides do not add stages.
fn matching_paths(
    root: &TomlNode,
    steps: Vec<Step>,
    settings: &SettingPaths<'_>,
) -> Result<Vec<Vec<Step>>, Diagnostic> {
    let ([(first, _), (name, name_at), rest @ ..], Some(stages)) = (steps.as_slice(), root.get("stage")) else {
        return Ok(vec![steps]);
    };
    if first != "stage" {
        return Ok(vec![steps]);
    }
    let stages = &stages.node;
    if !name.contains('*') {
        return match unknown_stage_or_kind(stages, &steps, settings) {
            Some(diagnostic) => Err(diagnostic),
            None => Ok(vec![steps]),
        };
    }
    let kinds: Vec<&str> = stages.entries().iter().flat_map(|stage| keys(&stage.node)).collect();
    let Some((kind, kind_at)) = rest.first().filter(|(kind, _)| !kind.contains('*')) else {
        let diagnostic = Diagnostic::new(*name_at, "`*` stands for stages of one kind, and none is named");
        let example = kinds.first().copied().unwrap_or("train");
        return Err(diagnostic.hint(format!("name the kind: `stage.{name}.{example}.…`")));
    };
    if !kinds.contains(&kind.as_str()) {
        let unique: BTreeSet<&str> = kinds.into_iter().collect();
        let message = format!("the file has no stage of kind `{kind}`");
        return Err(Diagnostic::new(*kind_at, message).with_valid_names(kind, unique));
    }
    let kind_stages = stages.entries().iter().filter(|stage| stage.node.get(kind).is_some());
    let names: Vec<&str> = kind_stages.map(|stage| stage.key.as_str()).collect();
    let matching: Vec<&str> = names.iter().copied().filter(|candidate| matches_glob(name, candidate)).collect();
    if matching.is_empty() {
        let message = format!("no stage of kind `{kind}` matches `{name}`");
        return Err(Diagnostic::new(*name_at, message).note(format!("there are {}", quoted_list(names))));
    }
    let path = |stage: &str| {
        let mut steps = steps.clone();
        stage.clone_into(&mut steps[1].0);
        steps
    };
    Ok(matching.into_iter().map(path).collect())
}

/// Diagnostic of an assignment to a stage or kind that the file does not have: overrides do not add stages.
fn unknown_stage_or_kind(stages: &TomlNode, steps: &[Step], settings: &SettingPaths<'_>) -> Option<Diagnostic> {
    let [_, (stage, stage_at), rest @ ..] = steps else { return None };
    let Some(entry) = stages.get(stage) else {
        let diagnostic = Diagnostic::new(*stage_at, format!("the file has no stage `{stage}`"));
        return Some(diagnostic.with_valid_names(stage, keys(stages)));
    };
    let (kind, kind_at) = rest.first()?;
    let kinds = keys(&entry.node);
    (!kinds.is_empty() && !kinds.contains(&kind.as_str())).then(|| {
        let message = format!("stage `{stage}` has no kind `{kind}` in the file");
        let diagnostic = Diagnostic::new(*kind_at, message).with_valid_names(kind, kinds.iter().copied());
        let words: Vec<&str> = steps.iter().map(|(word, _)| word.as_str()).collect();
        let path = if diagnostic.problem.hint.is_none() { settings.hint(stages, &words) } else { None };
        match (path, kinds.as_slice()) {
            (Some(path), _) => diagnostic.hint(path),
            (None, [only]) => diagnostic.hint(format!("write `stage.{stage}.{only}.…`")),
            (None, _) => diagnostic,
        }
    })
}

fn keys(node: &TomlNode) -> Vec<&str> {
    match &node.value {
        TomlValue::Table(entries) => entries.iter().map(|entry| entry.key.as_str()).collect(),
        _ => Vec::new(),
    }
}

/// Sets the value at the path `steps`, creating missing tables on the way.
pub(super) fn set_value(node: &mut TomlNode, steps: &[Step], value: TomlNode) {
    let Some(((step, span), rest)) = steps.split_first() else {
        *node = value;
        return;
    };
    if let TomlValue::Array(items) = &mut node.value
        && let Some(item) = step.parse::<usize>().ok().and_then(|i| items.get_mut(i))
    {
        set_value(item, rest, value);
        return;
    }
    if !matches!(node.value, TomlValue::Table(_)) {
        *node = TomlNode::empty(*span);
    }
    let TomlValue::Table(entries) = &mut node.value else { return };
    let i = entries.iter().position(|entry| entry.key == *step).unwrap_or_else(|| {
        entries.push(TomlEntry { key: step.clone(), key_span: *span, node: TomlNode::empty(*span) });
        entries.len() - 1
    });
    set_value(&mut entries[i].node, rest, value);
}
