//! Check of the stages of a file, one by one: names, kinds and settings.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::alternative::Alternative;
use super::connect::ParsedStage;
use super::diagnostic::Diagnostic;
use super::file_format::STAGE_NAME;
use super::matrix::StageInstance;
use super::schema_check::{SchemaChecker, ValueLabel, matches_pattern};
use super::toml_tree::{TomlEntry, TomlValue};
use pairloom_base::suggest::quoted_list;
use pairloom_stage::Stage;

/// Schemas of SQL that are no stages, so not allowed as names of stages.
const RESERVED_STAGE_NAMES: [&str; 4] = ["store", "all_runs", "files", "information_schema"];

/// Stage that can be read from a pipeline file: a type whose JSON Schema has one alternative for each kind of stage.
pub trait PipelineStage: Stage + Clone + DeserializeOwned + JsonSchema + 'static {}

impl<S: Stage + Clone + DeserializeOwned + JsonSchema + 'static> PipelineStage for S {}

/// Reports names of stages that SQL cannot distinguish from others.
pub(super) fn check_stage_names(checker: &mut SchemaChecker<'_>, entries: &[TomlEntry]) {
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

/// Checks an instance of a stage, and reads its settings.
pub(super) fn check_stage<S: PipelineStage>(
    checker: &mut SchemaChecker<'_>,
    instance: StageInstance,
) -> ParsedStage<S> {
    let StageInstance { mut entry, stage: base, coordinates } = instance;
    let first = checker.references.len();
    checker.stage.clone_from(&base);
    let name = format!("stage `{base}`");
    if !matches_pattern(STAGE_NAME, &base) {
        let message = format!("{base:?} is not a valid stage name, wanted letters, digits, `-` and `_`");
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
        let message = format!("{name} has no kind `{}`", only.key);
        let names = kinds.iter().map(|kind| kind.name);
        let diagnostic = Diagnostic::new(only.key_span, message).with_valid_names(&only.key, names);
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
            Diagnostic::new(entry.key_span, format!("{name} has no kind, wanted a table `[stage.{base}.KIND]`"));
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
