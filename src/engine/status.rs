//! What a run would do: for each stage, whether its artefact is there, and if not, why.

use std::collections::{BTreeMap, HashMap};

use crate::engine::event::Observer;
use crate::engine::sources;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::runtime::Cancel;
use crate::stage::{Origin, Stage};
use crate::store::journal;
use crate::store::key::{Identity, InputIdentity, Key};
use crate::store::record::{RunRecord, records};
use crate::store::{Artefact, Manifest, Presence, Store};

/// What a run would do about one stage.
#[derive(Debug, Clone)]
pub struct StageStatus {
    /// Its name in the pipeline file.
    pub name: String,
    /// Its verb.
    pub kind: String,
    /// What its artefact is made of.
    pub identity: Identity,
    /// The key of its artefact.
    pub key: Key,
    /// What would be done.
    pub verdict: Verdict,
    /// Why; empty for a reuse.
    pub reasons: Vec<String>,
}

/// What would be done about a stage.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// Its artefact is in the store.
    Reuse(Box<Manifest>),
    /// It goes on after this many rows that an earlier run committed.
    Resume {
        /// Rows of all tables.
        rows: u64,
    },
    /// It runs from its beginning.
    Run,
}

impl StageStatus {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_reuse(&self) -> bool {
        matches!(self.verdict, Verdict::Reuse(_))
    }

    /// The place of its artefact.
    #[must_use]
    pub fn artefact(&self, store: &Store) -> Artefact {
        store.artefact(&self.kind, &self.key)
    }
}

/// What a run would do about every stage of the plan, in its order. Reads sources to know their digests; writes nothing
/// but the record of these.
///
/// # Errors
/// A source is missing, or the store cannot be read.
pub fn status<S: Stage>(
    plan: &Plan<S>,
    store: &Store,
    threads: usize,
    cancel: &Cancel,
    observer: &Observer<'_>,
) -> Result<Vec<StageStatus>> {
    let mut done: Vec<StageStatus> = Vec::new();
    let mut digests = HashMap::new();
    let mut history = History::default();
    for node in plan.nodes() {
        let mut inputs = BTreeMap::new();
        for input in node.stage.inputs() {
            let identity = match &input.origin {
                Origin::Source(source) => {
                    let path = source.path().to_owned();
                    if !digests.contains_key(&path) {
                        let digest = sources::digest(store, &path, threads, cancel, observer)
                            .map_err(|error| error.context(format!("stage `{}`, `{}`", node.name, input.name)))?;
                        digests.insert(path.clone(), digest);
                    }
                    InputIdentity::Source(digests[&path].clone())
                }
                Origin::Table { from, .. } | Origin::Files { from } => {
                    let producer = done.iter().find(|status| status.name == from.stage());
                    let producer = producer.ok_or_else(|| Error::internal("a producer comes after its consumer"))?;
                    InputIdentity::Artefact {
                        kind: producer.kind.clone(),
                        key: producer.key.clone(),
                        output: from.table().to_owned(),
                    }
                }
            };
            inputs.insert(input.name, identity);
        }
        let kind = node.stage.kind().to_owned();
        let identity =
            Identity { kind: kind.clone(), version: node.stage.version(), settings: node.stage.settings(), inputs };
        let key = identity.key();
        let artefact = store.artefact(&kind, &key);
        let (verdict, reasons) = match artefact.presence()? {
            Presence::Complete(manifest) => (Verdict::Reuse(manifest), vec![]),
            Presence::Damaged(problem) => (Verdict::Run, vec![format!("the earlier result is damaged: {problem}")]),
            Presence::Absent => match journal::fold(&artefact)? {
                committed if committed.entries > 0 => {
                    let rows = committed.rows();
                    (Verdict::Resume { rows }, vec![format!("an earlier run was interrupted after {rows} rows")])
                }
                _ => (Verdict::Run, history.reasons(store, &node.name, &identity, &key)?),
            },
        };
        done.push(StageStatus { name: node.name.clone(), kind, identity, key, verdict, reasons });
    }
    Ok(done)
}

/// Earlier runs, read only when somebody asks why a stage runs.
#[derive(Default)]
struct History(Option<Vec<RunRecord>>);

/// Runs that are looked at for a stage of the same name.
const RUNS_LOOKED_AT: usize = 50;

impl History {
    fn reasons(&mut self, store: &Store, name: &str, identity: &Identity, key: &Key) -> Result<Vec<String>> {
        if self.0.is_none() {
            self.0 = Some(records(store)?.take(RUNS_LOOKED_AT).collect());
        }
        let stages = self.0.iter().flatten().flat_map(|run| &run.stages).filter(|stage| stage.name == name);
        for stage in stages {
            if stage.key == *key {
                return Ok(vec!["it was started before and committed nothing, or its result was removed".to_owned()]);
            }
            if let Some(before) = store.artefact(&stage.kind, &stage.key).manifest()? {
                return Ok(identity.changes_since(&before.identity));
            }
        }
        Ok(vec!["there is no earlier result".to_owned()])
    }
}
