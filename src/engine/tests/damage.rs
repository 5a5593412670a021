//! Tests of stores with damaged objects.

use super::*;
use pairloom_base::error::ErrorCategory;
use pairloom_store::Artefact;

fn part_of(store: &Store, stage: usize) -> std::path::PathBuf {
    statuses(&pipeline(), store)[stage].artefact(store).folder().unwrap().join("rows/part-00001.parquet")
}

#[test]
fn a_truncated_part_is_detected_by_its_size_and_built_again() {
    let expected = expected();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    run(&pipeline(), &store);
    let part = part_of(&store, 1);
    let whole = std::fs::read(&part).unwrap();
    std::fs::write(&part, &whole[..whole.len() - 10]).unwrap();
    let reasons = statuses(&pipeline(), &store).remove(1).reasons;
    assert!(reasons[0].contains("rows/part-00001.parquet") && reasons[0].contains("damaged"), "{reasons:?}");
    let (summary, _) = run(&pipeline(), &store);
    assert!(summary.error.is_none());
    assert_eq!(content(folder.path()), expected);
}

#[test]
fn a_flipped_bit_is_an_error_that_names_the_part_and_the_next_run_rebuilds_it() {
    let expected = expected();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    run(&plan(vec![node("numbers", ToyStage::count(45)), node("more", ToyStage::add("numbers.rows", 100))]), &store);
    let part = part_of(&store, 1);
    let mut flipped = std::fs::read(&part).unwrap();
    flipped[20] ^= 1;
    std::fs::write(&part, flipped).unwrap();
    let (summary, _) = run(&pipeline(), &store);
    let error = summary.error.unwrap();
    assert_eq!(error.category(), ErrorCategory::Data);
    assert!(error.to_string().contains("part-00001.parquet"), "{error}");
    let (summary, _) = run(&pipeline(), &store);
    assert!(summary.error.is_none(), "{:?}", summary.error);
    assert_eq!(content(folder.path()), expected);
}

#[test]
fn an_artefact_with_an_invalid_manifest_is_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    run(&pipeline(), &store);
    std::fs::write(statuses(&pipeline(), &store)[0].artefact(&store).folder().unwrap().join("manifest.json"), "{")
        .unwrap();
    assert_eq!(to_run(&pipeline(), &store), ["numbers"]);
    let (summary, _) = run(&pipeline(), &store);
    assert!(summary.error.is_none());
}

/// An artefact in `folder` that is complete except for its manifest.
fn unfinished(folder: &Path, stage: usize) -> (Store, Artefact) {
    let store = Store::open(folder).unwrap();
    let artefact = statuses(&pipeline(), &store)[stage].artefact(&store);
    // A folder with the name of the manifest makes the publication of the manifest fail.
    std::fs::create_dir_all(artefact.folder().unwrap().join("manifest.json").join("in the way")).unwrap();
    assert!(run(&pipeline(), &store).0.error.is_some());
    std::fs::remove_dir_all(artefact.folder().unwrap().join("manifest.json")).unwrap();
    (store, artefact)
}

fn flip_a_bit(artefact: &Artefact, name: &str) {
    let mut flipped = std::fs::read(artefact.folder().unwrap().join(name)).unwrap();
    flipped[1] ^= 1;
    std::fs::write(artefact.folder().unwrap().join(name), flipped).unwrap();
}

/// If the last states are damaged, the stage resumes from the one before them or starts again, with a warning.
#[test]
fn damaged_states_are_skipped_with_a_warning() {
    let expected = expected();
    for damaged in 1..=2 {
        let folder = tempfile::tempdir().unwrap();
        let (store, artefact) = unfinished(folder.path(), 3);
        let states: Vec<String> =
            artefact.list("").unwrap().into_iter().filter(|name| name.starts_with("state-")).collect();
        assert_eq!(states.len(), 2, "{states:?}");
        for name in states.iter().rev().take(damaged) {
            flip_a_bit(&artefact, name);
        }
        let (summary, events) = run(&pipeline(), &store);
        assert!(summary.error.is_none(), "{:?}", summary.error);
        let is_warning =
            |event: &Event| matches!(event, Event::Warned { warning, .. } if warning.message.contains("damaged"));
        assert_eq!(events.iter().filter(|event| is_warning(event)).count(), damaged);
        assert_eq!(content(folder.path()), expected);
    }
}

/// With a flipped bit in a part of an unfinished artefact, a run goes on before that part, and says so.
#[test]
fn a_damaged_part_of_an_unfinished_artefact_is_written_again() {
    let expected = expected();
    let folder = tempfile::tempdir().unwrap();
    let (store, artefact) = unfinished(folder.path(), 0);
    flip_a_bit(&artefact, &artefact.list("rows").unwrap()[0]);
    let (summary, events) = run(&pipeline(), &store);
    assert!(summary.error.is_none(), "{:?}", summary.error);
    let warned = |event: &Event| matches!(event, Event::Warned { warning, .. } if warning.message.contains("damaged"));
    assert_eq!(events.iter().filter(|event| warned(event)).count(), 1);
    assert_eq!(content(folder.path()), expected);
    assert_eq!(to_run(&pipeline(), &store), Vec::<String>::new());
}

#[test]
fn a_reader_of_a_removed_artefact_does_not_mark_it_as_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    run(&pipeline(), &store);
    let artefact = statuses(&pipeline(), &store)[0].artefact(&store);
    let part = artefact.manifest().unwrap().unwrap().tables["rows"][0].clone();
    artefact.clear().unwrap();
    let error = artefact.read("rows/part-00000.parquet", part.bytes, &part.digest).unwrap_err();
    assert!(error.to_string().contains("removed"), "{error}");
    run(&pipeline(), &store);
    assert_eq!(to_run(&pipeline(), &store), Vec::<String>::new());
}

#[test]
fn nothing_is_removed_while_a_run_uses_the_store_or_a_record_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    run(&pipeline(), &store);
    let held = pairloom_store::claim::lock_for_run(&store, &CancelToken::new(), &|_| {}).unwrap();
    assert!(pairloom_store::gc::collect_garbage(&store, 0, true).is_err());
    drop(held);
    let record = store.objects().list("runs").unwrap().remove(0);
    let whole = store.objects().get(&record).unwrap().unwrap();
    store.objects().put(&record, "{".into()).unwrap();
    assert!(pairloom_store::gc::collect_garbage(&store, 1, false).is_err());
    store.objects().put(&record, whole).unwrap();
    assert_eq!(pairloom_store::gc::collect_garbage(&store, 1, true).unwrap().garbage, []);
    assert_eq!(pairloom_store::gc::collect_garbage(&store, 0, true).unwrap().garbage.len(), 4);
    assert_eq!(to_run(&pipeline(), &store).len(), 4);
}
