//! Tables of the connections between artefacts.

use super::columns::{NamedColumns, int_array, text_array};
use super::runs::latest_uses;
use crate::catalog::StoreCatalog;
use pairloom_base::error::Result;
use pairloom_store::key::InputIdentity;
use pairloom_store::lineage::{ArtefactName, Lineage};

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
