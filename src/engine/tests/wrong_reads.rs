//! Tests of a store whose first read of each object has a flipped bit, as a disk or a network may err once.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use object_store::ObjectStoreExt as _;

use super::faulty::wrong_once_store;
use super::*;
use pairloom_store::record::RunLog;

#[test]
fn finished_results_and_records_are_known_though_each_first_read_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    run(&pipeline(), &Store::open(folder.path()).unwrap());
    let (before, names) = (content(folder.path()), |store: &Store| to_run(&pipeline(), store));
    assert!(names(&wrong_once_store(folder.path())).is_empty());
    let store = wrong_once_store(folder.path());
    let (summary, events) = run(&pipeline(), &store);
    assert!(summary.error.is_none(), "{:?}", summary.error);
    assert!(!events.iter().any(|event| matches!(event, Event::StageStarted { .. })));
    assert_eq!(content(folder.path()), before);

    let log = RunLog::open(&wrong_once_store(folder.path())).unwrap();
    assert_eq!(log.names().len(), 2);
    assert!((0..2).all(|i| log.record(i).unwrap().is_ok()));
    let log = RunLog::open(&wrong_once_store(folder.path())).unwrap();
    log.read_all().unwrap();
    assert!(log.iter().all(|record| record.is_ok()));
}

#[tokio::test]
async fn a_reader_of_ranges_reads_again_what_is_wrong_once() {
    let folder = tempfile::tempdir().unwrap();
    let plan = pipeline();
    // On a thread of its own, because a run waits for the object store.
    let written = folder.path().to_owned();
    let places = tokio::task::spawn_blocking(move || {
        run(&plan, &Store::open(&written).unwrap());
        let parts = content(&written).into_iter().filter(|(name, _)| name.contains("part-"));
        parts.map(|(name, content)| (name.trim_start_matches("v1/").to_owned(), content)).collect::<Vec<_>>()
    });
    let places = places.await.unwrap();
    assert!(places.len() >= 3, "{places:?}");
    let objects = wrong_once_store(folder.path()).verified_objects();
    for (name, content) in &places {
        let place = object_store::path::Path::from(name.as_str());
        let middle = content.len() as u64 / 2;
        // Of the first read the byte in the middle of a block is wrong, and the manifest too.
        let got = objects.get_ranges(&place, &[0..4, middle - 1..middle + 2]).await.unwrap();
        let at = usize::try_from(middle).unwrap();
        assert_eq!(got, [&content[..4], &content[at - 1..at + 2]], "{name}");
    }
    assert!(content(folder.path()).keys().all(|name| !name.ends_with("damaged")), "nothing is marked");
    // Without the check, the wrong byte is what a reader gets.
    let objects = wrong_once_store(folder.path()).objects().inner().clone();
    let (name, content) = &places[0];
    let got = objects.get_range(&name.as_str().into(), 0..content.len() as u64).await.unwrap();
    assert_ne!(got, content[..]);
}

#[test]
fn a_stopped_run_goes_on_after_all_its_commits_though_each_first_read_is_wrong() {
    let plan = plan(vec![node("squares", ToyStage::Squares { n: 20 })]);
    let mut resumed = BTreeSet::new();
    for writes in 0.. {
        // What a run resumes after is the same for a disk that does not err.
        let rows_resumed = [false, true].map(|is_wrong| {
            let folder = tempfile::tempdir().unwrap();
            let (store, left) = faulty::store(folder.path(), writes);
            let summary = execute(&plan, RunnableStage::run, &store, &options(), &CancelToken::new(), &|_| {});
            let is_finished = summary.is_ok_and(|summary| summary.error.is_none());
            left.store(isize::MAX, Ordering::SeqCst);
            let store = if is_wrong { wrong_once_store(folder.path()) } else { store };
            let (summary, events) = run(&plan, &store);
            assert!(summary.error.is_none(), "after {writes} writes: {:?}", summary.error);
            let squares: Vec<i64> = (0..20).map(|x| x * x).collect();
            assert_eq!(rows(&store, &statuses(&plan, &store)[0], "rows").unwrap(), squares, "after {writes} writes");
            let started = events.iter().find_map(|event| match event {
                Event::StageStarted { resumed_rows, .. } => Some(*resumed_rows),
                _ => None,
            });
            (is_finished, started)
        });
        assert_eq!(rows_resumed[0], rows_resumed[1], "after {writes} writes");
        resumed.extend(rows_resumed[1].1);
        if rows_resumed[0].0 {
            break;
        }
    }
    assert!(resumed.len() >= 4, "{resumed:?}");
}
