//! Loading a pipeline file: reads and checks it, and connects its stages.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use az::SaturatingAs;
use serde_json::Value as Json;
use toml::de::DeTable;

use super::connect::{ParsedStage, Reference, connect_stages};
use super::diagnostic::{Diagnostic, Diagnostics, SourceMap, SourceSpan};
use super::expectation::{Expectation, ExpectedValue, PlacedExpectation, SkippedExpectation, check_expectations};
use super::file_format::{Alternative, SettingPaths, first_path, shared_schema};
use super::instances::{
    InstanceArguments, PipelineStage, check_stages, correct_kinds, stage_schema, without_coordinates,
};
use super::overrides::{self, SettingAssignment};
use super::schema_check::{SchemaChecker, ValueLabel};
use super::sources::SourceVariables;
use super::toml_tree::{TomlNode, TomlValue, syntax_diagnostics};
use pairloom_base::error::{Error, Problem};
use pairloom_base::suggest::{closest_name, quoted_list};
use pairloom_stage::plan::{Plan, PlanNode};
use pairloom_stage::{InputOrigin, Stage, stage_of_instance};

/// Pipeline that can be run.
#[derive(Debug)]
pub struct Pipeline<S> {
    /// Path of the pipeline file.
    pub path: PathBuf,
    /// Seed of stages that set none of their own.
    pub seed: u64,
    /// Environment variables that the paths of sources use.
    pub variables: BTreeMap<String, String>,
    /// Named stages, producers before consumers.
    pub plan: Plan<S>,
    /// Conditions that the results must satisfy.
    pub expectations: Vec<Expectation>,
    /// Conditions that are not checked, because of `--set`, `--only` or `--except`.
    pub skipped: Vec<SkippedExpectation>,
    /// Warnings about settings that are possible, but implausible.
    pub warnings: Diagnostics,
}

/// Options of [`load`].
pub struct LoadOptions<'a, S> {
    /// Overrides from the command line: `stage.fit.train.epochs=3`.
    pub overrides: &'a [String],
    /// Profile of the file whose settings are used.
    pub profile: Option<&'a str>,
    /// Values of the matrix that are run, from the command line: `row=1.1,1.2`. Empty for all.
    pub only: &'a [String],
    /// Combinations of the matrix that are left out, from the command line: `row=1.1,seed=3`.
    pub except: &'a [String],
    /// Lookup of environment variables.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// True if source files and folders of stages must exist.
    pub sources_must_exist: bool,
    /// Checks queries of expectations against the tables of the named stages. Returns index and error of each wrong one.
    pub check_queries: &'a CheckQueries<'a, S>,
}

/// Type of [`LoadOptions::check_queries`].
pub type CheckQueries<'a, S> = dyn Fn(&[PlanNode<S>], &[&str]) -> Vec<(usize, Error)> + 'a;

/// Loads a pipeline file: reads it, applies overrides, checks it, and connects its stages.
///
/// # Errors
/// All mistakes of the file and of the overrides.
pub fn load<S: PipelineStage>(path: &Path, options: &LoadOptions<'_, S>) -> Result<Pipeline<S>, Diagnostics> {
    let name = path.display().to_string();
    let arguments = options.overrides.iter().map(|assignment| overrides::argument_text(assignment));
    let (text, unreadable) = match read_text(path) {
        Ok(text) => (text, None),
        Err(unreadable) => {
            let (text, diagnostic) = *unreadable;
            (text, Some(diagnostic))
        }
    };
    let source_map = SourceMap::new(name, std::iter::once(text).chain(arguments).collect());
    if let Some(diagnostic) = unreadable {
        return Err(Diagnostics::new(source_map, vec![diagnostic]));
    }
    parse(path, &source_map, options).map_err(|diagnostics| Diagnostics::new(source_map, diagnostics))
}

