//! Tables of the schema `store`: the store's own records, as rows, with descriptions.
//!
//! | table | row |
//! |---|---|
//! | `runs` | a run, with its command, labels and best score |
//! | `stages` | a stage of a run, with version and settings |
//! | `settings` | a setting of a stage of a run |
//! | `artefacts` | a complete artefact |
//! | `inputs` | an input of an artefact: a table of another artefact, or a source |
//! | `lineage` | an artefact or source that an artefact follows from, at any distance |
//! | `parts` | a part of a table of a complete artefact |
//! | `warnings` | a warning of a complete artefact, or about the settings of a stage |
//! | `expectations` | an expectation of a run |

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow::datatypes::{Field, Schema};

use crate::catalog::StoreCatalog;
use pairloom_base::error::Result;
use pairloom_store::key::{InputIdentity, Key};
use pairloom_store::labels::Labels;
use pairloom_store::lineage::{ArtefactName, Lineage};
use pairloom_store::record::{RunLog, RunOutcome, RunRecord, ScoreRecord, StageRecord};
use pairloom_store::{Manifest, comparison};
use pairloom_tables as tables;

/// Columns with their names, in order.
pub(super) type NamedColumns = Vec<(&'static str, ArrayRef)>;

pub(super) fn text_array<T: AsRef<str>>(values: impl Iterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

pub(super) fn float_array(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

pub(super) fn bool_array(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<BooleanArray>())
}

/// Whole numbers; null for a missing number, and for one above 2⁶³ - 1.
pub(super) fn int_array(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.map(|value| value.and_then(|value| i64::try_from(value).ok())).collect::<Int64Array>())
}

pub(super) fn timestamp_array(values: impl Iterator<Item = Option<jiff::Timestamp>>) -> ArrayRef {
    let times: TimestampMillisecondArray = values.map(|time| time.map(jiff::Timestamp::as_millisecond)).collect();
    Arc::new(times.with_timezone("+00:00"))
}

/// Readable records of all runs, latest first.
pub(super) fn records(catalog: &StoreCatalog) -> Result<Vec<&RunRecord>> {
    let Some(log) = catalog.log() else { return Ok(vec![]) };
    log.read_all()?;
    Ok(log.readable().collect())
}

/// Stage of the latest run that uses an artefact, by kind and key of the artefact.
pub(super) fn latest_uses(catalog: &StoreCatalog) -> Result<HashMap<(&str, &str), &StageRecord>> {
    catalog.log().map_or_else(|| Ok(HashMap::new()), RunLog::latest_uses)
}

/// Names of the pipelines of runs, for a column.
fn pipeline_of(catalog: &StoreCatalog) -> Result<impl Fn(&&RunRecord) -> Option<String>> {
    let names = catalog.log().map(RunLog::pipeline_names).transpose()?.unwrap_or_default();
    Ok(move |run: &&RunRecord| names.get(run.pipeline_identity()).map(|name| (*name).to_owned()))
}

/// Stages of all runs, with their runs.
fn run_stages(catalog: &StoreCatalog) -> Result<Vec<(&RunRecord, &StageRecord)>> {
    let runs = records(catalog)?;
    Ok(runs.into_iter().flat_map(|run| run.stages.iter().map(move |stage| (run, stage))).collect())
}

/// One row per run.
pub(super) fn runs(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let runs = records(catalog)?;
    let labels = catalog.store().map(Labels::read).transpose()?.unwrap_or_default();
    let pipeline = pipeline_of(catalog)?;
    let repeats = repeats(&runs);
    let best: Vec<Option<&ScoreRecord>> = runs.iter().map(|run| run.best_score()).collect();
    let tags = |run: &RunRecord| labels.tags_of(&run.run).collect::<Vec<_>>().join(", ");
    let words = |words: String| (!words.is_empty()).then_some(words);
    Ok(vec![
        ("run", text_array(runs.iter().map(|run| Some(&run.run)))),
        ("pipeline", text_array(runs.iter().map(pipeline))),
        ("file", text_array(runs.iter().map(|run| run.command.file.as_ref()))),
        ("started", timestamp_array(runs.iter().map(|run| Some(run.started)))),
        ("finished", timestamp_array(runs.iter().map(|run| run.finished))),
        ("seconds", float_array(runs.iter().map(|run| run.seconds()))),
        ("outcome", text_array(runs.iter().map(|run| Some(run.outcome.name())))),
        ("error", text_array(runs.iter().map(|run| run.error.as_ref()))),
        ("repeat_of", text_array(repeats.into_iter())),
        ("seed", int_array(runs.iter().map(|run| run.command.seed))),
        ("overrides", text_array(runs.iter().map(|run| words(run.command.overrides.join(" "))))),
        ("command", text_array(runs.iter().map(|run| Some(run.command_line())))),
        ("device", text_array(runs.iter().map(|run| words(run.command.device.clone())))),
        ("threads", int_array(runs.iter().map(|run| u64::try_from(run.command.threads).ok().filter(|n| *n > 0)))),
        ("pairloom", text_array(runs.iter().map(|run| words(run.pairloom.clone())))),
        ("tags", text_array(runs.iter().map(|run| words(tags(run))))),
        ("note", text_array(runs.iter().map(|run| labels.notes.get(&run.run)))),
        ("pinned", bool_array(runs.iter().map(|run| labels.pinned_runs.contains(&run.run)))),
        ("metric", text_array(best.iter().map(|score| score.map(|score| &score.metric)))),
        ("score", float_array(best.iter().map(|score| score.map(|score| score.value)))),
        ("score_stage", text_array(best.iter().map(|score| score.map(|score| &score.stage)))),
        ("score_of", text_array(best.iter().map(|score| score.map(|score| &score.of)))),
    ])
}

/// For each run, ordered from the latest to the first, the first finished run of the same pipeline with the same results;
/// `None` if it is that run itself, or did not finish.
fn repeats<'r>(runs: &[&'r RunRecord]) -> Vec<Option<&'r str>> {
    type Results<'r> = (&'r str, BTreeMap<&'r str, &'r Key>);
    let results = |run: &'r RunRecord| -> Results<'r> {
        (run.pipeline_identity(), run.stages.iter().map(|stage| (stage.name.as_str(), &stage.key)).collect())
    };
    let mut first: HashMap<Results<'r>, &'r str> = HashMap::new();
    let mut repeats: Vec<Option<&str>> = runs
        .iter()
        .rev()
        .map(|run| {
            if run.outcome != RunOutcome::Finished {
                return None;
            }
            let name = *first.entry(results(run)).or_insert(&run.run);
            (name != run.run).then_some(name)
        })
        .collect();
    repeats.reverse();
    repeats
}

