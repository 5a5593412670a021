//! Tables of the schema `store`: runs, stages, expectations, artefacts, parts and warnings.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow::datatypes::{Field, Schema};

use crate::error::{Error, Result};
use crate::sql::catalog::StoreCatalog;
use crate::store::Manifest;
use crate::store::key::Key;
use crate::store::record::RunOutcome;
use crate::tables;

/// Rows of the table `schema.table`; `None` if it is none of [`STORE_TABLES`](super::catalog::STORE_TABLES).
pub(super) fn table(catalog: &StoreCatalog, schema: &str, table: &str) -> Result<Option<RecordBatch>> {
    if schema != "store" {
        return Ok(None);
    }
    let columns = match table {
        "runs" => runs(catalog)?,
        "stages" => stages(catalog)?,
        "expectations" => expectations(catalog)?,
        "artefacts" => artefacts(catalog)?,
        "parts" => parts(catalog)?,
        "warnings" => warnings(catalog)?,
        _ => return Ok(None),
    };
    let fields: Vec<Field> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    tables::batch(&Arc::new(Schema::new(fields)), columns).map(Some)
}

type NamedColumns = Vec<(&'static str, ArrayRef)>;

/// One row per run.
fn runs(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let runs = catalog.records()?;
    Ok(vec![
        ("run", text_array(runs.iter().map(|run| Some(run.run.clone())))),
        ("pipeline", text_array(runs.iter().map(|run| Some(run.pipeline.clone())))),
        ("started", timestamp_array(runs.iter().map(|run| Some(run.started)))),
        ("finished", timestamp_array(runs.iter().map(|run| run.finished))),
        ("outcome", text_array(runs.iter().map(|run| Some(outcome_name(run.outcome).to_owned())))),
        ("error", text_array(runs.iter().map(|run| run.error.clone()))),
    ])
}

/// One row per stage of a run.
fn stages(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let rows: Vec<_> =
        catalog.records()?.iter().flat_map(|run| run.stages.iter().map(move |stage| (run, stage))).collect();
    Ok(vec![
        ("run", text_array(rows.iter().map(|(run, _)| Some(run.run.clone())))),
        ("stage", text_array(rows.iter().map(|(_, stage)| Some(stage.name.clone())))),
        ("kind", text_array(rows.iter().map(|(_, stage)| Some(stage.kind.clone())))),
        ("key", text_array(rows.iter().map(|(_, stage)| Some(stage.key.to_string())))),
        ("reused", bool_array(rows.iter().map(|(_, stage)| stage.reused))),
        ("seconds", float_array(rows.iter().map(|(_, stage)| stage.seconds))),
        ("waited_for_storage", float_array(rows.iter().map(|(_, stage)| stage.stalls.map(|stalls| stalls.storage)))),
        ("waited_for_decode", float_array(rows.iter().map(|(_, stage)| stage.stalls.map(|stalls| stalls.decode)))),
        ("trained", float_array(rows.iter().map(|(_, stage)| stage.stalls.map(|stalls| stalls.trainer)))),
    ])
}

/// One row per expectation of a run.
fn expectations(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let rows: Vec<_> = catalog
        .records()?
        .iter()
        .flat_map(|run| run.expectations.iter().map(move |expected| (run, expected)))
        .collect();
    Ok(vec![
        ("run", text_array(rows.iter().map(|(run, _)| Some(run.run.clone())))),
        ("sql", text_array(rows.iter().map(|(_, expected)| Some(expected.sql.clone())))),
        ("value", float_array(rows.iter().map(|(_, expected)| expected.value))),
        ("wanted", text_array(rows.iter().map(|(_, expected)| Some(expected.wanted.clone())))),
        ("held", bool_array(rows.iter().map(|(_, expected)| expected.held))),
    ])
}

/// One row per complete artefact.
fn artefacts(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let rows = artefact_rows(catalog)?;
    let mut columns = artefact_columns(rows.iter());
    columns.extend([
        ("version", int_array(rows.iter().map(|row| u64::from(row.manifest.identity.version)))),
        ("settings", text_array(rows.iter().map(|row| Some(row.manifest.identity.settings.to_string())))),
        ("rows", int_array(rows.iter().map(|row| row.manifest.rows()))),
        ("bytes", int_array(rows.iter().map(|row| row.manifest.bytes()))),
        ("seconds", float_array(rows.iter().map(|row| Some(row.manifest.seconds)))),
        ("finished", timestamp_array(rows.iter().map(|row| Some(row.manifest.finished)))),
        ("pairloom", text_array(rows.iter().map(|row| Some(row.manifest.pairloom.clone())))),
    ]);
    Ok(columns)
}

/// One row per part of a table.
fn parts(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let rows = artefact_rows(catalog)?;
    let parts: Vec<_> = rows
        .iter()
        .flat_map(|row| row.manifest.tables.iter().map(move |(table, parts)| (row, table, parts)))
        .flat_map(|(row, table, parts)| parts.iter().map(move |part| (row, table, part)))
        .collect();
    let mut columns = artefact_columns(parts.iter().map(|(row, _, _)| *row));
    columns.extend([
        ("table_name", text_array(parts.iter().map(|(_, table, _)| Some((*table).clone())))),
        ("part", int_array(parts.iter().map(|(_, _, part)| part.index as u64))),
        ("rows", int_array(parts.iter().map(|(_, _, part)| part.rows))),
        ("bytes", int_array(parts.iter().map(|(_, _, part)| part.bytes))),
        ("digest", text_array(parts.iter().map(|(_, _, part)| Some(part.digest.clone())))),
    ]);
    Ok(columns)
}

/// One row per warning of a complete artefact.
fn warnings(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let rows = artefact_rows(catalog)?;
    let warnings: Vec<_> =
        rows.iter().flat_map(|row| row.manifest.warnings.iter().map(move |warning| (row, warning))).collect();
    let mut columns = artefact_columns(warnings.iter().map(|(row, _)| *row));
    columns.extend([
        ("subject", text_array(warnings.iter().map(|(_, warning)| Some(warning.subject.clone())))),
        ("message", text_array(warnings.iter().map(|(_, warning)| Some(warning.message.clone())))),
    ]);
    Ok(columns)
}

/// Complete artefact.
struct ArtefactRow {
    /// Name of the stage that uses the artefact in the latest runs, if any.
    stage: Option<String>,
    kind: String,
    key: String,
    manifest: Manifest,
}

/// All complete artefacts of the store, ordered by kind and key.
fn artefact_rows(catalog: &StoreCatalog) -> Result<Vec<ArtefactRow>> {
    let stages = catalog.stages()?;
    let owners: HashMap<(&str, &Key), &String> =
        stages.iter().map(|(name, (kind, key, _))| ((kind.as_str(), key), name)).collect();
    let mut rows = Vec::new();
    let Some(store) = catalog.store() else { return Ok(rows) };
    for object in store.objects().list("")? {
        let pieces: Vec<&str> = object.split('/').collect();
        let [kind, key, "manifest.json"] = pieces[..] else { continue };
        let Some(content) = store.objects().get(&object)? else { continue };
        let manifest: Manifest = serde_json::from_slice(&content)
            .map_err(|error| Error::data(format!("`{object}` is not a manifest: {error}")))?;
        let stage = owners.get(&(kind, &manifest.identity.key())).map(|&name| name.clone());
        rows.push(ArtefactRow { stage, kind: kind.to_owned(), key: key.to_owned(), manifest });
    }
    Ok(rows)
}

fn artefact_columns<'r>(rows: impl Iterator<Item = &'r ArtefactRow> + Clone) -> NamedColumns {
    vec![
        ("stage", text_array(rows.clone().map(|row| row.stage.clone()))),
        ("kind", text_array(rows.clone().map(|row| Some(row.kind.clone())))),
        ("key", text_array(rows.map(|row| Some(row.key.clone())))),
    ]
}

fn outcome_name(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Unfinished => "unfinished",
        RunOutcome::Finished => "finished",
        RunOutcome::Failed => "failed",
        RunOutcome::Interrupted => "interrupted",
    }
}

fn text_array(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn float_array(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

fn bool_array(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<BooleanArray>())
}

fn int_array(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(values.map(|value| i64::try_from(value).ok()).collect::<Int64Array>())
}

fn timestamp_array(values: impl Iterator<Item = Option<jiff::Timestamp>>) -> ArrayRef {
    let times: TimestampMillisecondArray = values.map(|time| time.map(jiff::Timestamp::as_millisecond)).collect();
    Arc::new(times.with_timezone("+00:00"))
}
