//! Stores written by hand, for tests of runs, labels, garbage collection and SQL.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

use super::key::{ArtefactIdentity, InputIdentity, Key};
use super::record::{RunCommand, RunOutcome, RunRecord, StageRecord};
use super::{Artefact, Manifest, Part, Store};

/// Result of a stage to write: name, kind, settings, and stages of the same run that it reads.
pub(crate) struct WrittenStage<'r> {
    pub(crate) name: &'r str,
    pub(crate) kind: &'r str,
    pub(crate) settings: Value,
    pub(crate) reads: &'r [&'r str],
    /// Name and content of a table of one part.
    pub(crate) table: (&'r str, Bytes, u64),
}

/// Stage without rows of interest.
pub(crate) fn stage<'r>(name: &'r str, kind: &'r str, settings: Value, reads: &'r [&'r str]) -> WrittenStage<'r> {
    WrittenStage { name, kind, settings, reads, table: ("rows", Bytes::from_static(b"content"), 1) }
}

/// Writes the artefacts of `stages` and the record of a finished run that computed them.
pub(crate) fn finished_run(store: &Store, run: &str, pipeline: &str, stages: &[WrittenStage<'_>]) -> RunRecord {
    let mut record = RunRecord::start(pipeline, RunCommand::default());
    record.run = run.to_owned();
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
        let key = identity.key();
        put_artefact(store, &identity, &key, &result.table);
        record.stages.push(StageRecord {
            name: result.name.to_owned(),
            kind: result.kind.to_owned(),
            key,
            identity: Some(identity),
            tables: vec![result.table.0.to_owned()],
            sources,
            reused: false,
            seconds: Some(1.0),
            stalls: None,
        });
    }
    record.save(store).expect("the store can be written");
    record
}

fn put_artefact(store: &Store, identity: &ArtefactIdentity, key: &Key, (table, content, rows): &(&str, Bytes, u64)) {
    let artefact = store.artefact(&identity.kind, key);
    artefact.put(&Artefact::part_name(table, 0), content.clone()).expect("the store can be written");
    let digest = blake3::hash(content).to_hex().to_string();
    let part = Part { index: 0, rows: *rows, bytes: content.len() as u64, digest };
    let manifest = Manifest {
        identity: identity.clone(),
        tables: [((*table).to_owned(), vec![part])].into(),
        files: BTreeMap::new(),
        warnings: vec![],
        seconds: 1.0,
        finished: "2026-01-02T03:04:05Z".parse().expect("a time"),
        pairloom: "0.1.0".to_owned(),
    };
    let manifest = serde_json::to_vec(&manifest).expect("JSON");
    artefact.put("manifest.json", manifest.into()).expect("the store can be written");
}
