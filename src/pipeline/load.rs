//! Loading a pipeline file: reads and checks it, and connects its stages.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use az::SaturatingAs;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use toml::de::DeTable;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::file_format::{Expectation, STAGE_NAME, resolve, schema};
use super::overrides;
use super::schema_check::{Alternative, SchemaChecker, ValueLabel, matches_pattern};
use super::source_map::{SourceMap, SourceSpan};
use super::sources::SourceVariables;
use super::toml_tree::{TomlEntry, TomlNode, TomlValue};
use crate::error::Error;
use crate::plan::{Plan, PlanNode};
use crate::stage::{Problem, Stage};
use crate::suggest::quoted_list;

/// Maximum size of a pipeline file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// SQL schema of the store's own tables, so not allowed as the name of a stage.
const RESERVED_STAGE_NAME: &str = "store";

/// Pipeline that can be run.
#[derive(Debug)]
pub struct Pipeline<S> {
    /// Path of the pipeline file.
    pub path: PathBuf,
    /// Seed of stages that set none of their own.
    pub seed: u64,
    /// Named stages, producers before consumers.
    pub plan: Plan<S>,
    /// Conditions that the results must satisfy.
    pub expectations: Vec<Expectation>,
}

/// Stage that can be read from a pipeline file: a type whose JSON Schema has one alternative for each kind of stage.
pub trait PipelineStage: Stage + Clone + DeserializeOwned + JsonSchema {}

impl<S: Stage + Clone + DeserializeOwned + JsonSchema> PipelineStage for S {}

/// Options of [`load`].
pub struct LoadOptions<'a, S> {
    /// Overrides from the command line: `stage.fit.train.epochs=3`.
    pub overrides: &'a [String],
    /// Lookup of environment variables.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// True if source files and folders of stages must exist.
    pub sources_must_exist: bool,
    /// Checks the queries of expectations against the tables of the plan. Returns index and error of each wrong one.
    pub check_queries: &'a CheckQueries<S>,
}

/// Type of [`LoadOptions::check_queries`].
pub type CheckQueries<S> = dyn Fn(&Plan<S>, &[Expectation]) -> Vec<(usize, Error)>;

/// Loads a pipeline file: reads it, applies overrides, checks it, and connects its stages.
///
/// # Errors
/// All mistakes of the file and of the overrides.
pub fn load<S: PipelineStage>(path: &Path, options: &LoadOptions<'_, S>) -> Result<Pipeline<S>, Diagnostics> {
    let name = path.display().to_string();
    let arguments = options.overrides.iter().map(|assignment| overrides::argument_text(assignment));
    let mut source_map = SourceMap { name, sources: std::iter::once(String::new()).chain(arguments).collect() };
    match read_text(path) {
        Ok(text) => source_map.sources[0] = text,
        Err((text, diagnostic)) => {
            source_map.sources[0] = text;
            return Err(Diagnostics::new(source_map, vec![diagnostic]));
        }
    }
    parse(path, &source_map, options).map_err(|diagnostics| Diagnostics::new(source_map, diagnostics))
}

/// Reads the text of the file. On failure returns the text that could be read and a diagnostic.
fn read_text(path: &Path) -> Result<String, (String, Diagnostic)> {
    let diagnostic = |message: String| (String::new(), Diagnostic::new(SourceSpan::default(), message));
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| diagnostic(format!("cannot read the pipeline file: {error}")))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(diagnostic(format!(
            "the file has more than {MAX_FILE_BYTES} bytes, the maximum size of a pipeline file"
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let text = String::from_utf8_lossy(bytes).into_owned();
        let message = format!("the byte 0x{:02x} is not UTF-8", bytes.get(good).copied().unwrap_or_default());
        let diagnostic = Diagnostic::new(SourceSpan::in_file(good..good + '\u{fffd}'.len_utf8()), message);
        (text, diagnostic.hint("save the file as UTF-8"))
    })
}

