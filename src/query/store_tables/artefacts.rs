//! Tables of the complete artefacts of a store.

use std::collections::BTreeMap;

use super::columns::{NamedColumns, bool_array, float_array, int_array, text_array, timestamp_array};
use super::runs::latest_uses;
use crate::catalog::StoreCatalog;
use pairloom_base::error::Result;
use pairloom_store::Manifest;
use pairloom_store::labels::Labels;

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
