//! Stages of a file, expanded over its matrix and checked.

use super::alternative::Alternative;
use super::connect::ParsedStage;
use super::diagnostic::Diagnostic;
use super::matrix::{Combinations, Condition, Covered, EXCEPT, Expansion, Matrix, ONLY, Profiles};
use super::overrides::SettingAssignment;
use super::profile_check::check_other_profiles;
use super::schema_check::SchemaChecker;
use super::stage_check::{PipelineStage, check_stage, check_stage_names, stage_schema};
use super::toml_tree::{TomlEntry, TomlNode, TomlValue};
use pairloom_base::suggest::{closest_name, quoted_list};

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
            let message = format!("`stage` is {}, wanted tables `[stage.NAME.KIND]`", node.describe());
            checker.diagnostics.push(Diagnostic::new(node.span, message));
        }
        // A mistyped `stage` is reported with the other unknown keys.
        None if root.entries().iter().any(|entry| closest_name(&entry.key, ["stage"]).is_some()) => {}
        _ => {
            let diagnostic = Diagnostic::new(root.span, "the file has no stage, wanted tables `[stage.NAME.KIND]`");
            checker.diagnostics.push(diagnostic.note(format!(
                "kinds: {}",
                quoted_list(Alternative::all(stage_schema::<S>(checker)).iter().map(|kind| kind.name))
            )));
        }
    }
    None
}
