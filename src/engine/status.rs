//! Status of the stages of a plan: reuse, resume or run, the reasons, and the lineage by their identities.

use std::collections::{BTreeMap, HashMap};

use crate::earlier_rows::{self, NewRows};
use crate::event::Observer;
use crate::sources::{self, SourceReading};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_stage::plan::Plan;
use pairloom_stage::{
    AncestorArtefact, AncestorInput, Coordinate, InputOrigin, OutputKind, Problem, Stage, StageLineage, TableRef,
    Warning,
};
use pairloom_store::key::{ArtefactIdentity, InputIdentity, Key};
use pairloom_store::record::{RunLog, RunRecord, StageRecord};
use pairloom_store::{Artefact, Manifest, Presence, Store, journal};

/// Status of a stage before a run.
#[derive(Debug, Clone)]
pub struct StageStatus {
    /// Name in the pipeline file.
    pub name: String,
    /// Coordinates in the matrix of the pipeline; empty for a stage that is not repeated.
    pub coordinates: Vec<Coordinate>,
    /// Kind of the stage.
    pub kind: String,
    /// Identity of its artefact.
    pub identity: ArtefactIdentity,
    /// Names of the tables that it writes.
    pub tables: Vec<String>,
    /// Paths of its sources, by name of the input.
    pub sources: BTreeMap<String, String>,
    /// Warnings about its settings. The subject is the setting.
    pub warnings: Vec<Warning>,
    /// Key of its artefact.
    pub key: Key,
    /// Action of a run.
    pub action: StageAction,
    /// Reasons for the action; empty for a reuse.
    pub reasons: Vec<String>,
    /// Rows that a run would compute, if it would copy some from earlier results.
    pub new_rows: Option<NewRows>,
}

/// Action of a run for a stage.
#[derive(Debug, Clone)]
pub enum StageAction {
    /// Use the artefact that is in the store.
    Reuse(Box<Manifest>),
    /// Continue an artefact that an earlier run did not finish.
    Resume {
        /// Committed rows of all tables.
        rows: u64,
    },
    /// Run the stage from the start.
    Run,
}

impl StageStatus {
    /// Returns true if the stage need not run.
    #[must_use]
    pub fn is_reuse(&self) -> bool {
        matches!(self.action, StageAction::Reuse(_))
    }

    /// Manifest of the result, if it is in the store already.
    #[must_use]
    pub fn reused(&self) -> Option<&Manifest> {
        match &self.action {
            StageAction::Reuse(manifest) => Some(manifest),
            _ => None,
        }
    }

    /// Artefact of the stage, which may be absent.
    #[must_use]
    pub fn artefact(&self, store: &Store) -> Artefact {
        store.artefact(&self.kind, &self.key)
    }
}

