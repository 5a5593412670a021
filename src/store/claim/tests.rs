//! Tests of claims and store locks at a URL.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;

use super::lease::{HolderObservation, Lease, LeaseAttempt};
use super::{ArtefactClaim, claim_artefact, lock_for_run, try_lock_for_removal};
use crate::{Artefact, ProcessIdentity, Store};
use pairloom_base::error::Error;
use pairloom_base::runtime::CancelToken;
use pairloom_storage::objects::{Location, ObjectStorage};

const TEST_HEARTBEAT: Duration = Duration::from_millis(50);
const TEST_TIMEOUT: Duration = Duration::from_millis(1500);

/// A store at a URL that several machines use.
struct SharedStore(Arc<dyn object_store::ObjectStore>);

impl SharedStore {
    fn new() -> Self {
        Self(Arc::new(InMemory::new()))
    }

    /// The store as used by a process with this lock folder. Processes with the same folder are on the same machine.
    fn seen_from(&self, locks: &Path) -> Store {
        self.with_times(locks, TEST_HEARTBEAT, TEST_TIMEOUT)
    }

    fn with_times(&self, locks: &Path, beat: Duration, dead: Duration) -> Store {
        let location = Location::parse("s3://bucket/store".into()).unwrap();
        Store::with_objects(
            ObjectStorage::at_url(&self.0, &location),
            ProcessIdentity::new(Some(locks)).with_times(beat, dead),
        )
    }
}

fn artefact(store: &Store) -> Artefact {
    store.artefact("count", &serde_json::from_value("00000000000000000000000000000000".into()).unwrap())
}

fn claimed(store: &Store) -> ArtefactClaim {
    claim_artefact(store, &artefact(store), &CancelToken::new(), &|_| {}).unwrap()
}

/// Claims the artefact; `None` if that takes longer than this time.
fn claimed_within(store: &Store, time: Duration) -> Option<ArtefactClaim> {
    let cancel = CancelToken::new();
    std::thread::scope(|scope| {
        let claim = scope.spawn(|| claim_artefact(store, &artefact(store), &cancel, &|_| {}));
        for _ in 0..time.as_millis() / 10 {
            if claim.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        cancel.cancel();
        claim.join().unwrap().ok()
    })
}

/// Leaves the lease `name` as a killed process does: without heartbeats, and with a free lock.
fn leave_killed_lease(store: &Store, name: &str) {
    let LeaseAttempt::Acquired(lease) =
        Lease::acquire(store.objects(), name, store.process_identity(), &mut HolderObservation::default()).unwrap()
    else {
        panic!("`{name}` is free");
    };
    let (content, _) = store.objects().get_version(name).unwrap().unwrap();
    drop(lease);
    store.objects().put(name, content).unwrap();
}

#[test]
fn a_claim_is_exclusive_and_released() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let shared = SharedStore::new();
    let [here, there] = [0, 1].map(|i| shared.seen_from(folders[i].path()));
    let first = claimed(&here);
    // Longer than the timeout of a lease: heartbeats keep it, against this machine and another one.
    assert!(claimed_within(&there, 2 * TEST_TIMEOUT).is_none());
    assert!(claimed_within(&here, TEST_TIMEOUT).is_none());
    drop(first);
    drop(claimed_within(&there, TEST_TIMEOUT).unwrap());
    assert_eq!(here.objects().list("").unwrap(), Vec::<String>::new(), "nothing is left");
    for folder in &folders {
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["machine"]);
    }
}

#[test]
fn the_claim_of_a_dead_process_is_taken_over_at_once_on_its_machine_and_after_the_timeout_elsewhere() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let shared = SharedStore::new();
    // A timeout longer than this test.
    let patient = |folder: &Path| shared.with_times(folder, TEST_HEARTBEAT, Duration::from_hours(1));
    let here = patient(folders[0].path());
    let name = artefact(&here).name("claim");
    leave_killed_lease(&here, &name);
    assert!(claimed_within(&patient(folders[1].path()), TEST_TIMEOUT).is_none());
    assert!(claimed_within(&here, TEST_TIMEOUT).is_some());
    leave_killed_lease(&here, &name);
    assert!(claimed_within(&shared.seen_from(folders[1].path()), 5 * TEST_TIMEOUT).is_some());
}

