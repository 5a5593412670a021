//! From a pipeline file to stages that fit together.

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

use super::check::{Alternative, Checker, Subject, matches};
use super::fault::{Fault, Faults};
use super::form::{Expectation, STAGE_NAME, resolve, schema};
use super::overrides;
use super::place::{Place, Texts};
use super::tree::{Entry, Node, Value};
use crate::error::Error;
use crate::plan::{Node as PlanNode, Plan};
use crate::stage::{Problem, Stage};
use crate::suggest::quoted;

/// A pipeline file larger than this is something else.
const LARGEST: u64 = 1 << 20;

/// The schema of SQL in which a store tells of itself, and so no name of a stage.
const RESERVED: &str = "store";

/// A pipeline that can be run: its stages exist, are connected, and have no cycle.
#[derive(Debug)]
pub struct Pipeline<S> {
    /// The file.
    pub path: PathBuf,
    /// Seed of stages that give none of their own.
    pub seed: u64,
    /// Stages with their names, producers before consumers.
    pub plan: Plan<S>,
    /// What must hold of the results.
    pub expectations: Vec<Expectation>,
}

/// The stages that a pipeline file may name: a type whose JSON Schema has one alternative for each kind.
pub trait Stages: Stage + Clone + DeserializeOwned + JsonSchema {}

impl<S: Stage + Clone + DeserializeOwned + JsonSchema> Stages for S {}

/// How a pipeline file is read.
pub struct Options<'a, S> {
    /// Assignments of the command line: `stage.fit.train.epochs=3`.
    pub overrides: &'a [String],
    /// Environment variables.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// Whether files and folders that stages read must be there.
    pub sources_needed: bool,
    /// Says which queries cannot be asked of the tables of the plan: their places in the list, and why.
    pub rehearse: &'a Rehearse<S>,
}

/// See [`Options::rehearse`].
pub type Rehearse<S> = dyn Fn(&Plan<S>, &[Expectation]) -> Vec<(usize, Error)>;

/// Reads a pipeline file.
///
/// # Errors
/// All that is wrong with it and with the overrides, at once.
pub fn load<S: Stages>(path: &Path, options: &Options<'_, S>) -> Result<Pipeline<S>, Faults> {
    let name = path.display().to_string();
    let arguments = options.overrides.iter().map(|assignment| overrides::shown(assignment));
    let mut texts = Texts { name, texts: std::iter::once(String::new()).chain(arguments).collect() };
    match read(path) {
        Ok(text) => texts.texts[0] = text,
        Err((text, fault)) => {
            texts.texts[0] = text;
            return Err(Faults::new(texts, vec![fault]));
        }
    }
    parse(path, &texts, options).map_err(|faults| Faults::new(texts, faults))
}

/// The text of the file; what could be read of it, with what is wrong, where it is no text.
fn read(path: &Path) -> Result<String, (String, Fault)> {
    let fault = |message: String| (String::new(), Fault::new(Place::default(), message));
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| fault(format!("cannot read the pipeline file: {error}")))?;
    if bytes.len() as u64 > LARGEST {
        return Err(fault(format!("the file has more than {LARGEST} bytes, wanted a pipeline file")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let text = String::from_utf8_lossy(bytes).into_owned();
        let message = format!("the byte 0x{:02x} is not UTF-8", bytes.get(good).copied().unwrap_or_default());
        let fault = Fault::new(Place::in_file(good..good + '\u{fffd}'.len_utf8()), message);
        (text, fault.hint("save the file as UTF-8"))
    })
}

