//! Tests of complete runs on a store at a URL, in memory: results, reuse, one builder at a time.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::memory::InMemory;

use super::*;
use pairloom_storage::objects::{Location, ObjectStorage};
use pairloom_store::ProcessIdentity;
use pairloom_store::gc::collect_garbage;

/// One store, as opened by `N` processes of a machine.
fn stores<const N: usize>(locks: &Path) -> [Store; N] {
    let inner: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let location = Location::parse("s3://bucket/store".into()).unwrap();
    [(); N].map(|()| Store::with_objects(ObjectStorage::at_url(&inner, &location), ProcessIdentity::new(Some(locks))))
}

/// Content of all parts and files, by name. The names are those of the same objects in a folder.
fn content_of(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let names = store.objects().list("").unwrap().into_iter();
    let names = names.filter(|name| name.ends_with(".parquet") || name.ends_with(".txt"));
    names.map(|name| (format!("v1/{name}"), store.objects().get(&name).unwrap().unwrap().to_vec())).collect()
}

#[test]
fn a_run_at_a_url_writes_the_same_bytes_as_in_a_folder_and_a_second_run_reuses_them() {
    let locks = tempfile::tempdir().unwrap();
    let [store] = stores(locks.path());
    let (summary, _) = run(&pipeline(), &store);
    assert!(summary.error.is_none(), "{:?}", summary.error);
    assert_eq!(content_of(&store), expected());
    assert_eq!(to_run(&pipeline(), &store), Vec::<String>::new());
    assert_eq!(collect_garbage(&store, 1, true).unwrap().garbage, []);
    assert_eq!(collect_garbage(&store, 0, true).unwrap().garbage.len(), 4);
    let left = store.objects().list("").unwrap();
    assert!(matches!(&left[..], [record] if record.starts_with("runs/")), "no claims or locks are left: {left:?}");
}

#[test]
fn two_runs_at_a_url_share_the_work() {
    let locks = tempfile::tempdir().unwrap();
    let stores: [Store; 2] = stores(locks.path());
    let started = std::thread::scope(|scope| {
        let runs: Vec<_> = stores.iter().map(|store| scope.spawn(move || run(&pipeline(), store))).collect();
        let ended = runs.into_iter().map(|run| run.join().unwrap());
        let started = ended.map(|(summary, events)| {
            assert!(summary.error.is_none(), "{:?}", summary.error);
            events.iter().filter(|event| matches!(event, Event::StageStarted { .. })).count()
        });
        started.sum::<usize>()
    });
    assert_eq!(started, 4, "every stage was built once");
    assert_eq!(content_of(&stores[0]), expected());
}

#[test]
fn a_run_at_a_url_resumes_after_every_entry_of_a_journal() {
    let expected = expected();
    let mut resumed = 0;
    for stop in 1.. {
        let locks = tempfile::tempdir().unwrap();
        let [store] = stores(locks.path());
        let cancel = CancelToken::new();
        let commits = std::sync::atomic::AtomicUsize::new(0);
        let observer = |event: &Event| {
            let commit = matches!(event, Event::PartCommitted { .. } | Event::StateSaved { .. });
            if commit && commits.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 == stop {
                cancel.cancel();
            }
        };
        let stopped =
            execute(&pipeline(), RunnableStage::run, &store, &options(), &cancel, &observer).unwrap().error.is_some();
        let (summary, events) = run(&pipeline(), &store);
        assert!(summary.error.is_none(), "after {stop} commits: {:?}", summary.error);
        assert_eq!(content_of(&store), expected, "after {stop} commits");
        let goes_on = |e: &Event| matches!(e, Event::StageStarted { resumed_rows, .. } if *resumed_rows > 0);
        resumed += usize::from(events.iter().any(goes_on));
        if !stopped {
            break;
        }
    }
    assert!(resumed > 5, "{resumed} runs resumed where the previous one stopped");
}