/// One row per stage of a run.
pub(super) fn stages(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let rows = run_stages(catalog)?;
    let pipeline = pipeline_of(catalog)?;
    let identity = |stage: &&StageRecord| stage.identity.clone();
    let stalls: Vec<_> = rows.iter().map(|(_, stage)| stage.stalls).collect();
    Ok(vec![
        ("run", text_array(rows.iter().map(|(run, _)| Some(&run.run)))),
        ("pipeline", text_array(rows.iter().map(|(run, _)| pipeline(run)))),
        ("stage", text_array(rows.iter().map(|(_, stage)| Some(&stage.name)))),
        ("kind", text_array(rows.iter().map(|(_, stage)| Some(&stage.kind)))),
        ("key", text_array(rows.iter().map(|(_, stage)| Some(stage.key.as_str())))),
        ("version", int_array(rows.iter().map(|(_, stage)| identity(stage).map(|it| u64::from(it.version))))),
        ("settings", text_array(rows.iter().map(|(_, stage)| identity(stage).map(|it| it.settings.to_string())))),
        ("reused", bool_array(rows.iter().map(|(_, stage)| stage.reused))),
        ("seconds", float_array(rows.iter().map(|(_, stage)| stage.seconds))),
        ("waited_for_storage", float_array(stalls.iter().map(|stalls| stalls.map(|of| of.storage)))),
        ("waited_for_decode", float_array(stalls.iter().map(|stalls| stalls.map(|of| of.decode)))),
        ("trained", float_array(stalls.iter().map(|stalls| stalls.map(|of| of.trainer)))),
    ])
}