fn parse<S: Stages>(path: &Path, texts: &Texts, options: &Options<'_, S>) -> Result<Pipeline<S>, Vec<Fault>> {
    let (table, errors) = DeTable::parse_recoverable(&texts.texts[0]);
    if !errors.is_empty() {
        let fault = |error: &toml::de::Error| {
            let place = Place::in_file(error.span().unwrap_or_default());
            Fault::new(place, format!("not TOML: {}", error.message().replace('\n', ", ")))
        };
        return Err(errors.iter().map(fault).collect());
    }
    let mut root = Node::from_table(Place::default(), table.get_ref(), &Place::in_file);
    let mut faults = Vec::new();
    for (i, assignment) in options.overrides.iter().enumerate() {
        overrides::apply(&mut root, assignment, i + 1, &mut faults);
    }
    let schema = schema::<S>();
    let mut checker = Checker {
        definitions: &schema["$defs"],
        texts,
        folder: path.parent().unwrap_or(Path::new("")),
        environment: options.environment,
        sources_needed: options.sources_needed,
        seed: None,
        references: Vec::new(),
        dropped: Vec::new(),
        faults,
    };
    let seed = check_seed(&mut checker, &mut root, &schema);
    let stages = check_stages::<S>(&mut checker, &mut root);
    let (expectations, queries) = check_expectations(&mut checker, &mut root, &schema);
    check_names(&mut checker, &root, &schema);
    let Checker { references, mut faults, .. } = checker;
    let plan = connect(stages, references, &mut faults);
    if let Some(plan) = &plan {
        for (i, error) in (options.rehearse)(plan, &expectations) {
            let place = queries.get(i).copied().unwrap_or_default();
            let hint = error.hint_text().map(str::to_owned);
            faults.push(Fault { place, message: error.to_string(), note: None, hint });
        }
    }
    match plan {
        Some(plan) if faults.is_empty() => Ok(Pipeline { path: path.to_owned(), seed, plan, expectations }),
        _ => Err(faults),
    }
}

/// The seed of the pipeline, 0 when it gives none. Stages without their own get it.
fn check_seed(checker: &mut Checker<'_>, root: &mut Node, schema: &Json) -> u64 {
    let mut seed =
        root.get("seed").map_or(Node { place: root.place, value: Value::Integer(0) }, |entry| entry.node.clone());
    let before = checker.faults.len();
    let subject = Subject::new("`seed`", seed.place);
    checker.check(&mut seed, &schema["properties"]["seed"], &subject);
    if checker.faults.len() > before {
        seed.value = Value::Integer(0);
    }
    let number = if let Value::Integer(number) = seed.value { number.saturating_as::<u64>() } else { 0 };
    checker.seed = Some(seed);
    number
}

/// Names that mean nothing at the top of the file.
fn check_names(checker: &mut Checker<'_>, root: &Node, schema: &Json) {
    let names =
        || schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys().map(String::as_str));
    for entry in root.entries() {
        if !names().any(|name| name == entry.key) {
            let message = format!("a pipeline file has no `{}`", entry.key);
            let names: Vec<&str> = names().collect();
            checker.faults.push(Fault::new(entry.key_place, message).valid(&entry.key, names));
        }
    }
}

/// A stage of the file: its settings with places, and its Rust form when nothing is wrong with that.
struct Read<S> {
    name: String,
    place: Place,
    /// The table of the settings, below the kind.
    settings: Option<Node>,
    stage: Option<S>,
    /// Which of the references belong to it.
    references: std::ops::Range<usize>,
    /// Settings that are wrong, and so look as if they were not given.
    dropped: Vec<String>,
}

fn check_stages<S: Stages>(checker: &mut Checker<'_>, root: &mut Node) -> Vec<Read<S>> {
    let whole = root.place;
    let stages = root.get_mut("stage");
    let entries = match stages.map(|entry| (entry.key_place, &mut entry.node)) {
        Some((_, Node { value: Value::Table(entries), .. })) if !entries.is_empty() => entries,
        Some((_, node)) if !matches!(node.value, Value::Table(_)) => {
            let message = format!("`stage` is {}, wanted tables `[stage.NAME.KIND]`", node.describe());
            checker.faults.push(Fault::new(node.place, message));
            return Vec::new();
        }
        _ => {
            let fault = Fault::new(whole, "the file has no stage, wanted tables `[stage.NAME.KIND]`");
            checker.faults.push(fault.note(format!(
                "kinds: {}",
                quoted(Alternative::all(stage_schema::<S>(checker)).iter().map(|kind| kind.name))
            )));
            return Vec::new();
        }
    };
    check_cases(checker, entries);
    entries.iter_mut().map(|entry| check_stage(checker, entry)).collect()
}

