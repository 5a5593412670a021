//! Random sequences of steps on a journal and on the runs of a store, compared with models: a list, and a small map.
//! `PAIRLOOM_MODEL_CASES` asks for more sequences.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use serde_json::json;

use super::gc::collect_garbage;
use super::journal::{self, JournalEntry};
use super::key::Key;
use super::testing::{finished_run, stage};
use super::{Artefact, BlockDigests, FileEntry, Part, Store, labels};
use pairloom_stage::RowKeys;

/// Step of a process that builds an artefact, or of the disk.
#[derive(Debug, Clone)]
enum JournalStep {
    /// Publishes and records a part, or a state.
    Commit { is_state: bool },
    /// Publishes a part and is killed before it is recorded.
    PublishOnly,
    /// Damages the object or the entry of a commit.
    Damage { place: prop::sample::Index, damage: Damage },
    /// Begins again with what is whole.
    Resume,
    /// Attempts to record an entry that is there, as a second builder would.
    RecordAgain { place: prop::sample::Index },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    ObjectMissing,
    ObjectCut,
    ObjectFlipped,
    EntryMissing,
    EntryTorn,
}

/// Commit in the model.
#[derive(Debug, Clone, Copy)]
struct ModelCommit {
    is_state: bool,
    damage: Option<Damage>,
}

#[derive(Debug, Clone, Default)]
struct JournalModel {
    commits: Vec<ModelCommit>,
    /// Commits that the last resume found.
    resumed: usize,
    /// True after damage, when only a resume may come.
    is_damaged: bool,
}

impl JournalModel {
    /// Number of commits from which a process goes on: those before the first damaged part or entry, and before a damaged
    /// state unless an older one is whole.
    fn whole(&self) -> usize {
        let is_entry = |damage| matches!(damage, Some(Damage::EntryMissing | Damage::EntryTorn));
        let breaks = |commit: &ModelCommit| is_entry(commit.damage) || (!commit.is_state && commit.damage.is_some());
        let mut whole = self.commits.iter().position(breaks).unwrap_or(self.commits.len());
        while let Some(last) = self.commits[..whole].iter().rposition(|commit| commit.is_state) {
            if self.commits[last].damage.is_none() {
                break;
            }
            whole = last;
        }
        whole
    }
}

impl ReferenceStateMachine for JournalModel {
    type State = Self;
    type Transition = JournalStep;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::default()).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<JournalStep> {
        use Damage::{EntryMissing, EntryTorn, ObjectCut, ObjectFlipped, ObjectMissing};
        let damages = vec![ObjectMissing, ObjectCut, ObjectFlipped, EntryMissing, EntryTorn];
        let place = || any::<prop::sample::Index>();
        prop_oneof![
            8 => prop::bool::weighted(0.3).prop_map(|is_state| JournalStep::Commit { is_state }),
            1 => Just(JournalStep::PublishOnly),
            3 => (place(), prop::sample::select(damages))
                .prop_map(|(place, damage)| JournalStep::Damage { place, damage }),
            3 => Just(JournalStep::Resume),
            1 => place().prop_map(|place| JournalStep::RecordAgain { place }),
        ]
        .boxed()
    }

    fn preconditions(state: &Self, step: &JournalStep) -> bool {
        match step {
            JournalStep::Resume => true,
            JournalStep::Damage { place, .. } => {
                !state.commits.is_empty() && state.commits[place.index(state.commits.len())].damage.is_none()
            }
            JournalStep::RecordAgain { .. } => !state.commits.is_empty() && !state.is_damaged,
            JournalStep::Commit { .. } | JournalStep::PublishOnly => !state.is_damaged,
        }
    }

    fn apply(mut state: Self, step: &JournalStep) -> Self {
        match step {
            JournalStep::Commit { is_state } => {
                state.commits.push(ModelCommit { is_state: *is_state, damage: None });
            }
            JournalStep::PublishOnly | JournalStep::RecordAgain { .. } => {}
            JournalStep::Damage { place, damage } => {
                let place = place.index(state.commits.len());
                state.commits[place].damage = Some(*damage);
                state.is_damaged = true;
            }
            JournalStep::Resume => {
                state.resumed = state.whole();
                state.commits.truncate(state.resumed);
                state.is_damaged = false;
            }
        }
        state
    }
}

/// Artefact in memory whose journal is written.
struct WrittenJournal {
    artefact: Artefact,
    /// Object of each commit.
    objects: Vec<String>,
    parts: usize,
}

fn memory_store() -> Store {
    let folder = std::path::Path::new("/in/memory");
    let objects = pairloom_storage::objects::ObjectStorage::in_memory(folder);
    Store::with_objects(objects, super::ProcessIdentity::new(None))
}