fn parse<S: PipelineStage>(
    path: &Path,
    source_map: &SourceMap,
    options: &LoadOptions<'_, S>,
) -> Result<Pipeline<S>, Vec<Diagnostic>> {
    let (table, errors) = DeTable::parse_recoverable(&source_map.sources[0]);
    if !errors.is_empty() {
        let diagnostic = |error: &toml::de::Error| {
            let span = SourceSpan::in_file(error.span().unwrap_or_default());
            Diagnostic::new(span, format!("not TOML: {}", error.message().replace('\n', ", ")))
        };
        return Err(errors.iter().map(diagnostic).collect());
    }
    let mut root = TomlNode::from_table(SourceSpan::default(), table.get_ref(), &SourceSpan::in_file);
    let mut diagnostics = Vec::new();
    for (i, assignment) in options.overrides.iter().enumerate() {
        overrides::apply(&mut root, assignment, i + 1, &mut diagnostics);
    }
    let schema = schema::<S>();
    let mut checker = SchemaChecker {
        definitions: &schema["$defs"],
        source_map,
        folder: path.parent().unwrap_or(Path::new("")),
        environment: options.environment,
        sources_needed: options.sources_must_exist,
        seed: None,
        stage: String::new(),
        variables: SourceVariables::default(),
        references: Vec::new(),
        dropped: Vec::new(),
        diagnostics,
    };
    let seed = check_seed(&mut checker, &mut root, &schema);
    let stages = check_stages::<S>(&mut checker, &mut root);
    let (expectations, queries) = check_expectations(&mut checker, &mut root, &schema);
    check_top_level_keys(&mut checker, &root, &schema);
    let SchemaChecker { references, mut diagnostics, variables, .. } = checker;
    if options.sources_must_exist {
        diagnostics.extend(variables.unset_diagnostic(&path.display().to_string()));
    }
    let plan = connect_stages(stages, references, &mut diagnostics);
    if let Some(plan) = &plan {
        for (i, error) in (options.check_queries)(plan, &expectations) {
            let span = queries.get(i).copied().unwrap_or_default();
            let hint = error.hint_text().map(str::to_owned);
            diagnostics.push(Diagnostic { span, message: error.to_string(), note: None, hint });
        }
    }
    match plan {
        Some(plan) if diagnostics.is_empty() => Ok(Pipeline { path: path.to_owned(), seed, plan, expectations }),
        _ => Err(diagnostics),
    }
}

/// Checks the seed of the pipeline, by default 0, and makes it the default seed of stages.
fn check_seed(checker: &mut SchemaChecker<'_>, root: &mut TomlNode, schema: &Json) -> u64 {
    let mut seed =
        root.get("seed").map_or(TomlNode { span: root.span, value: TomlValue::Integer(0) }, |entry| entry.node.clone());
    let before = checker.diagnostics.len();
    let subject = ValueLabel::new("`seed`", seed.span);
    checker.check(&mut seed, &schema["properties"]["seed"], &subject);
    if checker.diagnostics.len() > before {
        seed.value = TomlValue::Integer(0);
    }
    let number = if let TomlValue::Integer(number) = seed.value { number.saturating_as::<u64>() } else { 0 };
    checker.seed = Some(seed);
    number
}

/// Reports unknown keys at the top level of the file.
fn check_top_level_keys(checker: &mut SchemaChecker<'_>, root: &TomlNode, schema: &Json) {
    let names =
        || schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys().map(String::as_str));
    for entry in root.entries() {
        if !names().any(|name| name == entry.key) {
            let message = format!("a pipeline file has no `{}`", entry.key);
            let names: Vec<&str> = names().collect();
            checker.diagnostics.push(Diagnostic::new(entry.key_span, message).with_valid_names(&entry.key, names));
        }
    }
}

/// Stage of the file: its settings as a tree, and as a Rust value if they are valid.
struct ParsedStage<S> {
    name: String,
    span: SourceSpan,
    /// Table of the settings, below the kind.
    settings: Option<TomlNode>,
    stage: Option<S>,
    /// Range of the checker's references that belong to this stage.
    references: std::ops::Range<usize>,
    /// Names of settings that were dropped because they are wrong.
    dropped: Vec<String>,
}