/// Names of stages that SQL could not tell from others.
fn check_cases(checker: &mut Checker<'_>, entries: &[Entry]) {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for entry in entries {
        let lower = entry.key.to_ascii_lowercase();
        if lower == RESERVED {
            let message = format!("a stage cannot be called `{}`: SQL knows the store itself by that name", entry.key);
            checker.faults.push(Fault::new(entry.key_place, message));
        }
        match seen.entry(lower) {
            Slot::Occupied(other) => {
                let message = format!("stages `{}` and `{}` differ in letter case alone", other.get(), entry.key);
                let fault = Fault::new(entry.key_place, message);
                checker.faults.push(fault.hint("SQL does not tell them apart: give one another name"));
            }
            Slot::Vacant(slot) => {
                slot.insert(&entry.key);
            }
        }
    }
}

/// The schema of a stage: its kinds.
fn stage_schema<'s, S: Stages>(checker: &Checker<'s>) -> &'s Json {
    &checker.definitions[S::schema_name().as_ref()]
}

fn check_stage<S: Stages>(checker: &mut Checker<'_>, entry: &mut Entry) -> Read<S> {
    let first = checker.references.len();
    let name = format!("stage `{}`", entry.key);
    if !matches(STAGE_NAME, &entry.key) {
        let message = format!("{:?} is no name of a stage, wanted letters, digits, `-` and `_`", entry.key);
        checker.faults.push(Fault::new(entry.key_place, message));
    }
    let kinds = Alternative::all(stage_schema::<S>(checker));
    let known = |entry: &Entry| kinds.iter().any(|kind| kind.name == entry.key);
    let members = entry.node.entries();
    // Settings directly below the name: the kind was forgotten.
    let kindless = match members {
        [] => true,
        [only] => !known(only) && !matches!(only.node.value, Value::Table(_)),
        several => !several.iter().any(known),
    };
    let before = checker.faults.len();
    if kindless {
        let fault =
            Fault::new(entry.key_place, format!("{name} has no kind, wanted a table `[stage.{}.KIND]`", entry.key));
        checker.faults.push(fault.note(format!("kinds: {}", quoted(kinds.iter().map(|kind| kind.name)))));
    } else {
        checker.check_choice(&mut entry.node, &kinds, &Subject::new(name.clone(), entry.key_place));
    }
    let stage = match S::deserialize(entry.node.to_toml()) {
        Ok(stage) => Some(stage),
        Err(error) => {
            // Whatever the schema could not express.
            if checker.faults.len() == before {
                checker.faults.push(Fault::new(entry.key_place, format!("{name}: {}", error.message())));
            }
            None
        }
    };
    Read {
        name: entry.key.clone(),
        place: entry.key_place,
        settings: entry.node.entries().first().map(|kind| kind.node.clone()),
        stage,
        references: first..checker.references.len(),
        dropped: std::mem::take(&mut checker.dropped),
    }
}