fn parse<S: PipelineStage>(
    path: &Path,
    source_map: &SourceMap,
    options: &LoadOptions<'_, S>,
) -> Result<Pipeline<S>, Vec<Diagnostic>> {
    let (table, errors) = DeTable::parse_recoverable(&source_map.sources[0]);
    if !errors.is_empty() {
        return Err(syntax_diagnostics(&source_map.sources[0], &errors));
    }
    let mut root = TomlNode::from_table(SourceSpan::default(), table.get_ref(), &SourceSpan::in_file);
    let mut diagnostics = Vec::new();
    let schema = shared_schema::<S>();
    let paths = SettingPaths { definitions: &schema["$defs"], stage: &schema["$defs"][S::schema_name().as_ref()] };
    correct_kinds(&mut root, &Alternative::all(paths.stage), &mut diagnostics);
    let assignments = options.overrides.iter().enumerate();
    let assignments: Vec<SettingAssignment> = assignments
        .filter_map(|(i, assignment)| overrides::apply(&mut root, assignment, i + 1, &paths, &mut diagnostics))
        .collect();
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
    let seed = check_seed(&mut checker, &mut root, schema);
    let LoadOptions { profile, only, except, .. } = *options;
    let arguments = InstanceArguments { profile, only, except, assignments: &assignments };
    let (stages, is_expanded) = check_stages::<S>(&mut checker, &root, &arguments);
    let expectations = check_expectations(&mut checker, &mut root, schema);
    check_top_level_keys::<S>(&mut checker, &root, schema);
    let SchemaChecker { references, mut diagnostics, mut variables, .. } = checker;
    if options.sources_must_exist {
        diagnostics.extend(variables.unset_diagnostic(&path.display().to_string()));
    }
    // Names that are meant to be stages: `[fit.train]`.
    let misplaced: Vec<&str> = root.entries().iter().map(|entry| entry.key.as_str()).collect();
    let plan = connect_stages(&stages, source_map, &references, &misplaced, &mut diagnostics);
    let readable: Vec<PlanNode<S>> = stages.iter().filter_map(ParsedStage::node).collect();
    // Without its matrix, columns of axes are missing.
    let is_whole = only.is_empty() && except.is_empty();
    if !readable.is_empty() && is_expanded && is_whole {
        let doubtful = doubtful_names(&stages, &references, &misplaced);
        for placed in &expectations {
            if let Some(value) = placed.table_value().filter(|of| !doubtful.contains(stage_of_instance(&of.stage))) {
                diagnostics.extend(placed.check_table(value, &readable));
            }
        }
        let queries = expectations.iter().filter_map(PlacedExpectation::query);
        let (queries, spans): (Vec<&str>, Vec<SourceSpan>) = queries.unzip();
        let wrong = if queries.is_empty() { vec![] } else { (options.check_queries)(&readable, &queries) };
        for (i, error) in wrong {
            if queries.get(i).is_some_and(|wrong| names_one_of(wrong, &doubtful)) {
                continue;
            }
            let span = spans.get(i).copied().unwrap_or_default();
            let problem = Problem { hint: error.hint_text().map(str::to_owned), ..Problem::new("", error.to_string()) };
            diagnostics.push(Diagnostic { span, problem, note: None });
        }
    }
    if !is_expanded || stages.iter().any(|parsed| parsed.stage.is_none()) {
        // They may be about stages that the file does not have yet.
        diagnostics.retain(|diagnostic| !diagnostic.is_warning());
    }
    let diagnostics = without_coordinates(diagnostics, &stages);
    match plan {
        Some(plan) if diagnostics.iter().all(Diagnostic::is_warning) => {
            let warnings = Diagnostics::new(source_map.clone(), diagnostics);
            let (mut held, mut skipped) = (Vec::new(), Vec::new());
            for PlacedExpectation { expectation, .. } in expectations {
                let changed = reason_to_skip(&expectation, plan.stages(), &assignments);
                let because = match changed {
                    // They are about the results of the whole matrix.
                    _ if !is_whole => Some(if only.is_empty() { "--except" } else { "--only" }.to_owned()),
                    changed => changed.map(|changed| source_map.sources[changed.source_index()].clone()),
                };
                match because {
                    Some(because) => skipped.push(SkippedExpectation { expectation, because }),
                    None => held.push(expectation),
                }
            }
            let (path, variables) = (path.to_owned(), variables.values());
            Ok(Pipeline { path, seed, variables, plan, expectations: held, skipped, warnings })
        }
        _ => Err(diagnostics),
    }
}

