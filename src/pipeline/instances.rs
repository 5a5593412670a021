//! Stages of a file, expanded over its matrix and checked one by one: names, kinds and settings, also with the profiles that
//! the command line does not choose.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::connect::{ParsedStage, connect_stages};
use super::diagnostic::Diagnostic;
use super::file_format::{Alternative, STAGE_NAME};
use super::matrix::{
    Combinations, Condition, Covered, EXCEPT, Expansion, Matrix, ONLY, Profile, Profiles, StageInstance,
};
use super::overrides::SettingAssignment;
use super::schema_check::{SchemaChecker, ValueLabel, matches_pattern};
use super::sources::SourceVariables;
use super::toml_tree::{TomlEntry, TomlNode, TomlValue};
use pairloom_base::suggest::{closest_name, name_distance, quoted_list};
use pairloom_stage::{INSTANCE_SIGN, Problem, Stage, is_instance_character};

/// Arguments of the command line about the matrix and the profiles.
pub(super) struct InstanceArguments<'a> {
    pub(super) profile: Option<&'a str>,
    pub(super) only: &'a [String],
    pub(super) except: &'a [String],
    pub(super) assignments: &'a [SettingAssignment],
}

/// Checks the stages of the file and the profiles that are not chosen. Returns the instances of all stages, and false
/// beside them if the matrix or a name of the chosen profile is wrong: the instances then cover all values, once.
pub(super) fn check_stages<S: PipelineStage>(
    checker: &mut SchemaChecker<'_>,
    root: &TomlNode,
    arguments: &InstanceArguments<'_>,
) -> (Vec<ParsedStage<S>>, bool) {
    let Some(entries) = stage_entries::<S>(checker, root) else { return Default::default() };
    check_stage_names(checker, entries);
    let kinds = Alternative::all(stage_schema::<S>(checker));
    let mut found = Vec::new();
    let matrix = root.get("matrix").map(|entry| Matrix::read(entry, &mut found)).unwrap_or_default();
    let profiles = Profiles::read(root.get("profile"), &mut found);
    let profile = profiles.chosen(arguments.profile, &mut found);
    let mut conditions = |option: &str, arguments: &[String]| -> Vec<Vec<Condition>> {
        let read = arguments.iter().map(|argument| matrix.conditions(option, argument));
        read.filter_map(|read| read.map_err(|diagnostic| found.push(*diagnostic)).ok()).collect()
    };
    let (only, except) = (conditions(ONLY, arguments.only), conditions(EXCEPT, arguments.except));
    let all = Combinations::of(&matrix, &mut found);
    let is_partial = !arguments.only.is_empty() || !arguments.except.is_empty();
    let combinations = if is_partial { all.chosen(&only, &except, &mut found) } else { all.clone() };
    let expansion = Expansion {
        stages: entries,
        matrix: &matrix,
        profile: &profile,
        kinds: &kinds,
        definitions: checker.definitions,
        assignments: arguments.assignments,
    };
    expansion.check_instances_of_profile(&all, &mut found);
    expansion.check_axes(&mut found);
    let is_right = |found: &[Diagnostic]| found.iter().all(Diagnostic::is_warning);
    let mut instances = Vec::new();
    if is_right(&found) {
        instances = expansion.expand(&combinations, &mut found);
        if is_right(&found) {
            let places = instances.iter().map(|of| (&of.entry.node, of.stage.as_str(), of.coordinates.as_slice()));
            arguments.assignments.iter().for_each(|assignment| assignment.check_instances(places.clone(), &mut found));
        }
    }
    let is_expanded = is_right(&found);
    if !is_expanded {
        let covering = all.covering(&matrix, Covered::AllAxes, &expansion.instances_of_profile());
        instances = expansion.expand(&covering, &mut found);
    }
    // Settings of unknown stages change no instance, so they hide no mistake of the others.
    expansion.check_stages_of_values(&mut found);
    expansion.check_stages_of_profile(&mut found);
    checker.diagnostics.extend(found);
    let stages = instances.into_iter().map(|instance| check_stage(checker, instance)).collect();
    let others = profiles.others(arguments.profile);
    checker.diagnostics.extend(check_other_profiles::<S>(checker, &expansion, others, &all));
    (stages, is_expanded)
}

