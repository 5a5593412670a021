//! Tests of runs that are interrupted at every possible point and resume to the same bytes.

use std::sync::atomic::Ordering;

use super::*;
use pairloom_base::error::ErrorCategory;
use pairloom_store::journal;

#[test]
fn a_run_that_stops_at_any_write_resumes_to_the_same_bytes() {
    let expected = expected();
    let mut writes = 0;
    loop {
        let folder = tempfile::tempdir().unwrap();
        let (store, left) = faulty::store(folder.path(), writes);
        let summary = execute(&pipeline(), RunnableStage::run, &store, &options(), &CancelToken::new(), &|_| {});
        // If the first write fails, the run cannot start. Later errors are in the summary.
        let error = summary.map_or_else(Some, |summary| summary.error);
        if let Some(error) = &error {
            assert_eq!(error.category(), ErrorCategory::Stage, "{error}");
            assert!(error.hint_text().is_some_and(|hint| hint.contains("space")), "{error}");
        }
        left.store(isize::MAX, Ordering::SeqCst);
        let (summary, _) = run(&pipeline(), &store);
        assert!(summary.error.is_none(), "after {writes} writes: {:?}", summary.error);
        assert_eq!(content(folder.path()), expected, "after {writes} writes");
        let warned: Vec<usize> = summary.manifests.values().map(|manifest| manifest.warnings.len()).collect();
        // `more` warns of 0, 20 and 40 of 0..45, `numbers` of nothing, `other` like `more`, `sums` after every four
        // numbers.
        assert_eq!(warned, [3, 0, 3, 11], "after {writes} writes");
        if error.is_none() {
            break;
        }
        writes += 1;
    }
    assert!(writes > 40, "the run has {writes} writes");
}

#[test]
fn a_map_over_indices_resumes_after_the_committed_blocks() {
    let plan = plan(vec![node("squares", ToyStage::Squares { n: 20 })]);
    let (mut writes, mut resumed) = (0, 0);
    loop {
        let folder = tempfile::tempdir().unwrap();
        let (store, left) = faulty::store(folder.path(), writes);
        let failed = !execute(&plan, RunnableStage::run, &store, &options(), &CancelToken::new(), &|_| {})
            .is_ok_and(|s| s.error.is_none());
        left.store(isize::MAX, Ordering::SeqCst);
        let (summary, events) = run(&plan, &store);
        assert!(summary.error.is_none(), "after {writes} writes: {:?}", summary.error);
        let squares: Vec<i64> = (0..20).map(|x| x * x).collect();
        assert_eq!(rows(&store, &statuses(&plan, &store)[0], "rows").unwrap(), squares, "after {writes} writes");
        // One warning for each of the blocks at 0, 6, 12 and 18.
        assert_eq!(summary.manifests["squares"].warnings.len(), 4, "after {writes} writes");
        let goes_on = |e: &Event| matches!(e, Event::StageStarted { resumed_rows, .. } if *resumed_rows > 0);
        resumed += usize::from(events.iter().any(goes_on));
        if !failed {
            break;
        }
        writes += 1;
    }
    assert!(resumed >= 4, "of {writes} runs {resumed} resumed where the first stopped");
}

#[test]
fn a_journal_truncated_at_any_entry_resumes_to_the_same_bytes() {
    let expected = expected();
    for (stage, skip) in [("numbers", 0), ("more", 1), ("sums", 3)] {
        let mut cut = 0;
        loop {
            let folder = tempfile::tempdir().unwrap();
            let (store, left) = faulty::store(folder.path(), isize::MAX);
            let status = statuses(&pipeline(), &store).remove(skip);
            assert_eq!(status.name, stage);
            // Stops just before the manifest of this stage, when its journal is complete.
            let entries = run_to_the_manifest(&store, &left, &status);
            if cut > entries {
                break;
            }
            journal::truncate(&status.artefact(&store), cut).unwrap();
            let (summary, _) = run(&pipeline(), &store);
            assert!(summary.error.is_none(), "{stage} cut at {cut}: {:?}", summary.error);
            assert_eq!(content(folder.path()), expected, "{stage} cut at {cut}");
            cut += 1;
        }
        assert!(cut > 5, "{stage} has {cut} entries");
    }
}