/// One row per setting of a stage of a run.
pub(super) fn settings(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let mut rows = Vec::new();
    for (run, stage) in run_stages(catalog)? {
        let settings = stage.identity.as_ref().map(|identity| comparison::flatten(&identity.settings));
        rows.extend(settings.unwrap_or_default().into_iter().map(|(name, value)| (run, stage, name, value)));
    }
    let pipeline = pipeline_of(catalog)?;
    Ok(vec![
        ("run", text_array(rows.iter().map(|row| Some(&row.0.run)))),
        ("pipeline", text_array(rows.iter().map(|row| pipeline(&row.0)))),
        ("stage", text_array(rows.iter().map(|row| Some(&row.1.name)))),
        ("kind", text_array(rows.iter().map(|row| Some(&row.1.kind)))),
        ("setting", text_array(rows.iter().map(|row| Some(&row.2)))),
        ("value", text_array(rows.iter().map(|row| Some(comparison::text(&row.3))))),
        ("number", float_array(rows.iter().map(|row| row.3.as_f64()))),
    ])
}

/// One row per expectation of a run.
pub(super) fn expectations(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let rows: Vec<_> = records(catalog)?
        .into_iter()
        .flat_map(|run| run.expectations.iter().map(move |expected| (run, expected)))
        .collect();
    let pipeline = pipeline_of(catalog)?;
    Ok(vec![
        ("run", text_array(rows.iter().map(|(run, _)| Some(&run.run)))),
        ("pipeline", text_array(rows.iter().map(|(run, _)| pipeline(run)))),
        ("sql", text_array(rows.iter().map(|(_, expected)| Some(&expected.sql)))),
        ("value", float_array(rows.iter().map(|(_, expected)| expected.value))),
        ("wanted", text_array(rows.iter().map(|(_, expected)| Some(&expected.wanted)))),
        ("held", bool_array(rows.iter().map(|(_, expected)| expected.held))),
    ])
}

/// Complete artefact.
struct ArtefactRow {
    /// Name of the stage that uses the artefact in the latest run that does, if any.
    stage: Option<String>,
    kind: String,
    key: String,
    manifest: Manifest,
}

/// All complete artefacts of the store, ordered by kind and key.
fn artefact_rows(catalog: &StoreCatalog) -> Result<Vec<ArtefactRow>> {
    let Some(store) = catalog.store() else { return Ok(vec![]) };
    let uses = latest_uses(catalog)?;
    let artefacts = store.complete_artefacts()?;
    let manifests = store.manifests_of(artefacts.iter().map(|(kind, key)| (kind.as_str(), key)))?;
    let mut rows = Vec::new();
    for ((kind, key), manifest) in artefacts.into_iter().zip(manifests) {
        let Some(manifest) = manifest.transpose()? else { continue };
        let stage = uses.get(&(kind.as_str(), key.as_str())).map(|stage| stage.name.clone());
        rows.push(ArtefactRow { stage, kind, key: key.to_string(), manifest });
    }
    Ok(rows)
}

fn artefact_columns<'r>(rows: impl Iterator<Item = &'r ArtefactRow> + Clone) -> NamedColumns {
    vec![
        ("stage", text_array(rows.clone().map(|row| row.stage.as_ref()))),
        ("kind", text_array(rows.clone().map(|row| Some(&row.kind)))),
        ("key", text_array(rows.map(|row| Some(&row.key)))),
    ]
}

/// One row per complete artefact.
pub(super) fn artefacts(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let rows = artefact_rows(catalog)?;
    let labels = catalog.store().map(Labels::read).transpose()?.unwrap_or_default();
    let pinned = |row: &ArtefactRow| labels.pinned_artefacts.contains(&(row.kind.clone(), row.key.clone()));
    let mut columns = artefact_columns(rows.iter());
    columns.extend([
        ("version", int_array(rows.iter().map(|row| Some(u64::from(row.manifest.identity.version))))),
        ("settings", text_array(rows.iter().map(|row| Some(row.manifest.identity.settings.to_string())))),
        ("rows", int_array(rows.iter().map(|row| Some(row.manifest.rows())))),
        ("bytes", int_array(rows.iter().map(|row| Some(row.manifest.bytes())))),
        ("seconds", float_array(rows.iter().map(|row| Some(row.manifest.seconds)))),
        ("finished", timestamp_array(rows.iter().map(|row| Some(row.manifest.finished)))),
        ("pairloom", text_array(rows.iter().map(|row| Some(&row.manifest.pairloom)))),
        ("pinned", bool_array(rows.iter().map(pinned))),
    ]);
    Ok(columns)
}

