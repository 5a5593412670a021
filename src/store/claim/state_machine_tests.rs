//! Random sequences of claims, commits, kills and pauses of three processes whose clocks run as they like, compared with a
//! model: numbers in place of objects. `PAIRLOOM_MODEL_CASES` asks for more sequences.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use object_store::memory::InMemory;
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use super::ArtefactClaim;
use super::lease::{HolderObservation, Lease, LeaseAttempt};
use crate::process_identity::LeaseClock;
use crate::{Artefact, ProcessIdentity, Store};
use pairloom_storage::objects::{Location, ObjectStorage};

/// Processes. The first two are on one machine.
const PROCESSES: usize = 3;
const ARTEFACTS: usize = 2;
/// Objects of an artefact; the last one completes it.
const OBJECTS: usize = 3;
/// Seconds of each process's clock between heartbeats, and after which a lease has expired. Longer than the test takes,
/// so that no heartbeat comes by itself.
const HEARTBEAT: u64 = 100;
const TIMEOUT: u64 = 600;

/// Step of a process.
#[derive(Debug, Clone)]
enum LeaseStep {
    /// Attempts to claim an artefact.
    Claim(usize, usize),
    /// Publishes an object of an artefact that it has claimed, whether or not it has lost the claim since.
    Publish(usize, usize, usize),
    Heartbeat(usize, usize),
    Release(usize, usize),
    Kill(usize, usize),
    /// Lets the clock of a process go on.
    Pass(usize, u64),
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseResult {
    Acquired,
    HeldOnThisMachine,
    HeldElsewhere,
    Done,
    Refused,
}

/// Lease that was acquired, by its number in the model.
#[derive(Debug, Clone)]
struct ModelLease {
    process: usize,
    artefact: usize,
    is_alive: bool,
    is_lost: bool,
    /// Version of the object after the last heartbeat, and the time of the process's clock.
    version: u64,
    last_beat: u64,
}

/// Knowledge of a process that waits for a lease.
#[derive(Debug, Clone, Default)]
struct ModelObservation {
    local: Option<usize>,
    seen: Option<(u64, u64)>,
}

#[derive(Debug, Clone)]
struct LeaseModel {
    clocks: [u64; PROCESSES],
    leases: Vec<ModelLease>,
    versions: u64,
    /// Lease and version in the object of each artefact.
    objects: [Option<(usize, u64)>; ARTEFACTS],
    claims: [[Option<usize>; ARTEFACTS]; PROCESSES],
    observations: [[ModelObservation; ARTEFACTS]; PROCESSES],
    /// Content of each object: the number of the publication. No two are equal, as an object that is there with the
    /// same content counts as published, without a renewal.
    published: BTreeMap<(usize, usize), u64>,
    publications: u64,
    result: LeaseResult,
}

impl LeaseModel {
    fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    fn acquire(&mut self, process: usize, artefact: usize) -> LeaseResult {
        let version = self.next_version();
        let last_beat = self.clocks[process];
        let id = self.leases.len();
        self.leases.push(ModelLease { process, artefact, is_alive: true, is_lost: false, version, last_beat });
        self.objects[artefact] = Some((id, version));
        self.claims[process][artefact] = Some(id);
        LeaseResult::Acquired
    }

    fn claim(&mut self, process: usize, artefact: usize) -> LeaseResult {
        let observation = &self.observations[process][artefact];
        if observation.local.is_some_and(|id| self.leases[id].is_alive) {
            return LeaseResult::HeldOnThisMachine;
        }
        let Some((id, version)) = self.objects[artefact] else { return self.acquire(process, artefact) };
        if machine(self.leases[id].process) == machine(process) {
            if self.leases[id].is_alive {
                self.observations[process][artefact].local = Some(id);
                return LeaseResult::HeldOnThisMachine;
            }
            return self.acquire(process, artefact);
        }
        let now = self.clocks[process];
        match observation.seen {
            Some((seen, since)) if seen == version && now - since >= TIMEOUT => self.acquire(process, artefact),
            Some((seen, _)) if seen == version => LeaseResult::HeldElsewhere,
            _ => {
                self.observations[process][artefact].seen = Some((version, now));
                LeaseResult::HeldElsewhere
            }
        }
    }

    /// Renews a lease; false if it is lost.
    fn renew(&mut self, id: usize) -> bool {
        let ModelLease { process, artefact, version, is_lost, .. } = self.leases[id];
        if is_lost || self.objects[artefact] != Some((id, version)) {
            self.leases[id].is_lost = true;
            return false;
        }
        let version = self.next_version();
        self.objects[artefact] = Some((id, version));
        (self.leases[id].version, self.leases[id].last_beat) = (version, self.clocks[process]);
        true
    }