impl WrittenJournal {
    fn commit(&mut self, is_state: bool, is_recorded: bool) {
        let index = self.objects.len();
        let content = format!("content of commit {index}");
        let (bytes, digest) = (content.len() as u64, blake3::hash(content.as_bytes()).to_hex().to_string());
        let name = if is_state { format!("state-{index:08}") } else { Artefact::part_name("rows", self.parts) };
        self.artefact.put(&name, content.into()).unwrap();
        if !is_recorded {
            return;
        }
        let entry = if is_state {
            JournalEntry::State { file: FileEntry { name: name.clone(), bytes, digest }, warnings: vec![] }
        } else {
            let part = Part { index: self.parts, rows: 1, bytes, digest, blocks: BlockDigests::default(), key: None };
            self.parts += 1;
            JournalEntry::Part { table: "rows".to_owned(), part, warnings: vec![], row_keys: RowKeys::default() }
        };
        journal::append(&self.artefact, index, &entry).unwrap();
        self.objects.push(name);
    }

    fn damage(&self, place: usize, damage: Damage) {
        let (object, entry) = (self.objects[place].as_str(), format!("journal/{place:08}.json"));
        let content = |name: &str| self.artefact.get(name).unwrap().unwrap().to_vec();
        let cut = |name: &str| {
            let content = content(name);
            self.artefact.put(name, content[..content.len() / 2].to_vec().into()).unwrap();
        };
        match damage {
            Damage::ObjectMissing => self.artefact.delete(object).unwrap(),
            Damage::EntryMissing => self.artefact.delete(&entry).unwrap(),
            Damage::ObjectCut => cut(object),
            Damage::EntryTorn => cut(&entry),
            Damage::ObjectFlipped => {
                let mut content = content(object);
                content[3] ^= 1;
                self.artefact.put(object, content.into()).unwrap();
            }
        }
    }
}

impl StateMachineTest for WrittenJournal {
    type SystemUnderTest = Self;
    type Reference = JournalModel;

    fn init_test(_: &JournalModel) -> Self {
        let key = serde_json::from_value("00000000000000000000000000000000".into()).unwrap();
        Self { artefact: memory_store().artefact("count", &key), objects: vec![], parts: 0 }
    }

    fn apply(mut real: Self, model: &JournalModel, step: JournalStep) -> Self {
        match step {
            JournalStep::Commit { is_state } => real.commit(is_state, true),
            JournalStep::PublishOnly => real.commit(false, false),
            JournalStep::Damage { place, damage } => real.damage(place.index(real.objects.len()), damage),
            JournalStep::RecordAgain { place } => {
                let place = place.index(real.objects.len());
                let file = FileEntry { name: "other".to_owned(), bytes: 1, digest: "00".to_owned() };
                let entry = JournalEntry::File { output: "files".to_owned(), file };
                let error = journal::append(&real.artefact, place, &entry).unwrap_err().to_string();
                assert!(error.contains("another process builds"), "{error}");
            }
            JournalStep::Resume => {
                let (committed, _) = journal::replay_for_resume(&real.artefact).unwrap();
                assert_eq!(committed.entries, model.resumed);
                journal::truncate(&real.artefact, committed.entries).unwrap();
                real.objects.truncate(committed.entries);
                real.parts = committed.tables.values().map(Vec::len).sum();
            }
        }
        real
    }

    fn check_invariants(real: &Self, model: &JournalModel) {
        if model.is_damaged {
            return;
        }
        let committed = journal::replay(&real.artefact).unwrap();
        assert_eq!(committed.entries, model.commits.len());
        assert_eq!(committed.rows(), model.commits.iter().filter(|commit| !commit.is_state).count() as u64);
    }
}

/// Pipelines, and results of each, of which runs have one.
const PIPELINES: usize = 2;
const RESULTS: u8 = 5;

#[derive(Debug, Clone)]
enum RunStep {
    /// A run of a pipeline with a result, by a clock that is this many seconds ahead or behind.
    Run {
        pipeline: usize,
        result: u8,
        clock: i64,
    },
    /// Pins the result of a run.
    Pin {
        pipeline: usize,
        result: u8,
    },
    /// Gives the last run of a pipeline a tag.
    Tag {
        pipeline: usize,
    },
    Collect {
        keep: usize,
    },
}

/// Runs in their order, with their results; results that are there, pinned ones, and tagged runs.
#[derive(Debug, Clone, Default)]
struct RunsModel {
    runs: Vec<(usize, u8)>,
    present: BTreeSet<(usize, u8)>,
    pinned: BTreeSet<(usize, u8)>,
    tagged: BTreeSet<usize>,
}

impl RunsModel {
    /// Results that a collection keeps: of the last `keep` different runs of each pipeline, of tagged runs, and pinned.
    fn kept(&self, keep: usize) -> BTreeSet<(usize, u8)> {
        let mut kept = self.pinned.clone();
        kept.extend(self.tagged.iter().map(|&run| self.runs[run]));
        for pipeline in 0..PIPELINES {
            let mut different = Vec::new();
            for run in self.runs.iter().rev().filter(|(owner, _)| *owner == pipeline) {
                if !different.contains(run) {
                    different.push(*run);
                }
            }
            kept.extend(different.into_iter().take(keep));
        }
        kept
    }
}

