//! Stores that were damaged behind our back.

use super::*;
use crate::error::Kind;

fn part_of(store: &Store, stage: usize) -> std::path::PathBuf {
    statuses(&pipeline(), store)[stage].artefact(store).place("rows/part-00001.parquet")
}

#[test]
fn a_part_cut_short_is_noticed_by_its_size_and_built_again() {
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
fn a_flipped_bit_is_an_error_that_names_the_part_and_the_next_run_repairs_it() {
    let expected = expected();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    run(&plan(vec![node("numbers", Toy::count(45)), node("more", Toy::add("numbers.rows", 100))]), &store);
    let part = part_of(&store, 1);
    let mut flipped = std::fs::read(&part).unwrap();
    flipped[20] ^= 1;
    std::fs::write(&part, flipped).unwrap();
    let (summary, _) = run(&pipeline(), &store);
    let error = summary.error.unwrap();
    assert_eq!(error.kind(), Kind::Data);
    assert!(error.to_string().contains("part-00001.parquet"), "{error}");
    let (summary, _) = run(&pipeline(), &store);
    assert!(summary.error.is_none(), "{:?}", summary.error);
    assert_eq!(content(folder.path()), expected);
}

#[test]
fn a_manifest_that_is_none_is_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    run(&pipeline(), &store);
    std::fs::write(statuses(&pipeline(), &store)[0].artefact(&store).place("manifest.json"), "{").unwrap();
    assert_eq!(to_run(&pipeline(), &store), ["numbers"]);
    let (summary, _) = run(&pipeline(), &store);
    assert!(summary.error.is_none());
}