    fn publish(&mut self, id: usize, object: usize) -> bool {
        self.publications += 1;
        if object == OBJECTS - 1 && !self.renew(id) {
            return false;
        }
        let ModelLease { process, artefact, is_lost, last_beat, .. } = self.leases[id];
        let is_recent = !is_lost && self.clocks[process] - last_beat < TIMEOUT / 3;
        if !is_recent && !self.renew(id) {
            return false;
        }
        // Only the holder replaces an object, and only the holder completes an artefact.
        if self.published.contains_key(&(artefact, object)) && !self.renew(id) {
            return false;
        }
        let is_holder = self.objects[artefact].is_some_and(|(holder, _)| holder == id);
        assert!(is_holder || (object < OBJECTS - 1 && !self.published.contains_key(&(artefact, object))));
        self.published.insert((artefact, object), self.publications);
        true
    }

    fn release(&mut self, id: usize) {
        let ModelLease { process, artefact, last_beat, .. } = self.leases[id];
        if self.clocks[process] - last_beat <= 2 * HEARTBEAT && self.renew(id) {
            self.objects[artefact] = None;
        }
        self.leases[id].is_alive = false;
    }
}

fn machine(process: usize) -> usize {
    process / 2
}

fn done(is_done: bool) -> LeaseResult {
    if is_done { LeaseResult::Done } else { LeaseResult::Refused }
}

impl LeaseModel {
    /// Model before the first step.
    fn new() -> Self {
        Self {
            clocks: [0, 1_000_000, 7],
            leases: vec![],
            versions: 0,
            objects: [None; ARTEFACTS],
            claims: [[None; ARTEFACTS]; PROCESSES],
            observations: Default::default(),
            published: BTreeMap::new(),
            publications: 0,
            result: LeaseResult::Done,
        }
    }
}

impl ReferenceStateMachine for LeaseModel {
    type State = Self;
    type Transition = LeaseStep;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::new()).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<LeaseStep> {
        let pair = || (0..PROCESSES, 0..ARTEFACTS);
        let passed = prop::sample::select(vec![1, 99, 100, 199, 200, 201, 599, 600, 601, 1_000_000]);
        prop_oneof![
            6 => pair().prop_map(|(p, a)| LeaseStep::Claim(p, a)),
            6 => (pair(), 0..OBJECTS).prop_map(|((p, a), object)| LeaseStep::Publish(p, a, object)),
            1 => pair().prop_map(|(p, a)| LeaseStep::Heartbeat(p, a)),
            1 => pair().prop_map(|(p, a)| LeaseStep::Release(p, a)),
            1 => pair().prop_map(|(p, a)| LeaseStep::Kill(p, a)),
            4 => (0..PROCESSES, passed).prop_map(|(p, seconds)| LeaseStep::Pass(p, seconds)),
        ]
        .boxed()
    }

    fn preconditions(state: &Self, step: &LeaseStep) -> bool {
        match *step {
            LeaseStep::Claim(p, a) => state.claims[p][a].is_none(),
            LeaseStep::Publish(p, a, _)
            | LeaseStep::Heartbeat(p, a)
            | LeaseStep::Release(p, a)
            | LeaseStep::Kill(p, a) => state.claims[p][a].is_some(),
            LeaseStep::Pass(..) => true,
        }
    }

    fn apply(mut state: Self, step: &LeaseStep) -> Self {
        let held = |model: &Self, p: usize, a: usize| model.claims[p][a].expect("a precondition");
        state.result = match *step {
            LeaseStep::Claim(p, a) => state.claim(p, a),
            LeaseStep::Publish(p, a, object) => {
                let id = held(&state, p, a);
                done(state.publish(id, object))
            }
            LeaseStep::Heartbeat(p, a) => {
                let id = held(&state, p, a);
                done(state.renew(id))
            }
            LeaseStep::Release(p, a) => {
                let id = held(&state, p, a);
                state.release(id);
                state.claims[p][a] = None;
                LeaseResult::Done
            }
            LeaseStep::Kill(p, a) => {
                let id = held(&state, p, a);
                state.leases[id].is_alive = false;
                state.claims[p][a] = None;
                LeaseResult::Done
            }
            LeaseStep::Pass(p, seconds) => {
                state.clocks[p] += seconds;
                LeaseResult::Done
            }
        };
        state
    }
}

