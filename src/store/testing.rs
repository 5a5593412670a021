//! Stores written by hand, for tests of runs, labels, garbage collection and SQL.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

use super::key::{ArtefactIdentity, InputIdentity, Key};
use super::record::{RunCommand, RunOutcome, RunRecord, StageRecord};
use super::{Artefact, BlockDigests, Manifest, Part, Store};
use pairloom_stage::Warning;

/// Result of a stage to write: name, kind, settings, and stages of the same run that it reads.
#[derive(Debug)]
pub struct WrittenStage<'r> {
    /// Name in the run.
    pub name: &'r str,
    /// Kind.
    pub kind: &'r str,
    /// Settings.
    pub settings: Value,
    /// Stages that it reads.
    pub reads: &'r [&'r str],
    /// Name and content of a table of one part.
    pub table: (&'r str, Bytes, u64),
}

/// Stage without rows of interest.
pub fn stage<'r>(name: &'r str, kind: &'r str, settings: Value, reads: &'r [&'r str]) -> WrittenStage<'r> {
    WrittenStage { name, kind, settings, reads, table: ("rows", Bytes::from_static(b"content"), 1) }
}

/// Writes the artefacts of `stages` and the record of a finished run that computed them.
pub fn finished_run(store: &Store, run: &str, pipeline: &str, stages: &[WrittenStage<'_>]) -> RunRecord {
    let mut record = RunRecord::start(pipeline, RunCommand::default());
    run.clone_into(&mut record.run);
    record.outcome = RunOutcome::Finished;
    for result in stages {
        let inputs = result.reads.iter().map(|name| {
            let producer = record.stage(name).expect("the producer comes first");
            let (kind, key) = (producer.kind.clone(), producer.key.clone());
            ((*name).to_owned(), InputIdentity::Artefact { kind, key, output: producer.tables[0].clone() })
        });
        let mut inputs: BTreeMap<String, InputIdentity> = inputs.collect();
        let mut sources = BTreeMap::new();
        if result.reads.is_empty() {
            inputs.insert("file".to_owned(), InputIdentity::Source("0123456789abcdef".to_owned()));
            sources.insert("file".to_owned(), "data/captions.csv".to_owned());
        }
        let identity =
            ArtefactIdentity { kind: result.kind.to_owned(), version: 1, settings: result.settings.clone(), inputs };
        let (table, content, rows) = &result.table;
        let key = put_artefact(store, &identity, &[(*table, vec![(content.clone(), *rows)])], vec![]);
        record.stages.push(StageRecord {
            name: result.name.to_owned(),
            coordinates: vec![],
            kind: result.kind.to_owned(),
            key,
            identity: Some(identity),
            tables: vec![result.table.0.to_owned()],
            sources,
            warnings: vec![],
            reused: false,
            seconds: Some(1.0),
            stalls: None,
        });
    }
    record.save(store).expect("the store can be written");
    record
}

/// Writes a complete artefact. Each part is its content and its number of rows.
pub fn put_artefact(
    store: &Store,
    identity: &ArtefactIdentity,
    tables: &[(&str, Vec<(Bytes, u64)>)],
    warnings: Vec<Warning>,
) -> Key {
    let key = identity.key();
    let artefact = store.artefact(&identity.kind, &key);
    let mut parts_of = BTreeMap::new();
    for (table, parts) in tables {
        let write = |(index, (content, rows)): (usize, &(Bytes, u64))| {
            artefact.put(&Artefact::part_name(table, index), content.clone()).expect("the store can be written");
            let digest = blake3::hash(content).to_hex().to_string();
            Part {
                index,
                rows: *rows,
                bytes: content.len() as u64,
                digest,
                blocks: BlockDigests::of(content),
                key: None,
            }
        };
        parts_of.insert((*table).to_owned(), parts.iter().enumerate().map(write).collect::<Vec<_>>());
    }
    let manifest = Manifest {
        identity: identity.clone(),
        tables: parts_of,
        files: BTreeMap::new(),
        row_keys: BTreeMap::new(),
        warnings,
        seconds: 1.5,
        finished: "2026-01-02T03:04:05Z".parse().expect("a time"),
        pairloom: "0.1.0".to_owned(),
    };
    let manifest = serde_json::to_vec(&manifest).expect("JSON");
    artefact.put("manifest.json", manifest.into()).expect("the store can be written");
    key
}
