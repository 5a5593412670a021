//! Tables of the connections between artefacts.

use std::collections::HashMap;

use super::columns::{NamedColumns, int_array, text_array};
use super::{artefacts, runs};
use crate::error::Result;
use crate::sql::catalog::StoreCatalog;
use crate::store::key::InputIdentity;
use crate::store::lineage::{ArtefactName, Lineage};

/// Path of each source in the latest run that read it, by kind and key of the reader and name of the input.
fn source_paths(catalog: &StoreCatalog) -> Result<HashMap<(&str, &str, &str), &str>> {
    let mut paths = HashMap::new();
    for stage in runs::records(catalog)?.into_iter().flat_map(|run| &run.stages) {
        for (input, path) in &stage.sources {
            paths.entry((stage.kind.as_str(), stage.key.as_str(), input.as_str())).or_insert(path.as_str());
        }
    }
    Ok(paths)
}

/// Lineage of all artefacts that runs used.
fn known_lineage(catalog: &StoreCatalog) -> Result<Lineage> {
    catalog.log().map_or_else(|| Ok(Lineage::default()), Lineage::of_runs)
}

/// One row per input of an artefact.
pub(super) fn inputs(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let (lineage, names, paths) = (known_lineage(catalog)?, artefacts::stage_names(catalog)?, source_paths(catalog)?);
    let rows: Vec<_> = lineage
        .iter()
        .flat_map(|(name, identity)| identity.inputs.iter().map(move |(input, of)| (name, input, of)))
        .collect();
    let stage = |(kind, key): &ArtefactName| names.get(&(kind.as_str(), key.as_str())).copied();
    let producer = |of: &InputIdentity| match of {
        InputIdentity::Artefact { kind, key, output } => Some((kind.clone(), key.clone(), output.clone())),
        InputIdentity::Source(_) => None,
    };
    let producers: Vec<_> = rows.iter().map(|(_, _, of)| producer(of)).collect();
    let digest = |of: &InputIdentity| match of {
        InputIdentity::Source(digest) => Some(digest.clone()),
        InputIdentity::Artefact { .. } => None,
    };
    let path = |name: &ArtefactName, input: &str| paths.get(&(name.0.as_str(), name.1.as_str(), input)).copied();
    Ok(vec![
        ("stage", text_array(rows.iter().map(|row| stage(row.0)))),
        ("kind", text_array(rows.iter().map(|row| Some(&row.0.0)))),
        ("key", text_array(rows.iter().map(|row| Some(row.0.1.as_str())))),
        ("input", text_array(rows.iter().map(|row| Some(row.1)))),
        (
            "input_stage",
            text_array(producers.iter().map(|of| of.as_ref().and_then(|of| stage(&(of.0.clone(), of.1.clone()))))),
        ),
        ("input_kind", text_array(producers.iter().map(|of| of.as_ref().map(|of| &of.0)))),
        ("input_key", text_array(producers.iter().map(|of| of.as_ref().map(|of| of.1.as_str())))),
        ("input_table", text_array(producers.iter().map(|of| of.as_ref().map(|of| &of.2)))),
        ("source_path", text_array(rows.iter().map(|row| path(row.0, row.1)))),
        ("source_digest", text_array(rows.iter().map(|row| digest(row.2)))),
    ])
}

/// Artefact or source that an artefact follows from.
struct LineageRow {
    name: ArtefactName,
    distance: usize,
    /// Artefact that the row is about; for a source, the artefact that reads it.
    ancestor: ArtefactName,
    /// Input, path and digest of a source.
    source: Option<(String, Option<String>, String)>,
}

/// One row per artefact or source that an artefact follows from, at any distance.
pub(super) fn lineage(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let (lineage, names, paths) = (known_lineage(catalog)?, artefacts::stage_names(catalog)?, source_paths(catalog)?);
    let mut rows = Vec::new();
    for (name, _) in lineage.iter() {
        let ancestors = lineage.ancestors(name).into_iter().map(|ancestor| (ancestor.name, ancestor.distance));
        for (ancestor, distance) in std::iter::once((name.clone(), 0)).chain(ancestors) {
            if distance > 0 {
                rows.push(LineageRow { name: name.clone(), distance, ancestor: ancestor.clone(), source: None });
            }
            for (input, of) in lineage.identity(&ancestor).iter().flat_map(|identity| &identity.inputs) {
                let InputIdentity::Source(digest) = of else { continue };
                let path = paths.get(&(ancestor.0.as_str(), ancestor.1.as_str(), input.as_str()));
                let source = Some((input.clone(), path.map(|path| (*path).to_owned()), digest.clone()));
                rows.push(LineageRow {
                    name: name.clone(),
                    distance: distance + 1,
                    ancestor: ancestor.clone(),
                    source,
                });
            }
        }
    }
    let stage = |(kind, key): &ArtefactName| names.get(&(kind.as_str(), key.as_str())).copied();
    let source = |row: &LineageRow| row.source.clone();
    Ok(vec![
        ("stage", text_array(rows.iter().map(|row| stage(&row.name)))),
        ("kind", text_array(rows.iter().map(|row| Some(&row.name.0)))),
        ("key", text_array(rows.iter().map(|row| Some(row.name.1.as_str())))),
        ("distance", int_array(rows.iter().map(|row| u64::try_from(row.distance).ok()))),
        ("ancestor_stage", text_array(rows.iter().map(|row| stage(&row.ancestor)))),
        ("ancestor_kind", text_array(rows.iter().map(|row| Some(&row.ancestor.0)))),
        ("ancestor_key", text_array(rows.iter().map(|row| Some(row.ancestor.1.as_str())))),
        ("source_input", text_array(rows.iter().map(|row| source(row).map(|source| source.0)))),
        ("source_path", text_array(rows.iter().map(|row| source(row).and_then(|source| source.1)))),
        ("source_digest", text_array(rows.iter().map(|row| source(row).map(|source| source.2)))),
    ])
}