/// Processes with their stores, claims and clocks.
struct LeaseProcesses {
    clocks: [Arc<AtomicU64>; PROCESSES],
    stores: [Store; PROCESSES],
    claims: [[Option<ArtefactClaim>; ARTEFACTS]; PROCESSES],
    observations: [[HolderObservation; ARTEFACTS]; PROCESSES],
    _machines: [tempfile::TempDir; 2],
}

fn artefact(store: &Store, number: usize) -> Artefact {
    store.artefact("count", &serde_json::from_value(format!("{number:032x}").into()).unwrap())
}

fn object_name(object: usize) -> String {
    if object == OBJECTS - 1 { "manifest.json".to_owned() } else { format!("rows/part-0000{object}.parquet") }
}

impl LeaseProcesses {
    fn claim(&mut self, p: usize, a: usize) -> LeaseResult {
        let store = &self.stores[p];
        let name = artefact(store, a).name("claim");
        let observation = &mut self.observations[p][a];
        match Lease::acquire(store.objects(), &name, store.process_identity(), observation).unwrap() {
            LeaseAttempt::Acquired(lease) => {
                self.claims[p][a] = Some(ArtefactClaim::of_lease(lease));
                LeaseResult::Acquired
            }
            LeaseAttempt::HeldOnThisMachine => LeaseResult::HeldOnThisMachine,
            LeaseAttempt::HeldElsewhere => LeaseResult::HeldElsewhere,
        }
    }
}

impl StateMachineTest for LeaseProcesses {
    type SystemUnderTest = Self;
    type Reference = LeaseModel;

    fn init_test(model: &LeaseModel) -> Self {
        let bucket: Arc<dyn object_store::ObjectStore> = Arc::new(InMemory::new());
        let machines = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let clocks = model.clocks.map(|seconds| Arc::new(AtomicU64::new(seconds)));
        let stores = std::array::from_fn(|p| {
            let location = Location::parse("s3://bucket/store".into()).unwrap();
            let identity = ProcessIdentity::new(Some(machines[machine(p)].path()));
            let identity = identity.with_times(Duration::from_secs(HEARTBEAT), Duration::from_secs(TIMEOUT));
            let identity = identity.with_clock(LeaseClock::Set(Arc::clone(&clocks[p])));
            Store::with_objects(ObjectStorage::at_url(&bucket, &location), identity)
        });
        let (claims, observations) = (Default::default(), Default::default());
        Self { clocks, stores, claims, observations, _machines: machines }
    }

    fn apply(mut real: Self, model: &LeaseModel, step: LeaseStep) -> Self {
        let result = match step {
            LeaseStep::Claim(p, a) => real.claim(p, a),
            LeaseStep::Publish(p, a, object) => {
                let claim = real.claims[p][a].as_ref().unwrap();
                let (place, content) = (artefact(&real.stores[p], a), model.publications.to_string());
                let published = if object == OBJECTS - 1 {
                    claim.publish_last(&place, &object_name(object), content.into())
                } else {
                    claim.publish(&place, &object_name(object), content.into())
                };
                done(published.is_ok())
            }
            LeaseStep::Heartbeat(p, a) => done(real.claims[p][a].as_ref().unwrap().lease().renew().is_ok()),
            LeaseStep::Release(p, a) => {
                drop(real.claims[p][a].take());
                LeaseResult::Done
            }
            LeaseStep::Kill(p, a) => {
                real.claims[p][a].take().unwrap().abandon();
                LeaseResult::Done
            }
            LeaseStep::Pass(p, seconds) => {
                real.clocks[p].fetch_add(seconds, Ordering::SeqCst);
                LeaseResult::Done
            }
        };
        assert_eq!(result, model.result, "{step:?}");
        real
    }

    fn check_invariants(real: &Self, model: &LeaseModel) {
        for a in 0..ARTEFACTS {
            let place = artefact(&real.stores[0], a);
            for object in 0..OBJECTS {
                let content = place.get(&object_name(object)).unwrap();
                let expected = model.published.get(&(a, object)).map(ToString::to_string);
                assert_eq!(
                    content.map(|content| String::from_utf8(content.to_vec()).unwrap()),
                    expected,
                    "{a} {object}"
                );
            }
            assert_eq!(place.get("claim").unwrap().is_some(), model.objects[a].is_some());
        }
    }
}

prop_state_machine! {
    #![proptest_config(ProptestConfig {
        cases: test_data::model_cases(60), max_local_rejects: u32::MAX, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn claims_of_processes_with_wrong_clocks_behave_as_the_model(sequential 1..60 => LeaseProcesses);
}