/// One row per part of a table.
pub(super) fn parts(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let rows = artefact_rows(catalog)?;
    let parts: Vec<_> = rows
        .iter()
        .flat_map(|row| row.manifest.tables.iter().map(move |(table, parts)| (row, table, parts)))
        .flat_map(|(row, table, parts)| parts.iter().map(move |part| (row, table, part)))
        .collect();
    let mut columns = artefact_columns(parts.iter().map(|(row, _, _)| *row));
    columns.extend([
        ("table_name", text_array(parts.iter().map(|(_, table, _)| Some(*table)))),
        ("part", int_array(parts.iter().map(|(_, _, part)| u64::try_from(part.index).ok()))),
        ("rows", int_array(parts.iter().map(|(_, _, part)| Some(part.rows)))),
        ("bytes", int_array(parts.iter().map(|(_, _, part)| Some(part.bytes)))),
        ("digest", text_array(parts.iter().map(|(_, _, part)| Some(&part.digest)))),
    ]);
    Ok(columns)
}

/// One row per warning of a complete artefact, and per warning about the settings of a stage. Runs that share a result
/// have its warnings once.
pub(super) fn warnings(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let rows = artefact_rows(catalog)?;
    let uses: BTreeMap<_, _> = latest_uses(catalog)?.into_iter().collect();
    let of_artefacts = rows.iter().flat_map(|row| {
        let place = (row.stage.as_deref(), row.kind.as_str(), row.key.as_str());
        row.manifest.warnings.iter().map(move |warning| (place, warning))
    });
    let of_settings = uses.iter().flat_map(|(&(kind, key), stage)| {
        let place = (Some(stage.name.as_str()), kind, key);
        stage.warnings.iter().map(move |warning| (place, warning))
    });
    let warnings: Vec<_> = of_settings.chain(of_artefacts).collect();
    Ok(vec![
        ("stage", text_array(warnings.iter().map(|((stage, _, _), _)| *stage))),
        ("kind", text_array(warnings.iter().map(|((_, kind, _), _)| Some(*kind)))),
        ("key", text_array(warnings.iter().map(|((_, _, key), _)| Some(*key)))),
        ("subject", text_array(warnings.iter().map(|(_, warning)| Some(&warning.subject)))),
        ("message", text_array(warnings.iter().map(|(_, warning)| Some(&warning.message)))),
    ])
}

/// Lineage of all artefacts that runs used.
fn known_lineage(catalog: &StoreCatalog) -> Result<Lineage> {
    catalog.log().map_or_else(|| Ok(Lineage::default()), Lineage::of_runs)
}

/// Producer of an input: kind, key and output; `None` for a source.
fn producer(of: &InputIdentity) -> Option<(&str, &str, &str)> {
    match of {
        InputIdentity::Artefact { kind, key, output } => Some((kind, key.as_str(), output)),
        InputIdentity::Source(_) => None,
    }
}

/// Digest of a source; `None` for an input from an artefact.
fn digest(of: &InputIdentity) -> Option<&str> {
    match of {
        InputIdentity::Source(digest) => Some(digest),
        InputIdentity::Artefact { .. } => None,
    }
}

/// One row per input of an artefact.
pub(super) fn inputs(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let (lineage, uses) = (known_lineage(catalog)?, latest_uses(catalog)?);
    let rows: Vec<_> = lineage
        .iter()
        .flat_map(|(name, identity)| identity.inputs.iter().map(move |(input, of)| (name, input, of)))
        .collect();
    let user = |kind: &str, key: &str| uses.get(&(kind, key)).copied();
    let reader = |(kind, key): &ArtefactName| user(kind, key.as_str());
    let producers = || rows.iter().map(|(_, _, of)| producer(of));
    let path = |name: &ArtefactName, input: &String| reader(name)?.sources.get(input);
    Ok(vec![
        ("stage", text_array(rows.iter().map(|(name, ..)| reader(name).map(|stage| &stage.name)))),
        ("kind", text_array(rows.iter().map(|(name, ..)| Some(&name.0)))),
        ("key", text_array(rows.iter().map(|(name, ..)| Some(name.1.as_str())))),
        ("input", text_array(rows.iter().map(|(_, input, _)| Some(input)))),
        ("input_stage", text_array(producers().map(|of| of.and_then(|of| user(of.0, of.1)).map(|stage| &stage.name)))),
        ("input_kind", text_array(producers().map(|of| of.map(|of| of.0)))),
        ("input_key", text_array(producers().map(|of| of.map(|of| of.1)))),
        ("input_table", text_array(producers().map(|of| of.map(|of| of.2)))),
        ("source_path", text_array(rows.iter().map(|(name, input, _)| path(name, input)))),
        ("source_digest", text_array(rows.iter().map(|(_, _, of)| digest(of)))),
    ])
}