/// Entries of `stage`; `None` if it is missing or wrong.
fn stage_entries<'r, S: PipelineStage>(checker: &mut SchemaChecker<'_>, root: &'r TomlNode) -> Option<&'r [TomlEntry]> {
    match root.get("stage").map(|entry| &entry.node) {
        Some(TomlNode { value: TomlValue::Table(entries), .. }) if !entries.is_empty() => return Some(entries),
        Some(node) if !matches!(node.value, TomlValue::Table(_)) => {
            let message = format!("`stage` is {}, expected tables `[stage.NAME.KIND]`", node.describe());
            checker.diagnostics.push(Diagnostic::new(node.span, message));
        }
        // A mistyped `stage` is reported with the other unknown keys.
        None if root.entries().iter().any(|entry| closest_name(&entry.key, ["stage"]).is_some()) => {}
        _ => {
            let diagnostic = Diagnostic::new(root.span, "the file has no stage, expected tables `[stage.NAME.KIND]`");
            checker.diagnostics.push(diagnostic.note(format!(
                "kinds: {}",
                quoted_list(Alternative::all(stage_schema::<S>(checker)).iter().map(|kind| kind.name))
            )));
        }
    }
    None
}

/// Schemas of SQL that are no stages, so not allowed as names of stages.
const RESERVED_STAGE_NAMES: [&str; 4] = ["store", "all_runs", "files", "information_schema"];

/// Stage that can be read from a pipeline file: a type whose JSON Schema has one alternative for each kind of stage.
pub trait PipelineStage: Stage + Clone + DeserializeOwned + JsonSchema + 'static {}

impl<S: Stage + Clone + DeserializeOwned + JsonSchema + 'static> PipelineStage for S {}

/// Reports names of stages that SQL cannot distinguish from others.
fn check_stage_names(checker: &mut SchemaChecker<'_>, entries: &[TomlEntry]) {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for entry in entries {
        let lower = entry.key.to_ascii_lowercase();
        if RESERVED_STAGE_NAMES.contains(&lower.as_str()) {
            let message =
                format!("a stage cannot be called `{}`: SQL has tables of its own under that name", entry.key);
            checker.diagnostics.push(Diagnostic::new(entry.key_span, message));
        }
        match seen.entry(lower) {
            Slot::Occupied(other) => {
                let message = format!("stages `{}` and `{}` differ in letter case alone", other.get(), entry.key);
                let diagnostic = Diagnostic::new(entry.key_span, message);
                checker.diagnostics.push(diagnostic.hint("SQL does not tell them apart: give one another name"));
            }
            Slot::Vacant(slot) => {
                slot.insert(&entry.key);
            }
        }
    }
}

/// Schema of a stage, with one alternative for each kind.
pub(super) fn stage_schema<'s, S: PipelineStage>(checker: &SchemaChecker<'s>) -> &'s Json {
    &checker.definitions[S::schema_name().as_ref()]
}