impl ReferenceStateMachine for RunsModel {
    type State = Self;
    type Transition = RunStep;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::default()).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<RunStep> {
        let clock = prop::sample::select(vec![0, 0, 1, -3_600, 3_600, 100_000_000, -100_000_000]);
        let result = || (0..PIPELINES, 0..RESULTS);
        prop_oneof![
            6 => (result(), clock).prop_map(|((pipeline, result), clock)| RunStep::Run { pipeline, result, clock }),
            1 => result().prop_map(|(pipeline, result)| RunStep::Pin { pipeline, result }),
            1 => (0..PIPELINES).prop_map(|pipeline| RunStep::Tag { pipeline }),
            3 => (1..4usize).prop_map(|keep| RunStep::Collect { keep }),
        ]
        .boxed()
    }

    fn preconditions(state: &Self, step: &RunStep) -> bool {
        match *step {
            RunStep::Pin { pipeline, result } => state.present.contains(&(pipeline, result)),
            RunStep::Tag { pipeline } => state.runs.iter().any(|(owner, _)| *owner == pipeline),
            RunStep::Run { .. } | RunStep::Collect { .. } => true,
        }
    }

    fn apply(mut state: Self, step: &RunStep) -> Self {
        match *step {
            RunStep::Run { pipeline, result, .. } => {
                state.runs.push((pipeline, result));
                state.present.insert((pipeline, result));
            }
            RunStep::Pin { pipeline, result } => {
                state.pinned.insert((pipeline, result));
            }
            RunStep::Tag { pipeline } => {
                let last = state.runs.iter().rposition(|(owner, _)| *owner == pipeline);
                state.tagged.extend(last);
            }
            RunStep::Collect { keep } => {
                let kept = state.kept(keep);
                state.present.retain(|result| kept.contains(result));
            }
        }
        state
    }
}

/// Store in a folder with runs by hand.
struct WrittenRuns {
    store: Store,
    _folder: tempfile::TempDir,
    /// Name, pipeline and result of each run.
    runs: Vec<(String, usize, u8)>,
    tags: usize,
}

/// Kind and key of a result.
fn name_of(store: &Store, pipeline: usize, result: u8) -> Option<(String, Key)> {
    let expected = json!({ "pipeline": pipeline, "result": result });
    store.complete_artefacts().unwrap().into_iter().find(|(kind, key)| {
        store.artefact(kind, key).manifest().unwrap().is_some_and(|manifest| manifest.identity.settings == expected)
    })
}

impl StateMachineTest for WrittenRuns {
    type SystemUnderTest = Self;
    type Reference = RunsModel;

    fn init_test(_: &RunsModel) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { store: Store::open(folder.path()).unwrap(), _folder: folder, runs: vec![], tags: 0 }
    }

    fn apply(mut real: Self, _: &RunsModel, step: RunStep) -> Self {
        let store = &real.store;
        match step {
            RunStep::Run { pipeline, result, clock } => {
                // As a run does: its name is that of its clock, moved after those of others.
                let mut record = super::record::RunRecord::start("", super::record::RunCommand::default());
                let started = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(clock);
                record.run = format!("{}-{:04x}", started.strftime("%Y%m%dT%H%M%S.%3fZ"), real.runs.len());
                record.name_after_others(store).unwrap();
                let settings = json!({ "pipeline": pipeline, "result": result });
                let stages = [stage("a", "count", settings, &[])];
                finished_run(store, &record.run, &format!("{pipeline}.toml"), &stages);
                let name = record.run;
                assert!(real.runs.iter().all(|(before, ..)| *before < name), "`{name}` is after {:?}", real.runs);
                real.runs.push((name, pipeline, result));
            }
            RunStep::Pin { pipeline, result } => {
                let (kind, key) = name_of(store, pipeline, result).unwrap();
                labels::pin(store, &labels::PinTarget::Artefact(kind, key)).unwrap();
            }
            RunStep::Tag { pipeline } => {
                let (run, ..) = real.runs.iter().rfind(|(_, owner, _)| *owner == pipeline).unwrap();
                labels::set_tag(store, run, &format!("tag{}", real.tags), false).unwrap();
                real.tags += 1;
            }
            RunStep::Collect { keep } => {
                collect_garbage(store, keep, true).unwrap();
            }
        }
        real
    }

    fn check_invariants(real: &Self, model: &RunsModel) {
        let mut present = BTreeMap::new();
        for pipeline in 0..PIPELINES {
            for result in 0..RESULTS {
                present.insert((pipeline, result), name_of(&real.store, pipeline, result).is_some());
            }
        }
        let present: BTreeSet<_> = present.into_iter().filter(|(_, there)| *there).map(|(result, _)| result).collect();
        assert_eq!(present, model.present);
    }
}

prop_state_machine! {
    #![proptest_config(ProptestConfig {
        cases: test_data::model_cases(60), max_local_rejects: u32::MAX, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn journals_with_damage_resume_as_the_model(sequential 1..40 => WrittenJournal);
}

prop_state_machine! {
    #![proptest_config(ProptestConfig {
        cases: test_data::model_cases(4), max_local_rejects: u32::MAX, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn garbage_collection_of_runs_with_wrong_clocks_keeps_as_the_model(sequential 1..20 => WrittenRuns);
}