/// Artefact or source that an artefact follows from.
struct LineageRow<'l> {
    name: &'l ArtefactName,
    distance: usize,
    /// Artefact that the row is about; for a source, the artefact that reads it.
    ancestor: ArtefactName,
    /// Input and digest of a source.
    source: Option<(&'l String, &'l str)>,
}

/// One row per artefact or source that an artefact follows from, at any distance.
pub(super) fn lineage(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let (lineage, uses) = (known_lineage(catalog)?, latest_uses(catalog)?);
    let mut rows = Vec::new();
    for (name, _) in lineage.iter() {
        let ancestors = lineage.ancestors(name).into_iter().map(|ancestor| (ancestor.name, ancestor.distance));
        for (ancestor, distance) in std::iter::once((name.clone(), 0)).chain(ancestors) {
            if distance > 0 {
                rows.push(LineageRow { name, distance, ancestor: ancestor.clone(), source: None });
            }
            for (input, of) in lineage.identity(&ancestor).iter().flat_map(|identity| &identity.inputs) {
                if let Some(digest) = digest(of) {
                    let (distance, ancestor, source) = (distance + 1, ancestor.clone(), Some((input, digest)));
                    rows.push(LineageRow { name, distance, ancestor, source });
                }
            }
        }
    }
    let stage = |(kind, key): &ArtefactName| uses.get(&(kind.as_str(), key.as_str())).copied();
    let path = |row: &LineageRow<'_>| stage(&row.ancestor)?.sources.get(row.source?.0);
    Ok(vec![
        ("stage", text_array(rows.iter().map(|row| stage(row.name).map(|stage| &stage.name)))),
        ("kind", text_array(rows.iter().map(|row| Some(&row.name.0)))),
        ("key", text_array(rows.iter().map(|row| Some(row.name.1.as_str())))),
        ("distance", int_array(rows.iter().map(|row| u64::try_from(row.distance).ok()))),
        ("ancestor_stage", text_array(rows.iter().map(|row| stage(&row.ancestor).map(|stage| &stage.name)))),
        ("ancestor_kind", text_array(rows.iter().map(|row| Some(&row.ancestor.0)))),
        ("ancestor_key", text_array(rows.iter().map(|row| Some(row.ancestor.1.as_str())))),
        ("source_input", text_array(rows.iter().map(|row| row.source.map(|source| source.0)))),
        ("source_path", text_array(rows.iter().map(path))),
        ("source_digest", text_array(rows.iter().map(|row| row.source.map(|source| source.1)))),
    ])
}

/// Function that computes the columns of a table.
type TableFn = fn(&StoreCatalog) -> Result<NamedColumns>;

/// Tables of the schema `store`.
const TABLES: [(&str, TableFn); 9] = [
    ("runs", runs),
    ("stages", stages),
    ("settings", settings),
    ("artefacts", artefacts),
    ("inputs", inputs),
    ("lineage", lineage),
    ("parts", parts),
    ("warnings", warnings),
    ("expectations", expectations),
];

/// Names of the tables.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|(name, _)| *name)
}

/// Rows of the table `store.NAME`; `None` if there is no such table.
///
/// # Errors
/// The store cannot be read.
pub(super) fn table(catalog: &StoreCatalog, name: &str) -> Result<Option<RecordBatch>> {
    let Some((_, columns)) = TABLES.iter().find(|(known, _)| *known == name) else { return Ok(None) };
    let columns = columns(catalog)?;
    let fields: Vec<Field> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    tables::batch(&Arc::new(Schema::new(fields)), columns).map(Some)
}

/// Description of a table of the store: its rows.
pub(super) fn table_description(table: &str) -> Option<&'static str> {
    Some(match table {
        "runs" => "One row per run, latest first.",
        "stages" => "One row per stage of a run.",
        "settings" => "One row per setting of a stage of a run, under a flat name.",
        "inputs" => "One row per input of an artefact: a table of another artefact, or a source.",
        "lineage" => {
            "One row per artefact or source that an artefact follows from, at any distance. A join with `store.stages` by `kind` and `key` selects a run."
        }
        "expectations" => "One row per expectation that a run checked.",
        "artefacts" => "One row per complete artefact: the result of a stage for certain settings and inputs.",
        "parts" => "One row per part of a table: a Parquet file.",
        "warnings" => "One row per warning of a complete artefact, or about the settings of a stage.",
        _ => return None,
    })
}

