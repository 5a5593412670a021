//! Rights at a URL: who gets them, keeps them, loses them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;

use super::lease::{Lease, Taken, Watch};
use super::{Claim, alone, claim, hold};
use crate::error::Error;
use crate::io::objects::{Location, Objects};
use crate::runtime::Cancel;
use crate::store::{Artefact, Claimant, Store};

const BEAT: Duration = Duration::from_millis(50);
const DEAD: Duration = Duration::from_millis(1500);

/// A store at a URL that several machines reach.
struct Shared(Arc<dyn object_store::ObjectStore>);

impl Shared {
    fn new() -> Self {
        Self(Arc::new(InMemory::new()))
    }

    /// The store as a process sees it whose user has his locks in this folder: the same folder is the same machine.
    fn seen_from(&self, locks: &Path) -> Store {
        self.with_times(locks, BEAT, DEAD)
    }

    fn with_times(&self, locks: &Path, beat: Duration, dead: Duration) -> Store {
        let location = Location::parse("s3://bucket/store".into()).unwrap();
        Store::over(Objects::at_url(&self.0, &location), Claimant::new(Some(locks)).with_times(beat, dead))
    }
}

fn artefact(store: &Store) -> Artefact {
    store.artefact("count", &serde_json::from_value("00000000000000000000000000000000".into()).unwrap())
}

fn claimed(store: &Store) -> Claim {
    claim(store, &artefact(store), &Cancel::new(), || {}).unwrap()
}

/// Whether the artefact can be claimed within this time.
fn claimed_within(store: &Store, time: Duration) -> Option<Claim> {
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let claim = scope.spawn(|| claim(store, &artefact(store), &cancel, || {}));
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

/// Leaves an object of a right as a process does that is killed: nobody gives signs of life, and its lock is free.
fn killed(store: &Store, name: &str) {
    let Taken::Ours(lease) = Lease::take(store.objects(), name, store.claimant(), &mut Watch::default()).unwrap()
    else {
        panic!("`{name}` is free");
    };
    let (content, _) = store.objects().get_version(name).unwrap().unwrap();
    drop(lease);
    store.objects().put(name, content).unwrap();
}

#[test]
fn a_claim_is_had_by_one_and_given_back() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let shared = Shared::new();
    let [here, there] = [0, 1].map(|i| shared.seen_from(folders[i].path()));
    let first = claimed(&here);
    // Longer than the dead have: the signs of life keep it, from others and from the same machine.
    assert!(claimed_within(&there, 2 * DEAD).is_none());
    assert!(claimed_within(&here, DEAD).is_none());
    drop(first);
    drop(claimed_within(&there, DEAD).unwrap());
    assert_eq!(here.objects().list("").unwrap(), Vec::<String>::new(), "nothing is left");
    for folder in &folders {
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["machine"]);
    }
}

#[test]
fn the_claim_of_a_dead_process_is_taken_over_at_once_here_and_after_a_while_elsewhere() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let shared = Shared::new();
    // Nobody waits for so long in this test.
    let patient = |folder: &Path| shared.with_times(folder, BEAT, Duration::from_hours(1));
    let here = patient(folders[0].path());
    let name = artefact(&here).name("claim");
    killed(&here, &name);
    assert!(claimed_within(&patient(folders[1].path()), DEAD).is_none());
    assert!(claimed_within(&here, DEAD).is_some());
    killed(&here, &name);
    assert!(claimed_within(&shared.seen_from(folders[1].path()), 5 * DEAD).is_some());
}

#[test]
fn who_wakes_up_after_another_took_over_can_publish_nothing() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let shared = Shared::new();
    // Gives no sign of life: stopped, and woken up later.
    let asleep = shared.with_times(folders[0].path(), Duration::from_hours(1), DEAD);
    let sleeper = claimed(&asleep);
    let place = artefact(&asleep);
    sleeper.publish(&place, "rows/part-00000.parquet", "zero".into()).unwrap();
    let awake = shared.seen_from(folders[1].path());
    let successor = claimed_within(&awake, 5 * DEAD).unwrap();
    successor.publish(&place, "rows/part-00001.parquet", "the successor's".into()).unwrap();
    let taken_over = |error: Error| {
        assert!(error.to_string().contains("took") && error.hint_text().is_some(), "{error}");
    };
    taken_over(sleeper.publish(&place, "rows/part-00001.parquet", "the sleeper's".into()).unwrap_err());
    taken_over(sleeper.publish(&place, "rows/part-00002.parquet", "the sleeper's".into()).unwrap_err());
    taken_over(sleeper.complete(&place, "manifest.json", "{}".into()).unwrap_err());
    assert_eq!(place.get("rows/part-00001.parquet").unwrap().unwrap(), "the successor's");
    assert_eq!((place.get("rows/part-00002.parquet").unwrap(), place.get("manifest.json").unwrap()), (None, None));
    // Its end does not end the successor's claim.
    drop(sleeper);
    successor.complete(&place, "manifest.json", "{}".into()).unwrap();
}

#[test]
fn what_an_earlier_run_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let store = Shared::new().seen_from(folder.path());
    let place = artefact(&store);
    place.put("rows/part-00000.parquet", "published, and killed before the journal".into()).unwrap();
    let holder = claimed(&store);
    holder.publish(&place, "rows/part-00000.parquet", "again".into()).unwrap();
    holder.publish(&place, "rows/part-00000.parquet", "and again".into()).unwrap();
    assert_eq!(place.get("rows/part-00000.parquet").unwrap().unwrap(), "and again");
}

#[test]
fn nothing_is_removed_while_a_run_lives_and_no_run_starts_meanwhile() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let shared = Shared::new();
    let [here, there] = [0, 1].map(|i| shared.seen_from(folders[i].path()));
    let run = hold(&here, &Cancel::new()).unwrap();
    assert!(alone(&here).unwrap().is_none());
    assert!(alone(&there).unwrap().is_none());
    let second = hold(&there, &Cancel::new()).unwrap();
    drop((run, second));
    let removal = alone(&there).unwrap().unwrap();
    assert!(alone(&here).unwrap().is_none());
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| hold(&here, &cancel));
        std::thread::sleep(2 * DEAD);
        assert!(!run.is_finished(), "a run waits for the end of a removal");
        drop(removal);
        run.join().unwrap().unwrap();
    });
    assert_eq!(here.objects().list("").unwrap(), Vec::<String>::new(), "nothing is left");
}

#[test]
fn what_the_dead_held_stops_nobody() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let shared = Shared::new();
    let [here, there] = [0, 1].map(|i| shared.seen_from(folders[i].path()));
    let machine = here.claimant().machine.clone();
    killed(&here, &format!("holds/{machine}-0123456789abcdef"));
    killed(&here, "holds/removal");
    drop(hold(&here, &Cancel::new()).unwrap());
    assert_eq!(here.objects().list("").unwrap(), Vec::<String>::new(), "a run of the same machine tidies up");
    killed(&here, &format!("holds/{machine}-0123456789abcdef"));
    killed(&here, "holds/removal");
    drop(alone(&there).unwrap().unwrap());
    assert_eq!(here.objects().list("").unwrap(), Vec::<String>::new(), "a removal elsewhere watches, and tidies up");
}