/// Assignment that changes a setting on which the value of an expectation depends; `None` if there is none, or if an
/// assignment says itself what is expected.
fn reason_to_skip<'a, S: Stage>(
    expectation: &Expectation,
    stages: &[PlanNode<S>],
    assignments: &'a [SettingAssignment],
) -> Option<&'a SettingAssignment> {
    if assignments.iter().any(SettingAssignment::is_expectation) {
        return None;
    }
    let is_named = |name: &str| match &expectation.subject {
        ExpectedValue::Table(value) => !value.instances([name]).is_empty(),
        ExpectedValue::Query(sql) => reads_stage(sql, stage_of_instance(name)),
    };
    let mut needed: BTreeSet<String> = BTreeSet::new();
    // Producers come before their consumers.
    for node in stages.iter().rev() {
        if !is_named(&node.name) && !needed.contains(&node.name) {
            continue;
        }
        if let Some(changing) = assignments.iter().find(|assignment| assignment.changes(node)) {
            return Some(changing);
        }
        needed.extend(node.stage.inputs().into_iter().filter_map(|input| match input.origin {
            InputOrigin::Table { from, .. } | InputOrigin::Files { from, .. } => Some(from.stage().to_owned()),
            InputOrigin::Source(_) => None,
        }));
    }
    None
}

/// Names whose tables may be other ones once the mistakes of the file are corrected: stages with mistakes, and names that
/// no stage has yet.
fn doubtful_names<'n, S: Stage>(
    stages: &'n [ParsedStage<S>],
    references: &'n [Reference],
    misplaced: &[&'n str],
) -> BTreeSet<&'n str> {
    let wrong = stages.iter().filter(|parsed| parsed.is_doubtful());
    let wrong = wrong.flat_map(|parsed| [Some(parsed.base.as_str()), parsed.other_name.as_deref()]).flatten();
    let named = references.iter().filter_map(|(reference, _)| Some(stage_of_instance(reference.rsplit_once('.')?.0)));
    let missing = named.filter(|name| stages.iter().all(|parsed| parsed.base != *name));
    wrong.chain(missing).chain(misplaced.iter().copied()).collect()
}

/// True if a word of a query is one of the names.
fn names_one_of(sql: &str, names: &BTreeSet<&str>) -> bool {
    sql.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).any(|word| names.contains(word))
}

/// True if a query names a table of the stage: `fit.history`, `"fit@seed=1".history`.
fn reads_stage(sql: &str, stage: &str) -> bool {
    sql.match_indices(stage).any(|(at, _)| {
        let before = sql[..at].chars().next_back();
        let rest = &sql[at + stage.len()..];
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.@".contains(c))
            && [".", "\".", "@"].iter().any(|end| rest.starts_with(end))
    })
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
fn check_top_level_keys<S: PipelineStage>(checker: &mut SchemaChecker<'_>, root: &TomlNode, schema: &Json) {
    let kinds = Alternative::all(stage_schema::<S>(checker));
    let names =
        || schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys().map(String::as_str));
    for entry in root.entries() {
        if !names().any(|name| name == entry.key) {
            let message = format!("a pipeline file has no `{}`", entry.key);
            let names: Vec<&str> = names().collect();
            let diagnostic = Diagnostic::new(entry.key_span, message).with_valid_names(&entry.key, names);
            let kind = kinds.iter().find(|kind| entry.node.get(kind.name).is_some());
            let paths = SettingPaths { definitions: checker.definitions, stage: stage_schema::<S>(checker) };
            let stages =
                root.get("stage").filter(|_| entry.key_span.is_argument() && diagnostic.problem.hint.is_none());
            let path = stages.and_then(|stages| paths.hint(&stages.node, &first_path(&entry.key, &entry.node)));
            checker.diagnostics.push(match (path, kind) {
                (Some(path), _) => diagnostic.hint(path),
                (None, Some(kind)) => diagnostic.hint(format!("write `[stage.{}.{}]`", entry.key, kind.name)),
                (None, None) => diagnostic,
            });
        }
    }
}