/// Runs until all of an artefact but its manifest is written. Returns the number of its journal entries.
fn run_to_the_manifest(store: &Store, left: &std::sync::atomic::AtomicIsize, status: &StageStatus) -> usize {
    let manifest = status.artefact(store).folder().unwrap().join("manifest.json");
    // A folder with the name of the manifest makes only the publication of the manifest fail.
    std::fs::create_dir_all(manifest.join("in the way")).unwrap();
    left.store(isize::MAX, Ordering::SeqCst);
    let (summary, _) = run(&pipeline(), store);
    assert!(summary.error.is_some());
    std::fs::remove_dir_all(manifest).unwrap();
    journal::replay(&status.artefact(store)).unwrap().entries
}

#[test]
fn a_cancelled_run_ends_with_an_interruption_and_resumes() {
    let expected = expected();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let cancel = CancelToken::new();
    let observer = |event: &Event| {
        if matches!(event, Event::StateSaved { .. }) {
            cancel.cancel();
        }
    };
    let summary = execute(&pipeline(), RunnableStage::run, &store, &options(), &cancel, &observer).unwrap();
    assert_eq!(summary.error.map(|error| error.category()), Some(ErrorCategory::Interrupted));
    let (summary, events) = run(&pipeline(), &store);
    assert!(summary.error.is_none());
    let resumed =
        events.iter().any(|event| matches!(event, Event::StageStarted { resumed_rows, .. } if *resumed_rows > 0));
    assert!(resumed, "the second run resumed");
    assert_eq!(content(folder.path()), expected);
}

/// On a disk without shared locks, a second process does not see that the first one builds the artefact.
#[test]
fn of_two_builders_without_locks_the_first_ends_with_an_error_and_the_result_is_right() {
    let expected = expected();
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(vec![node("numbers", ToyStage::count(45))]);
    let store = || Store::open(folder.path()).unwrap().with_unshared_locks();
    let first = store();
    let second_done = std::sync::atomic::AtomicBool::new(false);
    let observer = |event: &Event| {
        if matches!(event, Event::PartCommitted { part: 1, .. }) && !second_done.load(Ordering::SeqCst) {
            // Another file is another lock.
            std::fs::remove_file(statuses(&plan, &first)[0].artefact(&first).folder().unwrap().join("lock")).unwrap();
            assert!(run(&plan, &store()).0.error.is_none());
            second_done.store(true, Ordering::SeqCst);
        }
    };
    let summary = execute(&plan, RunnableStage::run, &first, &options(), &CancelToken::new(), &observer).unwrap();
    let error = summary.error.unwrap();
    assert!(error.to_string().contains("another process builds"), "{error}");
    assert!(error.hint_text().is_some(), "{error}");
    assert!(statuses(&plan, &store())[0].is_reuse(), "the second is complete");
    let numbers_only = |content: BTreeMap<String, Vec<u8>>| -> Vec<(String, Vec<u8>)> {
        content.into_iter().filter(|(name, _)| name.contains("count/")).collect()
    };
    assert_eq!(numbers_only(content(folder.path())), numbers_only(expected));
}

#[test]
fn the_error_of_a_stage_is_the_error_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let rows = "numbers.rows".to_owned().try_into().unwrap();
    let failing =
        plan(vec![node("numbers", ToyStage::count(45)), node("bad", ToyStage::Sum { rows, fail_at: Some(30) })]);
    let (summary, _) = run(&failing, &store);
    let error = summary.error.unwrap();
    assert_eq!((error.category(), error.to_string().as_str()), (ErrorCategory::Stage, "stage `bad`: met 30"));
    assert_eq!(summary.record.outcome, pairloom_store::record::RunOutcome::Failed);
}
