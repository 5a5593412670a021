//! Tests of garbage collection of what a store knows about sources outside of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::gc::collect_garbage;
use super::testing::{finished_run, stage};
use super::{SOURCES_FOLDER, Store, folder_times_name, labels, source_list_name};

/// Run of `one.toml` with another result for each name, whose stage reads the source at `path`.
fn run_of(store: &Store, name: &str, path: &Path) {
    let mut record = finished_run(store, name, "one.toml", &[stage("pairs", "ingest", json!({ "name": name }), &[])]);
    record.stages[0].sources = BTreeMap::from([("file".to_owned(), path.display().to_string())]);
    record.save(store).unwrap();
}

/// Names of the objects about the sources at these paths.
fn objects(paths: &[&PathBuf]) -> BTreeSet<String> {
    paths.iter().flat_map(|path| [source_list_name(path), folder_times_name(path)]).collect()
}

#[test]
fn what_is_known_of_sources_that_no_kept_run_needs_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    // Sources are known by their canonical paths.
    let place = |name: &str| folder.path().canonicalize().unwrap().join(name);
    let [old, new, other] = ["old", "new", "other"].map(place);
    for path in [&old, &new, &other] {
        std::fs::create_dir(path).unwrap();
    }
    for name in objects(&[&old, &new, &other]) {
        store.objects().put(&name, "known".into()).unwrap();
    }
    let link = place("link");
    std::os::unix::fs::symlink(&new, &link).unwrap();
    run_of(&store, "20260101T000000.000Z-aaaa", &old);
    run_of(&store, "20260102T000000.000Z-bbbb", &link);
    let known = || store.objects().list(SOURCES_FOLDER).unwrap().into_iter().collect::<BTreeSet<_>>();

    collect_garbage(&store, 1, false).unwrap();
    assert_eq!(known(), objects(&[&old, &new, &other]), "nothing is removed without being asked");
    labels::set_tag(&store, "20260101T000000.000Z-aaaa", "paper", false).unwrap();
    collect_garbage(&store, 1, true).unwrap();
    assert_eq!(known(), objects(&[&old, &new]), "no run read the third");
    labels::remove_tag(&store, "paper").unwrap();
    collect_garbage(&store, 1, true).unwrap();
    assert_eq!(known(), objects(&[&new]));
}