/// Maximum size of a pipeline file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Folder that is searched for pipeline files too, beside the one that was named.
const PIPELINE_FOLDER: &str = "pipelines";

/// Number of pipeline files that a message lists.
const LISTED_FILES: usize = 12;

/// Reads the text of the file. On failure returns the text that could be read and a diagnostic.
fn read_text(path: &Path) -> Result<String, Box<(String, Diagnostic)>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| Box::new((String::new(), unreadable(path, &error))))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let message =
            format!("`{}` has more than {MAX_FILE_BYTES} bytes, the maximum size of a pipeline file", path.display());
        return Err(Box::new((String::new(), Diagnostic::new(SourceSpan::nowhere(), message))));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let message = format!("`{}` is UTF-16, expected UTF-8", path.display());
        let diagnostic = Diagnostic::new(SourceSpan::nowhere(), message).hint("save the file as UTF-8");
        return Err(Box::new((String::new(), diagnostic)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let text = String::from_utf8_lossy(bytes).into_owned();
        let message = format!("the byte 0x{:02x} is not UTF-8", bytes.get(good).copied().unwrap_or_default());
        let diagnostic = Diagnostic::new(SourceSpan::in_file(good..good + '\u{fffd}'.len_utf8()), message);
        Box::new((text, diagnostic.hint("save the file as UTF-8")))
    })
}

/// Diagnostic of a file that cannot be read.
fn unreadable(path: &Path, error: &std::io::Error) -> Diagnostic {
    let at = SourceSpan::nowhere();
    let shown = path.display();
    match error.kind() {
        ErrorKind::NotFound => {
            let diagnostic = Diagnostic::new(at, format!("there is no pipeline file `{shown}`"));
            suggest(diagnostic, path, path.parent().unwrap_or(Path::new("")))
        }
        ErrorKind::IsADirectory => {
            let diagnostic = Diagnostic::new(at, format!("`{shown}` is a folder, expected a pipeline file"));
            suggest(diagnostic, path, path)
        }
        _ => Diagnostic::new(at, format!("cannot read the pipeline file `{shown}`: {error}")),
    }
}

/// Adds the pipeline files of `folder`, and the one that `path` is probably a misspelling of.
fn suggest(diagnostic: Diagnostic, path: &Path, folder: &Path) -> Diagnostic {
    let asked = path.file_name().unwrap_or_default().to_string_lossy();
    let here = pipeline_files(folder);
    let mut all = [here, pipeline_files(&folder.join(PIPELINE_FOLDER))].concat();
    if all.is_empty() {
        all = pipeline_files(Path::new(PIPELINE_FOLDER));
    }
    let name = |file: &str| Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names: Vec<String> = all.iter().map(|file| name(file)).collect();
    let similar = closest_name(&asked, names.iter().map(String::as_str)).map(str::to_owned);
    let diagnostic = match similar.and_then(|similar| all.iter().find(|file| name(file) == similar)) {
        Some(file) => diagnostic.hint(format!("did you mean `{file}`?")),
        None => diagnostic,
    };
    if all.is_empty() {
        return diagnostic;
    }
    let more = if all.len() > LISTED_FILES { " …" } else { "" };
    let list = quoted_list(all.iter().take(LISTED_FILES).map(String::as_str));
    diagnostic.note(format!("there are {list}{more}"))
}

/// Files of a folder that end in `.toml`, sorted. Empty if the folder cannot be read.
fn pipeline_files(folder: &Path) -> Vec<String> {
    let read = std::fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let entries = read.into_iter().flatten().flatten().map(|entry| folder.join(entry.file_name()));
    let files = entries.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    // Rust's own files are no pipelines.
    let own = ["Cargo.toml", "clippy.toml", "rustfmt.toml", "pyproject.toml"];
    let files = files.filter(|path| !own.iter().any(|own| path.ends_with(own)));
    let mut files: Vec<String> = files.map(|path| path.display().to_string()).collect();
    files.sort_unstable();
    files
}