/// Status of every stage of the plan, in its order. Earlier runs of the pipeline with the identity `pipeline` tell what
/// has changed. Reads the sources to compute their digests, and writes only the record of these digests; in a read-only
/// store, nothing.
///
/// # Errors
/// A source is missing, or the store cannot be read.
pub fn stage_statuses<S: Stage>(
    plan: &Plan<S>,
    store: &Store,
    pipeline: &str,
    reading: SourceReading,
    cancel: &CancelToken,
    observer: &Observer<'_>,
) -> Result<Vec<StageStatus>> {
    let mut done: Vec<StageStatus> = Vec::new();
    let mut contents = HashMap::new();
    let mut history = RunHistory::default();
    for node in plan.stages() {
        let (mut inputs, mut sources_read) = (BTreeMap::new(), BTreeMap::new());
        for input in node.stage.inputs() {
            let identity = match &input.origin {
                InputOrigin::Source(source) => {
                    let path = source.path().to_owned();
                    sources_read.insert(input.name.clone(), path.display().to_string());
                    if !contents.contains_key(&path) {
                        let content = sources::read_source(store, &path, reading, cancel, observer)
                            .map_err(|error| error.context(format!("stage `{}`, `{}`", node.name, input.name)))?;
                        contents.insert(path.clone(), content);
                    }
                    InputIdentity::Source(contents[&path].digest.clone())
                }
                InputOrigin::Table { from, .. } | InputOrigin::Files { from, .. } => {
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
        let identity = ArtefactIdentity {
            kind: kind.clone(),
            version: node.stage.version(),
            settings: node.stage.settings(),
            inputs,
        };
        let key = identity.key();
        let artefact = store.artefact(&kind, &key);
        let (verdict, mut reasons) = match artefact.presence()? {
            Presence::Complete(manifest) => (StageAction::Reuse(manifest), vec![]),
            Presence::Damaged(problem) => (StageAction::Run, vec![format!("the earlier result is damaged: {problem}")]),
            Presence::Absent => match journal::replay(&artefact)? {
                committed if committed.entries > 0 => {
                    let rows = committed.rows();
                    let unit = if rows == 1 { "row" } else { "rows" };
                    (StageAction::Resume { rows }, vec![format!("an earlier run was interrupted after {rows} {unit}")])
                }
                _ => (StageAction::Run, history.reasons(store, (pipeline, &node.name), &identity, &key)?),
            },
        };
        let mut new_rows = None;
        if matches!(verdict, StageAction::Run) {
            let producer = |from: &TableRef| {
                let status = done.iter().find(|status| status.name == from.stage())?;
                Some((status.artefact(store), status.reused().cloned()))
            };
            new_rows = earlier_rows::count_new_rows(node, &identity, plan, store, &contents, producer)?;
            reasons.extend(new_rows.as_ref().map(ToString::to_string));
        }
        let outputs = node.stage.outputs().into_iter();
        let tables = outputs.filter(|output| matches!(output.kind, OutputKind::Table { .. }));
        let tables = tables.map(|output| output.name.to_owned()).collect();
        let own = plan.warnings().iter().filter(|warning| warning.stage == node.name);
        let warning =
            |problem: &Problem| Warning { subject: problem.setting.clone(), message: problem.message.clone() };
        let warnings = own.map(|found| warning(&found.problem)).collect();
        let (name, coordinates, sources) = (node.name.clone(), node.coordinates.clone(), sources_read);
        done.push(StageStatus {
            name,
            coordinates,
            kind,
            identity,
            tables,
            sources,
            warnings,
            key,
            action: verdict,
            reasons,
            new_rows,
        });
    }
    Ok(done)
}

/// Stages of earlier runs by name, read on first use: those of the pipeline first, each group from the last run on.
#[derive(Default)]
struct RunHistory(Option<HashMap<String, Vec<StageRecord>>>);

/// Number of recent runs that are searched for a stage with the same name.
const HISTORY_LIMIT: usize = 50;

impl RunHistory {
    fn read(store: &Store, pipeline: &str) -> Result<HashMap<String, Vec<StageRecord>>> {
        let log = RunLog::open(store)?;
        let recent: Vec<&RunRecord> = log.readable().take(HISTORY_LIMIT).collect();
        // A stage of the same name in another pipeline is another stage, unless this pipeline has no run.
        let own = recent.iter().filter(|run| run.pipeline_identity() == pipeline);
        let others = recent.iter().filter(|run| run.pipeline_identity() != pipeline);
        let mut stages: HashMap<String, Vec<StageRecord>> = HashMap::new();
        for stage in own.chain(others).flat_map(|run| &run.stages) {
            stages.entry(stage.name.clone()).or_default().push(stage.clone());
        }
        Ok(stages)
    }

    fn reasons(
        &mut self,
        store: &Store,
        (pipeline, name): (&str, &str),
        identity: &ArtefactIdentity,
        key: &Key,
    ) -> Result<Vec<String>> {
        if self.0.is_none() {
            self.0 = Some(Self::read(store, pipeline)?);
        }
        let known = self.0.as_ref().and_then(|stages| stages.get(name)).map_or(&[][..], Vec::as_slice);
        let had_result = |stage: &StageRecord| stage.key == *key && (stage.reused || stage.seconds.is_some());
        if known.iter().any(had_result) {
            return Ok(vec!["its result was removed".to_owned()]);
        }
        for stage in known {
            if stage.key == *key {
                return Ok(vec!["an earlier run ended before it had a result".to_owned()]);
            }
            if let Some(before) = stage.identity(store)? {
                return Ok(identity.changes_since(&before));
            }
        }
        Ok(vec!["there is no earlier result".to_owned()])
    }
}

/// Lineage of the stage with this identity. `statuses` are the stages that it may follow from.
pub(super) fn stage_lineage(identity: &ArtefactIdentity, statuses: &[StageStatus]) -> StageLineage {
    let mut artefacts = Vec::new();
    add_producers(identity, statuses, &mut artefacts);
    StageLineage { inputs: inputs(identity), artefacts }
}

/// Adds the producers of all inputs to `found`, after everything that they follow from. The inputs are visited in the
/// order of their names: the names of the stages and their order in the pipeline file are not part of the key.
fn add_producers(identity: &ArtefactIdentity, statuses: &[StageStatus], found: &mut Vec<AncestorArtefact>) {
    for input in identity.inputs.values() {
        let InputIdentity::Artefact { key, .. } = input else { continue };
        if found.iter().any(|ancestor| ancestor.key == key.as_str()) {
            continue;
        }
        if let Some(status) = statuses.iter().find(|status| status.key == *key) {
            add_producers(&status.identity, statuses, found);
            found.push(ancestor(key, &status.identity));
        }
    }
}

fn ancestor(key: &Key, identity: &ArtefactIdentity) -> AncestorArtefact {
    let ArtefactIdentity { kind, version, settings, .. } = identity;
    let (kind, key, settings) = (kind.clone(), key.to_string(), settings.clone());
    AncestorArtefact { kind, key, version: *version, settings, inputs: inputs(identity) }
}

fn inputs(identity: &ArtefactIdentity) -> BTreeMap<String, AncestorInput> {
    let origin = |input: &InputIdentity| match input {
        InputIdentity::Artefact { key, output, .. } => {
            AncestorInput::Artefact { key: key.to_string(), output: output.clone() }
        }
        InputIdentity::Source(digest) => AncestorInput::Source { digest: digest.clone() },
    };
    identity.inputs.iter().map(|(name, input)| (name.clone(), origin(input))).collect()
}