#[test]
fn a_process_that_lost_its_claim_cannot_publish() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let shared = SharedStore::new();
    // Sends no heartbeats, like a suspended process.
    let asleep = shared.with_times(folders[0].path(), Duration::from_hours(1), TEST_TIMEOUT);
    let sleeper = claimed(&asleep);
    let place = artefact(&asleep);
    sleeper.publish(&place, "rows/part-00000.parquet", "zero".into()).unwrap();
    let awake = shared.seen_from(folders[1].path());
    let successor = claimed_within(&awake, 5 * TEST_TIMEOUT).unwrap();
    successor.publish(&place, "rows/part-00001.parquet", "the successor's".into()).unwrap();
    let taken_over = |error: Error| {
        assert!(error.to_string().contains("took") && error.hint_text().is_some(), "{error}");
    };
    taken_over(sleeper.publish(&place, "rows/part-00001.parquet", "the sleeper's".into()).unwrap_err());
    taken_over(sleeper.publish(&place, "rows/part-00002.parquet", "the sleeper's".into()).unwrap_err());
    taken_over(sleeper.publish_last(&place, "manifest.json", "{}".into()).unwrap_err());
    assert_eq!(place.get("rows/part-00001.parquet").unwrap().unwrap(), "the successor's");
    assert_eq!((place.get("rows/part-00002.parquet").unwrap(), place.get("manifest.json").unwrap()), (None, None));
    // The end of the first process does not release the claim of its successor.
    drop(sleeper);
    successor.publish_last(&place, "manifest.json", "{}".into()).unwrap();
}

#[test]
fn an_object_of_an_earlier_run_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let store = SharedStore::new().seen_from(folder.path());
    let place = artefact(&store);
    place.put("rows/part-00000.parquet", "published, and killed before the journal".into()).unwrap();
    let holder = claimed(&store);
    holder.publish(&place, "rows/part-00000.parquet", "again".into()).unwrap();
    holder.publish(&place, "rows/part-00000.parquet", "and again".into()).unwrap();
    assert_eq!(place.get("rows/part-00000.parquet").unwrap().unwrap(), "and again");
}

#[test]
fn runs_and_removals_exclude_each_other() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let shared = SharedStore::new();
    let [here, there] = [0, 1].map(|i| shared.seen_from(folders[i].path()));
    let run = lock_for_run(&here, &CancelToken::new(), &|_| {}).unwrap();
    assert!(try_lock_for_removal(&here).unwrap().is_none());
    assert!(try_lock_for_removal(&there).unwrap().is_none());
    let second = lock_for_run(&there, &CancelToken::new(), &|_| {}).unwrap();
    drop((run, second));
    let removal = try_lock_for_removal(&there).unwrap().unwrap();
    assert!(try_lock_for_removal(&here).unwrap().is_none());
    let cancel = CancelToken::new();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| lock_for_run(&here, &cancel, &|_| {}));
        std::thread::sleep(2 * TEST_TIMEOUT);
        assert!(!run.is_finished(), "a run waits for the end of a removal");
        drop(removal);
        run.join().unwrap().unwrap();
    });
    assert_eq!(here.objects().list("").unwrap(), Vec::<String>::new(), "nothing is left");
}

#[test]
fn leases_of_dead_processes_do_not_block_runs_or_removals() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let shared = SharedStore::new();
    let [here, there] = [0, 1].map(|i| shared.seen_from(folders[i].path()));
    let machine = here.process_identity().machine.clone();
    leave_killed_lease(&here, &format!("holds/{machine}-0123456789abcdef"));
    leave_killed_lease(&here, "holds/removal");
    drop(lock_for_run(&here, &CancelToken::new(), &|_| {}).unwrap());
    assert_eq!(here.objects().list("").unwrap(), Vec::<String>::new(), "a run of the same machine removes them");
    leave_killed_lease(&here, &format!("holds/{machine}-0123456789abcdef"));
    leave_killed_lease(&here, "holds/removal");
    drop(try_lock_for_removal(&there).unwrap().unwrap());
    assert_eq!(
        here.objects().list("").unwrap(),
        Vec::<String>::new(),
        "a removal on another machine waits until they expire, and removes them"
    );
}

/// In a folder: a builder that has stopped, and a removal, are named to those that wait.
#[test]
fn who_waits_is_told_for_whom() {
    type WaitWithReports<'w> = dyn Fn(&CancelToken, &dyn Fn(String)) + 'w;
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let told = |wait: &WaitWithReports<'_>| {
        let (cancel, messages) = (CancelToken::new(), std::cell::RefCell::new(Vec::new()));
        wait(&cancel, &|message| {
            messages.borrow_mut().push(message);
            cancel.cancel();
        });
        messages.into_inner()
    };
    // This process holds the lock. Where `/proc/locks` does not list it, the holder is not known.
    let names = [format!("process {}", std::process::id()), "another process".to_owned()];
    let claim = claimed(&store);
    let messages = told(&|cancel, waiting| {
        claim_artefact(&store, &artefact(&store), cancel, waiting).unwrap_err();
    });
    assert!(messages.len() == 1 && names.contains(&messages[0]), "{messages:?}");
    drop(claim);
    let removal = try_lock_for_removal(&store).unwrap().unwrap();
    let messages = told(&|cancel, waiting| {
        lock_for_run(&store, cancel, waiting).unwrap_err();
    });
    assert!(messages[0].ends_with(", which removes results (`pairloom gc --delete`)"), "{messages:?}");
    drop(removal);
    assert!(told(&|cancel, waiting| drop(lock_for_run(&store, cancel, waiting).unwrap())).is_empty());
}