fn unknown_kind(stage: &str, got: &TomlEntry, kinds: &[Alternative<'_>]) -> Diagnostic {
    let message = format!("stage `{stage}` has no kind `{}`", got.key);
    Diagnostic::new(got.key_span, message).with_valid_names(&got.key, kinds.iter().map(|kind| kind.name))
}

/// Largest distance of a misspelt kind from the one that is meant. More could be another kind.
const MAX_KIND_DISTANCE: usize = 2;

/// Reports misspelt kinds and writes the ones that are meant, so that the mistakes of their settings are found too, and
/// nothing is reported that follows from the misspelling alone.
pub(super) fn correct_kinds(root: &mut TomlNode, kinds: &[Alternative<'_>], diagnostics: &mut Vec<Diagnostic>) {
    let Some(TomlEntry { node: TomlNode { value: TomlValue::Table(stages), .. }, .. }) = root.get_mut("stage") else {
        return;
    };
    for TomlEntry { key: stage, node, .. } in stages {
        let TomlValue::Table(members) = &mut node.value else { continue };
        let [only] = members.as_mut_slice() else { continue };
        let is_known = kinds.iter().any(|kind| kind.name == only.key || kind.name == *stage);
        let is_kind = matches!(only.node.value, TomlValue::Table(_))
            && kinds.iter().all(|kind| only.node.get(kind.name).is_none());
        let meant = closest_name(&only.key, kinds.iter().map(|kind| kind.name)).filter(|meant| {
            name_distance(&only.key.to_lowercase(), meant).is_some_and(|distance| distance <= MAX_KIND_DISTANCE)
        });
        if let Some(meant) = meant.filter(|_| is_kind && !is_known) {
            diagnostics.push(unknown_kind(stage, only, kinds));
            meant.clone_into(&mut only.key);
        }
    }
}

/// Checks an instance of a stage, and reads its settings.
fn check_stage<S: PipelineStage>(checker: &mut SchemaChecker<'_>, instance: StageInstance) -> ParsedStage<S> {
    let StageInstance { mut entry, stage: base, coordinates } = instance;
    let first = checker.references.len();
    checker.stage.clone_from(&base);
    let name = format!("stage `{base}`");
    if !matches_pattern(STAGE_NAME, &base) {
        let message = format!("{base:?} is not a valid stage name, expected letters, digits, `-` and `_`");
        checker.diagnostics.push(Diagnostic::new(entry.key_span, message));
    }
    let kinds = Alternative::all(stage_schema::<S>(checker));
    let known = |entry: &TomlEntry| kinds.iter().any(|kind| kind.name == entry.key);
    let members = entry.node.entries();
    // Settings directly below the name: the kind is missing.
    let kindless = match members {
        [] => true,
        [only] => !known(only) && !matches!(only.node.value, TomlValue::Table(_)),
        several => !several.iter().any(known),
    };
    let before = checker.diagnostics.len();
    if let [only] = members
        && !kindless
        && !known(only)
    {
        let diagnostic = unknown_kind(&base, only, &kinds);
        // A dot in the name of a stage, or the kind before the name.
        let inner = kinds.iter().find(|kind| only.node.get(kind.name).is_some());
        checker.diagnostics.push(match inner {
            Some(inner) => {
                diagnostic.hint(format!("a name has no dot: write `[stage.{base}-{}.{}]`", only.key, inner.name))
            }
            None if kinds.iter().any(|kind| kind.name == base) => {
                diagnostic.hint(format!("the name is first: write `[stage.{}.{base}]`", only.key))
            }
            None => diagnostic,
        });
    } else if let (Some(kind), Some(stray)) =
        (members.iter().find(|member| known(member)), members.iter().find(|member| !known(member)))
    {
        let message = format!("`{}` is beside the kind `{}` of {name}", stray.key, kind.key);
        let hint = format!("settings belong below `[stage.{base}.{}]`", kind.key);
        checker.diagnostics.push(Diagnostic::new(stray.key_span, message).hint(hint));
    } else if kindless {
        let diagnostic =
            Diagnostic::new(entry.key_span, format!("{name} has no kind, expected a table `[stage.{base}.KIND]`"));
        checker
            .diagnostics
            .push(diagnostic.note(format!("kinds: {}", quoted_list(kinds.iter().map(|kind| kind.name)))));
    } else {
        checker.check_choice(&mut entry.node, &kinds, &ValueLabel::new(name.clone(), entry.key_span));
    }
    let stage = match S::deserialize(entry.node.to_toml()) {
        Ok(stage) => Some(stage),
        Err(error) => {
            // A mistake that the schema cannot express.
            if checker.diagnostics.len() == before {
                checker.diagnostics.push(Diagnostic::new(entry.key_span, format!("{name}: {}", error.message())));
            }
            None
        }
    };
    ParsedStage {
        name: entry.key.clone(),
        base,
        coordinates,
        span: entry.key_span,
        other_name: entry.node.entries().first().map(|kind| kind.key.clone()),
        settings: entry.node.entries().first().map(|kind| kind.node.clone()),
        stage,
        references: first..checker.references.len(),
        dropped: std::mem::take(&mut checker.dropped),
    }
}

/// Mistakes in profiles that are not chosen, as far as they stand in the profile itself.
///
/// A profile is used with instances that cover all rows of the matrix and all instances that it names. `expansion` is
/// that of the file, and `all` has the combinations of its matrix.
fn check_other_profiles<'p, S: PipelineStage>(
    checker: &SchemaChecker<'_>,
    expansion: &Expansion<'_>,
    profiles: impl Iterator<Item = &'p Profile>,
    all: &Combinations,
) -> Vec<Diagnostic> {
    let in_profile = |profile: &Profile| {
        let expansion = Expansion { profile, assignments: &[], ..*expansion };
        let mut found = Vec::new();
        expansion.check_stages_of_profile(&mut found);
        expansion.check_instances_of_profile(all, &mut found);
        let covering = all.covering(expansion.matrix, Covered::NamedRows, &expansion.instances_of_profile());
        let instances = expansion.expand(&covering, &mut found);
        let mut own = SchemaChecker {
            sources_needed: false,
            seed: checker.seed.clone(),
            stage: String::new(),
            variables: SourceVariables::default(),
            references: Vec::new(),
            dropped: Vec::new(),
            diagnostics: found,
            ..*checker
        };
        let stages: Vec<_> = instances.into_iter().map(|instance| check_stage::<S>(&mut own, instance)).collect();
        let SchemaChecker { references, mut diagnostics, .. } = own;
        connect_stages(&stages, checker.source_map, &references, &[], &mut diagnostics);
        let spans = profile.spans();
        diagnostics.retain(|diagnostic| !diagnostic.is_warning() && spans.contains(&diagnostic.span));
        without_coordinates(diagnostics, &stages)
    };
    profiles.flat_map(in_profile).collect()
}

/// Diagnostics that name stages without coordinates, since a mistake in the file is one of all instances. Equal ones are
/// left out.
pub(super) fn without_coordinates<S>(diagnostics: Vec<Diagnostic>, stages: &[ParsedStage<S>]) -> Vec<Diagnostic> {
    let instances = stages.iter().filter(|parsed| parsed.name != parsed.base);
    let instances: HashMap<&str, &str> = instances.map(|parsed| (parsed.name.as_str(), parsed.base.as_str())).collect();
    // A name may be followed by that of a table: `fit@seed=1.model`.
    let stage_of = |word: &str| {
        let own = instances.get(word).map(|stage| (*stage).to_owned());
        own.or_else(|| {
            let (name, table) = word.rsplit_once('.')?;
            Some(format!("{}.{table}", instances.get(name)?))
        })
    };
    let plain = |text: String| -> String {
        if !text.contains(INSTANCE_SIGN) {
            return text;
        }
        let words = text.split_inclusive(|c| !is_instance_character(c)).flat_map(|part| {
            match part.char_indices().next_back() {
                Some((at, last)) if !is_instance_character(last) => [&part[..at], &part[at..]],
                _ => [part, ""],
            }
        });
        words.map(|word| stage_of(word).unwrap_or_else(|| word.to_owned())).collect()
    };
    let mut seen = BTreeSet::new();
    let diagnostics = diagnostics.into_iter().map(|Diagnostic { span, problem, note }| {
        let (message, hint) = (plain(problem.message), problem.hint.map(plain));
        Diagnostic { span, problem: Problem { message, hint, ..problem }, note: note.map(plain) }
    });
    diagnostics.filter(|found| seen.insert((found.span, found.problem.message.clone()))).collect()
}