fn check_stages<S: PipelineStage>(checker: &mut SchemaChecker<'_>, root: &mut TomlNode) -> Vec<ParsedStage<S>> {
    let whole = root.span;
    let stages = root.get_mut("stage");
    let entries = match stages.map(|entry| (entry.key_span, &mut entry.node)) {
        Some((_, TomlNode { value: TomlValue::Table(entries), .. })) if !entries.is_empty() => entries,
        Some((_, node)) if !matches!(node.value, TomlValue::Table(_)) => {
            let message = format!("`stage` is {}, wanted tables `[stage.NAME.KIND]`", node.describe());
            checker.diagnostics.push(Diagnostic::new(node.span, message));
            return Vec::new();
        }
        _ => {
            let diagnostic = Diagnostic::new(whole, "the file has no stage, wanted tables `[stage.NAME.KIND]`");
            checker.diagnostics.push(diagnostic.note(format!(
                "kinds: {}",
                quoted_list(Alternative::all(stage_schema::<S>(checker)).iter().map(|kind| kind.name))
            )));
            return Vec::new();
        }
    };
    check_stage_names(checker, entries);
    entries.iter_mut().map(|entry| check_stage(checker, entry)).collect()
}

/// Reports names of stages that SQL cannot distinguish from others.
fn check_stage_names(checker: &mut SchemaChecker<'_>, entries: &[TomlEntry]) {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for entry in entries {
        let lower = entry.key.to_ascii_lowercase();
        if lower == RESERVED_STAGE_NAME {
            let message = format!("a stage cannot be called `{}`: SQL knows the store itself by that name", entry.key);
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
fn stage_schema<'s, S: PipelineStage>(checker: &SchemaChecker<'s>) -> &'s Json {
    &checker.definitions[S::schema_name().as_ref()]
}