/// What is expected, and where each query stands.
fn check_expectations(checker: &mut Checker<'_>, root: &mut Node, schema: &Json) -> (Vec<Expectation>, Vec<Place>) {
    let Some(entry) = root.get_mut("expect") else { return Default::default() };
    // The seed is for stages only.
    checker.seed = None;
    let Value::Array(items) = &mut entry.node.value else {
        let message = format!("`expect` is {}, wanted tables `[[expect]]`", entry.node.describe());
        checker.faults.push(Fault::new(entry.node.place, message));
        return Default::default();
    };
    let schema = resolve(checker.definitions, &schema["properties"]["expect"]["items"]);
    let (mut expectations, mut queries) = (Vec::new(), Vec::new());
    for item in items {
        let before = checker.faults.len();
        let place = item.place;
        checker.check(item, schema, &Subject::new("`[[expect]]`", place));
        if checker.faults.len() > before {
            continue;
        }
        match Expectation::deserialize(item.to_toml()) {
            Ok(expectation) if expectation.wanted().is_empty() => {
                let fault = Fault::new(place, "`[[expect]]` bounds nothing");
                checker.faults.push(fault.hint("add `at_least`, `at_most` or `equals`"));
            }
            Ok(expectation) => {
                let line = checker.texts.position(place).line;
                queries.push(item.locate("sql", place));
                expectations.push(Expectation { line, ..expectation });
            }
            Err(error) => checker.faults.push(Fault::new(place, error.message())),
        }
    }
    (expectations, queries)
}

/// Connects the stages that could be read, and looks at the references of those that could not. A plan comes back when
/// every stage is in it.
fn connect<S: Stages>(
    reads: Vec<Read<S>>,
    references: Vec<(String, Place)>,
    faults: &mut Vec<Fault>,
) -> Option<Plan<S>> {
    let nodes = reads.iter().filter_map(|read| Some(PlanNode { name: read.name.clone(), stage: read.stage.clone()? }));
    let found = match Plan::new(nodes.collect()) {
        Ok(plan) if reads.iter().all(|read| read.stage.is_some()) => return Some(plan),
        Ok(_) => Vec::new(),
        Err(found) => found,
    };
    for fault in found {
        let Some(read) = reads.iter().find(|read| read.name == fault.stage) else { continue };
        if fault.problem.setting.split('.').any(|part| read.dropped.iter().any(|dropped| dropped == part)) {
            continue;
        }
        let place =
            read.settings.as_ref().map_or(read.place, |settings| settings.locate(&fault.problem.setting, read.place));
        // A stage that is there and could not be read is missing from the plan alone.
        let unread = references[read.references.clone()]
            .iter()
            .any(|(reference, at)| *at == place && names_unread(&reads, reference));
        if !unread {
            let Problem { setting, message, hint } = fault.problem;
            faults.push(Fault { place, message: named(&setting, message), note: None, hint });
        }
    }
    for read in reads.iter().filter(|read| read.stage.is_none()) {
        faults.extend(
            references[read.references.clone()]
                .iter()
                .filter_map(|(reference, place)| dangling(&reads, reference, *place)),
        );
    }
    None
}

/// A message that names the setting that it is about.
fn named(setting: &str, message: String) -> String {
    let mut parts = setting.rsplit('.');
    let last = parts.next().unwrap_or(setting);
    let name = match (last.parse::<usize>(), parts.next()) {
        (Ok(item), Some(list)) => format!("item {} of `{list}`", item + 1),
        _ => format!("`{last}`"),
    };
    if setting.is_empty() || message.contains(&name) { message } else { format!("{name}: {message}") }
}

/// Whether `reference` names a stage of the file that could not be read.
fn names_unread<S>(reads: &[Read<S>], reference: &str) -> bool {
    let stage = reference.split('.').next();
    reads.iter().any(|read| stage == Some(read.name.as_str()) && read.stage.is_none())
}

/// What is wrong with a reference to another stage.
fn dangling<S: Stage>(reads: &[Read<S>], reference: &str, place: Place) -> Option<Fault> {
    let (stage, table) = reference.split_once('.')?;
    let Some(read) = reads.iter().find(|read| read.name == stage) else {
        let names: Vec<&str> = reads.iter().map(|read| read.name.as_str()).collect();
        return Some(Fault::new(place, format!("`{reference}`: no stage is called `{stage}`")).valid(stage, names));
    };
    let outputs = read.stage.as_ref()?.outputs();
    let names: Vec<&str> = outputs.iter().map(|output| output.name).collect();
    (!names.contains(&table))
        .then(|| Fault::new(place, format!("`{reference}`: stage `{stage}` writes no `{table}`")).valid(table, names))
}
