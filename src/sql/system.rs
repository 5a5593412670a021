//! The tables of the schema `store`: what the store knows of itself.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow::datatypes::{Field, Schema};

use crate::error::{Error, Result};
use crate::sql::names::Names;
use crate::store::Manifest;
use crate::store::key::Key;
use crate::store::record::Outcome;
use crate::tables;

/// The table `schema.table`, if it is one of [`SYSTEM_TABLES`](super::names::SYSTEM_TABLES).
pub(super) fn table(names: &Names, schema: &str, table: &str) -> Result<Option<RecordBatch>> {
    if schema != "store" {
        return Ok(None);
    }
    let columns = match table {
        "runs" => runs(names)?,
        "stages" => stages(names)?,
        "expectations" => expectations(names)?,
        "artefacts" => artefacts(names)?,
        "parts" => parts(names)?,
        "warnings" => warnings(names)?,
        _ => return Ok(None),
    };
    let fields: Vec<Field> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    tables::batch(&Arc::new(Schema::new(fields)), columns).map(Some)
}

type Columns = Vec<(&'static str, ArrayRef)>;

/// One row a run.
fn runs(names: &Names) -> Result<Columns> {
    let runs = names.records()?;
    Ok(vec![
        ("run", texts(runs.iter().map(|run| Some(run.run.clone())))),
        ("pipeline", texts(runs.iter().map(|run| Some(run.pipeline.clone())))),
        ("started", times(runs.iter().map(|run| Some(run.started)))),
        ("finished", times(runs.iter().map(|run| run.finished))),
        ("outcome", texts(runs.iter().map(|run| Some(outcome(run.outcome).to_owned())))),
        ("error", texts(runs.iter().map(|run| run.error.clone()))),
    ])
}

/// One row a stage of a run.
fn stages(names: &Names) -> Result<Columns> {
    let rows: Vec<_> =
        names.records()?.iter().flat_map(|run| run.stages.iter().map(move |stage| (run, stage))).collect();
    Ok(vec![
        ("run", texts(rows.iter().map(|(run, _)| Some(run.run.clone())))),
        ("stage", texts(rows.iter().map(|(_, stage)| Some(stage.name.clone())))),
        ("kind", texts(rows.iter().map(|(_, stage)| Some(stage.kind.clone())))),
        ("key", texts(rows.iter().map(|(_, stage)| Some(stage.key.to_string())))),
        ("reused", flags(rows.iter().map(|(_, stage)| stage.reused))),
        ("seconds", floats(rows.iter().map(|(_, stage)| stage.seconds))),
        ("waited_for_storage", floats(rows.iter().map(|(_, stage)| stage.stalls.map(|stalls| stalls.storage)))),
        ("waited_for_decode", floats(rows.iter().map(|(_, stage)| stage.stalls.map(|stalls| stalls.decode)))),
        ("trained", floats(rows.iter().map(|(_, stage)| stage.stalls.map(|stalls| stalls.trainer)))),
    ])
}

/// One row an expectation of a run.
fn expectations(names: &Names) -> Result<Columns> {
    let rows: Vec<_> =
        names.records()?.iter().flat_map(|run| run.expectations.iter().map(move |expected| (run, expected))).collect();
    Ok(vec![
        ("run", texts(rows.iter().map(|(run, _)| Some(run.run.clone())))),
        ("sql", texts(rows.iter().map(|(_, expected)| Some(expected.sql.clone())))),
        ("value", floats(rows.iter().map(|(_, expected)| expected.value))),
        ("wanted", texts(rows.iter().map(|(_, expected)| Some(expected.wanted.clone())))),
        ("held", flags(rows.iter().map(|(_, expected)| expected.held))),
    ])
}

/// One row a complete artefact.
fn artefacts(names: &Names) -> Result<Columns> {
    let rows = manifests(names)?;
    let mut columns = owners(rows.iter());
    columns.extend([
        ("version", ints(rows.iter().map(|row| u64::from(row.manifest.identity.version)))),
        ("settings", texts(rows.iter().map(|row| Some(row.manifest.identity.settings.to_string())))),
        ("rows", ints(rows.iter().map(|row| row.manifest.rows()))),
        ("bytes", ints(rows.iter().map(|row| row.manifest.bytes()))),
        ("seconds", floats(rows.iter().map(|row| Some(row.manifest.seconds)))),
        ("finished", times(rows.iter().map(|row| Some(row.manifest.finished)))),
        ("pairloom", texts(rows.iter().map(|row| Some(row.manifest.pairloom.clone())))),
    ]);
    Ok(columns)
}

/// One row a part of a table.
fn parts(names: &Names) -> Result<Columns> {
    let rows = manifests(names)?;
    let parts: Vec<_> = rows
        .iter()
        .flat_map(|row| row.manifest.tables.iter().map(move |(table, parts)| (row, table, parts)))
        .flat_map(|(row, table, parts)| parts.iter().map(move |part| (row, table, part)))
        .collect();
    let mut columns = owners(parts.iter().map(|(row, _, _)| *row));
    columns.extend([
        ("table_name", texts(parts.iter().map(|(_, table, _)| Some((*table).clone())))),
        ("part", ints(parts.iter().map(|(_, _, part)| part.index as u64))),
        ("rows", ints(parts.iter().map(|(_, _, part)| part.rows))),
        ("bytes", ints(parts.iter().map(|(_, _, part)| part.bytes))),
        ("digest", texts(parts.iter().map(|(_, _, part)| Some(part.digest.clone())))),
    ]);
    Ok(columns)
}

/// One row a warning of a complete artefact.
fn warnings(names: &Names) -> Result<Columns> {
    let rows = manifests(names)?;
    let warnings: Vec<_> =
        rows.iter().flat_map(|row| row.manifest.warnings.iter().map(move |warning| (row, warning))).collect();
    let mut columns = owners(warnings.iter().map(|(row, _)| *row));
    columns.extend([
        ("subject", texts(warnings.iter().map(|(_, warning)| Some(warning.subject.clone())))),
        ("message", texts(warnings.iter().map(|(_, warning)| Some(warning.message.clone())))),
    ]);
    Ok(columns)
}

/// A complete artefact.
struct Row {
    /// The stage that has it now, if any.
    stage: Option<String>,
    kind: String,
    key: String,
    manifest: Manifest,
}

/// Every complete artefact of the store, by kind and key.
fn manifests(names: &Names) -> Result<Vec<Row>> {
    let stages = names.stages()?;
    let owners: HashMap<(&str, &Key), &String> =
        stages.iter().map(|(name, (kind, key, _))| ((kind.as_str(), key), name)).collect();
    let mut rows = Vec::new();
    let Some(store) = names.store() else { return Ok(rows) };
    for object in store.objects().list("")? {
        let pieces: Vec<&str> = object.split('/').collect();
        let [kind, key, "manifest.json"] = pieces[..] else { continue };
        let Some(content) = store.objects().get(&object)? else { continue };
        let manifest: Manifest = serde_json::from_slice(&content)
            .map_err(|error| Error::data(format!("`{object}` is not a manifest: {error}")))?;
        let stage = owners.get(&(kind, &manifest.identity.key())).map(|&name| name.clone());
        rows.push(Row { stage, kind: kind.to_owned(), key: key.to_owned(), manifest });
    }
    Ok(rows)
}

fn owners<'r>(rows: impl Iterator<Item = &'r Row> + Clone) -> Columns {
    vec![
        ("stage", texts(rows.clone().map(|row| row.stage.clone()))),
        ("kind", texts(rows.clone().map(|row| Some(row.kind.clone())))),
        ("key", texts(rows.map(|row| Some(row.key.clone())))),
    ]
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unfinished => "unfinished",
        Outcome::Finished => "finished",
        Outcome::Failed => "failed",
        Outcome::Interrupted => "interrupted",
    }
}

fn texts(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn floats(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

fn flags(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<BooleanArray>())
}

fn ints(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(values.map(|value| i64::try_from(value).ok()).collect::<Int64Array>())
}

fn times(values: impl Iterator<Item = Option<jiff::Timestamp>>) -> ArrayRef {
    let times: TimestampMillisecondArray = values.map(|time| time.map(jiff::Timestamp::as_millisecond)).collect();
    Arc::new(times.with_timezone("+00:00"))
}