fn check_stage<S: PipelineStage>(checker: &mut SchemaChecker<'_>, entry: &mut TomlEntry) -> ParsedStage<S> {
    let first = checker.references.len();
    checker.stage.clone_from(&entry.key);
    let name = format!("stage `{}`", entry.key);
    if !matches_pattern(STAGE_NAME, &entry.key) {
        let message = format!("{:?} is not a valid stage name, wanted letters, digits, `-` and `_`", entry.key);
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
    if kindless {
        let diagnostic =
            Diagnostic::new(entry.key_span, format!("{name} has no kind, wanted a table `[stage.{}.KIND]`", entry.key));
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
        span: entry.key_span,
        settings: entry.node.entries().first().map(|kind| kind.node.clone()),
        stage,
        references: first..checker.references.len(),
        dropped: std::mem::take(&mut checker.dropped),
    }
}

/// Checks the `[[expect]]` tables. Returns the valid expectations and the spans of their queries.
fn check_expectations(
    checker: &mut SchemaChecker<'_>,
    root: &mut TomlNode,
    schema: &Json,
) -> (Vec<Expectation>, Vec<SourceSpan>) {
    let Some(entry) = root.get_mut("expect") else { return Default::default() };
    // Only stages have a default seed.
    checker.seed = None;
    let TomlValue::Array(items) = &mut entry.node.value else {
        let message = format!("`expect` is {}, wanted tables `[[expect]]`", entry.node.describe());
        checker.diagnostics.push(Diagnostic::new(entry.node.span, message));
        return Default::default();
    };
    let schema = resolve(checker.definitions, &schema["properties"]["expect"]["items"]);
    let (mut expectations, mut queries) = (Vec::new(), Vec::new());
    for item in items {
        let before = checker.diagnostics.len();
        let span = item.span;
        checker.check(item, schema, &ValueLabel::new("`[[expect]]`", span));
        if checker.diagnostics.len() > before {
            continue;
        }
        match Expectation::deserialize(item.to_toml()) {
            Ok(expectation) if expectation.wanted().is_empty() => {
                let diagnostic = Diagnostic::new(span, "`[[expect]]` bounds nothing");
                checker.diagnostics.push(diagnostic.hint("add `at_least`, `at_most` or `equals`"));
            }
            Ok(expectation) => {
                let line = checker.source_map.position(span).line;
                queries.push(item.span_of("sql", span));
                expectations.push(Expectation { line, ..expectation });
            }
            Err(error) => checker.diagnostics.push(Diagnostic::new(span, error.message())),
        }
    }
    (expectations, queries)
}

/// Connects the stages that could be read, and checks the references of the others. Returns a plan if all stages could
/// be read and connected.
fn connect_stages<S: PipelineStage>(
    parsed_stages: Vec<ParsedStage<S>>,
    references: Vec<(String, SourceSpan)>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Plan<S>> {
    let nodes = parsed_stages
        .iter()
        .filter_map(|parsed| Some(PlanNode { name: parsed.name.clone(), stage: parsed.stage.clone()? }));
    let found = match Plan::new(nodes.collect()) {
        Ok(plan) if parsed_stages.iter().all(|parsed| parsed.stage.is_some()) => return Some(plan),
        Ok(_) => Vec::new(),
        Err(found) => found,
    };
    for stage_problem in found {
        let Some(parsed) = parsed_stages.iter().find(|parsed| parsed.name == stage_problem.stage) else { continue };
        if stage_problem.problem.setting.split('.').any(|part| parsed.dropped.iter().any(|dropped| dropped == part)) {
            continue;
        }
        let span = parsed
            .settings
            .as_ref()
            .map_or(parsed.span, |settings| settings.span_of(&stage_problem.problem.setting, parsed.span));
        // A reference to a stage that could not be read is no mistake of its own.
        let unread = references[parsed.references.clone()]
            .iter()
            .any(|(reference, at)| *at == span && refers_to_unreadable(&parsed_stages, reference));
        if !unread {
            let Problem { setting, message, hint } = stage_problem.problem;
            diagnostics.push(Diagnostic { span, message: with_setting_name(&setting, message), note: None, hint });
        }
    }
    for parsed in parsed_stages.iter().filter(|parsed| parsed.stage.is_none()) {
        diagnostics.extend(
            references[parsed.references.clone()]
                .iter()
                .filter_map(|(reference, span)| dangling_reference(&parsed_stages, reference, *span)),
        );
    }
    None
}

/// Prefixes a message with the setting that it is about, unless it names it.
fn with_setting_name(setting: &str, message: String) -> String {
    let mut parts = setting.rsplit('.');
    let last = parts.next().unwrap_or(setting);
    let name = match (last.parse::<usize>(), parts.next()) {
        (Ok(item), Some(list)) => format!("item {} of `{list}`", item + 1),
        _ => format!("`{last}`"),
    };
    if setting.is_empty() || message.contains(&name) { message } else { format!("{name}: {message}") }
}

/// Returns true if `reference` names a stage that could not be read.
fn refers_to_unreadable<S>(parsed_stages: &[ParsedStage<S>], reference: &str) -> bool {
    let stage = reference.split('.').next();
    parsed_stages.iter().any(|parsed| stage == Some(parsed.name.as_str()) && parsed.stage.is_none())
}

/// Diagnostic of a reference to an unknown stage or table.
fn dangling_reference<S: Stage>(
    parsed_stages: &[ParsedStage<S>],
    reference: &str,
    span: SourceSpan,
) -> Option<Diagnostic> {
    let (stage, table) = reference.split_once('.')?;
    let Some(parsed) = parsed_stages.iter().find(|parsed| parsed.name == stage) else {
        let names: Vec<&str> = parsed_stages.iter().map(|parsed| parsed.name.as_str()).collect();
        return Some(
            Diagnostic::new(span, format!("`{reference}`: no stage is called `{stage}`"))
                .with_valid_names(stage, names),
        );
    };
    let outputs = parsed.stage.as_ref()?.outputs();
    let names: Vec<&str> = outputs.iter().map(|output| output.name).collect();
    (!names.contains(&table)).then(|| {
        Diagnostic::new(span, format!("`{reference}`: stage `{stage}` writes no `{table}`"))
            .with_valid_names(table, names)
    })
}