/// Description of a column of a table of the store.
pub(super) fn column_description(table: &str, column: &str) -> Option<&'static str> {
    Some(match (table, column) {
        ("artefacts", "seconds") => "Time that building the artefact took, in seconds.",
        ("artefacts", "finished") => "Time at which the artefact was complete, in UTC.",
        ("artefacts", "rows") => "Number of rows of all tables.",
        ("parts", "rows") => "Number of rows of the part.",
        ("stages", "seconds") => "Time that the stage took in this run, in seconds; missing if it was reused.",
        ("settings", "value") => "Value as text.",
        ("artefacts", "pinned") => "True if the artefact is pinned.",
        (_, "seconds") => "Duration of the run, in seconds.",
        (_, "repeat_of") => "First run of the pipeline with the same results, if the run changed nothing.",
        (_, "seed") => "Seed of the pipeline.",
        (_, "overrides") => "Arguments of `--set`, with a space between them.",
        (_, "command") => "Command that starts the run again.",
        (_, "device") => "Device of the tensors.",
        (_, "threads") => "Threads of a stage.",
        (_, "tags") => "Tags of the run, with a comma between them.",
        (_, "note") => "Note of the run.",
        (_, "pinned") => "True if the run is pinned.",
        (_, "metric") => "Name of the metric of `score`.",
        (_, "score") => "Best score of the run: of its evaluations, otherwise of its trainings.",
        (_, "score_stage") => "Stage that measured `score`.",
        (_, "score_of") => "Method or epoch of `score`.",
        (_, "setting") => "Name of the setting: `epochs`, `loss`, `loss.margin`.",
        (_, "number") => "Value as a number, if it is one.",
        (_, "input") => "Setting that names the input.",
        (_, "input_stage" | "ancestor_stage") => "Name of its stage in the latest run that has it.",
        (_, "input_kind" | "ancestor_kind") => "Kind of its stage.",
        (_, "input_key" | "ancestor_key") => "Its key.",
        (_, "input_table") => "Table or files that are read.",
        (_, "distance") => "Number of connections on the shortest way.",
        (_, "source_input") => "Setting that names the source, if the row is about one: the ancestor reads it.",
        (_, "source_path") => "Path of the source in the latest run that read it.",
        (_, "source_digest") => "Digest of the content of the source.",
        (_, "run") => "Name of the run: its start in UTC, and a suffix.",
        (_, "pipeline") => {
            "Pipeline file as the latest run named it, or its whole path if another pipeline has that name."
        }
        (_, "file") => "Canonical path of the pipeline file; missing for a pipe, and in records of older versions.",
        (_, "started") => "Start of the run, in UTC.",
        (_, "finished") => "End of the run, in UTC; missing while it runs.",
        (_, "outcome") => "`unfinished`, `finished`, `failed` or `interrupted`.",
        (_, "error") => "Error that ended the run.",
        (_, "stage") => "Name of the stage in the pipeline file; missing if no run uses the artefact.",
        (_, "kind") => "Kind of the stage: `train`, `evaluate`.",
        (_, "key") => "Key of the artefact: a hash of the stage's version, settings and inputs.",
        (_, "reused") => "True if the result of an earlier run was reused.",
        (_, "waited_for_storage") => "Time that a training waited for the store, in seconds.",
        (_, "waited_for_decode") => "Time that a training waited for decoding, in seconds.",
        (_, "trained") => "Time that a training computed, in seconds.",
        (_, "sql") => "Query of the expectation.",
        (_, "value") => "Value that the query gave; missing if it failed.",
        (_, "wanted") => "Wanted value.",
        (_, "held") => "True if the value was as expected.",
        (_, "version") => "Version of the stage.",
        (_, "settings") => "Settings that the key depends on, as JSON: `settings->>'epochs'`.",
        (_, "bytes") => "Size in bytes.",
        (_, "pairloom") => "Version of Pairloom.",
        (_, "table_name") => "Name of the table.",
        (_, "part") => "Number of the part, from 0.",
        (_, "digest") => "BLAKE3 digest of the file.",
        (_, "subject") => "File or row that the warning is about.",
        (_, "message") => "Text of the warning.",
        _ => return None,
    })
}
