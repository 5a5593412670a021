//! Tests of the log of runs, labels, lineage and garbage collection, on a store that is written by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::comparison::compare_runs;
use super::gc::collect_garbage;
use super::labels::{self, Labels, PinTarget};
use super::lineage::Lineage;
use super::record::{RunCommand, RunLog, RunOutcome, RunRecord};
use super::testing::{finished_run, stage};
use super::{SOURCES_FOLDER, Store, folder_times_name, source_list_name};

fn empty_store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    (folder, store)
}

/// Run of three stages, of which the second has the given number of epochs.
fn three_stages(store: &Store, run: &str, pipeline: &str, epochs: u32) -> RunRecord {
    let stages = [
        stage("pairs", "ingest", json!({ "split": "all" }), &[]),
        stage("fit", "train", json!({ "epochs": epochs, "loss": { "max": { "margin": 0.2 } } }), &["pairs"]),
        stage("test", "evaluate", json!({}), &["fit"]),
    ];
    finished_run(store, run, pipeline, &stages)
}

fn name(day: u32, end: &str) -> String {
    format!("202601{day:02}T000000.000Z-{end}")
}

#[test]
fn a_run_has_several_names() {
    let (_folder, store) = empty_store();
    three_stages(&store, &name(1, "aaaa"), "pipelines/one.toml", 1);
    three_stages(&store, &name(2, "bbbb"), "pipelines/one.toml", 2);
    three_stages(&store, &name(3, "cccc"), "pipelines/one.toml", 2);
    three_stages(&store, &name(4, "dddd"), "pipelines/small/one.toml", 3);
    let mut failed = three_stages(&store, &name(5, "eeee"), "pipelines/two.toml", 3);
    failed.outcome = RunOutcome::Failed;
    failed.save(&store).unwrap();
    labels::set_tag(&store, &name(1, "aaaa"), "baseline", false).unwrap();
    let log = RunLog::open(&store).unwrap();
    let found = |text: &str| log.find(text).map(|run| run.short_name().to_owned()).map_err(|error| error.to_string());
    assert_eq!(found(&name(2, "bbbb")).unwrap(), "bbbb");
    assert_eq!(found("cccc").unwrap(), "cccc");
    assert_eq!(found("20260104").unwrap(), "dddd");
    assert_eq!(found("baseline").unwrap(), "aaaa");
    assert_eq!(found("latest").unwrap(), "dddd", "the last run failed");
    assert_eq!(found("small/one").unwrap(), "dddd");
    assert_eq!(found("pipelines/one.toml").unwrap(), "cccc");
    // The third run repeats the second, so the different run before it is the first.
    assert_eq!(found("cccc~1").unwrap(), "aaaa");
    assert!(found("cccc~2").unwrap_err().contains("fewer than 2"));
    assert!(found("one").unwrap_err().contains("`pipelines/one.toml`, `pipelines/small/one.toml`"));
    assert!(found("202601").unwrap_err().contains("several runs"));
    assert!(found("two").unwrap_err().contains("no run of `pipelines/two.toml` has finished"));
    assert!(found("three").unwrap_err().contains("no run `three`"));
}

#[test]
fn a_tag_names_one_run_until_it_is_moved() {
    let (_folder, store) = empty_store();
    for tag in
        ["", "-x", "a b", "../x", "latest", "LATEST", "3f2a", "9396bb85", "20261122", "20261122T1", &"x".repeat(65)]
    {
        assert!(labels::set_tag(&store, "run", tag, false).is_err(), "{tag}");
    }
    labels::set_tag(&store, "one", "paper", false).unwrap();
    labels::set_tag(&store, "one", "paper", false).unwrap();
    assert!(labels::set_tag(&store, "two", "paper", false).unwrap_err().to_string().contains("`one`"));
    labels::set_tag(&store, "two", "paper", true).unwrap();
    labels::set_note(&store, "two", "with the new features").unwrap();
    labels::pin(&store, &PinTarget::Run(name(1, "aaaa"))).unwrap();
    let read = Labels::read(&store).unwrap();
    assert_eq!(read.tags_of("two").collect::<Vec<_>>(), ["paper"]);
    assert_eq!(read.notes["two"], "with the new features");
    assert_eq!(read.pinned_runs, BTreeSet::from([name(1, "aaaa")]));
    labels::unpin(&store, &PinTarget::Run(name(1, "aaaa"))).unwrap();
    labels::remove_tag(&store, "paper").unwrap();
    labels::set_note(&store, "two", "").unwrap();
    assert_eq!(Labels::read(&store).unwrap(), Labels::default());
}

#[test]
fn lineage_goes_back_to_the_source() {
    let (_folder, store) = empty_store();
    let run = three_stages(&store, &name(1, "aaaa"), "one.toml", 1);
    let log = RunLog::open(&store).unwrap();
    let lineage = Lineage::of_runs(&log).unwrap();
    let test = (run.stages[2].kind.clone(), run.stages[2].key.clone());
    let ancestors: Vec<_> = lineage.ancestors(&test).into_iter().map(|it| (it.distance, it.name.0)).collect();
    assert_eq!(ancestors, [(1, "train".to_owned()), (2, "ingest".to_owned())]);
    assert_eq!(Lineage::of_artefact(&store, &test).unwrap().ancestors(&test), lineage.ancestors(&test));
}

#[test]
fn two_runs_differ_in_their_settings() {
    let (_folder, store) = empty_store();
    let first = three_stages(&store, &name(1, "aaaa"), "one.toml", 1);
    let mut second = three_stages(&store, &name(2, "bbbb"), "one.toml", 2);
    let identity = second.stages[1].identity.as_mut().unwrap();
    identity.settings["loss"] = json!({ "sum": { "margin": 0.1, "gamma": 30 } });
    let texts: Vec<_> = compare_runs(&first, &second)
        .into_iter()
        .map(|change| {
            format!(
                "{} {:?} {:?}{}",
                change.subject,
                change.before,
                change.after,
                if change.is_detail { " detail" } else { "" }
            )
        })
        .collect();
    let expected = [
        r#"fit.epochs Some("1") Some("2")"#,
        r#"fit.loss Some("max") Some("sum")"#,
        r#"fit.loss.gamma None Some("30") detail"#,
        r#"fit.loss.margin Some("0.2") Some("0.1")"#,
    ];
    assert_eq!(texts, expected);
}

/// Names of the stages whose artefacts garbage collection would remove, with the number of epochs of a training.
fn garbage(store: &Store, keep: usize) -> Vec<String> {
    let found = collect_garbage(store, keep, false).unwrap().garbage;
    let mut names: Vec<String> = found.into_iter().flat_map(|item| item.stages).collect();
    names.sort();
    names
}

#[test]
fn repeats_and_other_pipelines_do_not_push_results_out() {
    let (_folder, store) = empty_store();
    three_stages(&store, &name(1, "0001"), "one.toml", 1);
    three_stages(&store, &name(2, "0002"), "two.toml", 2);
    for repeat in 3..20 {
        three_stages(&store, &name(repeat, "0003"), "two.toml", 2);
    }
    assert_eq!(garbage(&store, 1), Vec::<String>::new());
    // A different run of `one.toml` pushes the first out; both share `pairs`.
    three_stages(&store, &name(20, "0004"), "one.toml", 4);
    assert_eq!(garbage(&store, 1), ["fit", "test"]);
    assert_eq!(garbage(&store, 2), Vec::<String>::new());
    // A failed run counts for none and stays as long as it is newer.
    let mut failed = three_stages(&store, &name(21, "0005"), "one.toml", 5);
    failed.outcome = RunOutcome::Failed;
    failed.save(&store).unwrap();
    assert_eq!(garbage(&store, 1), ["fit", "test"]);
    let removed = collect_garbage(&store, 1, true).unwrap();
    assert_eq!(removed.runs, [(name(1, "0001"), "one.toml".to_owned())]);
    assert_eq!(garbage(&store, 1), Vec::<String>::new());
    let log = RunLog::open(&store).unwrap();
    assert_eq!(log.readable().count(), 21, "records stay");
}

#[test]
fn labels_keep_results_and_a_pin_keeps_everything_before_it() {
    let (_folder, store) = empty_store();
    let old = three_stages(&store, &name(1, "0001"), "one.toml", 1);
    // Another kind of source, so that nothing is shared.
    let other = [stage("pairs", "ingest", json!({ "split": "other" }), &[])];
    finished_run(&store, &name(2, "0002"), "one.toml", &other);
    assert_eq!(garbage(&store, 1), ["fit", "pairs", "test"]);
    let fit = PinTarget::Artefact("train".to_owned(), old.stages[1].key.clone());
    labels::pin(&store, &fit).unwrap();
    assert_eq!(garbage(&store, 1), ["test"], "`fit` is pinned, and it follows from `pairs`");
    labels::unpin(&store, &fit).unwrap();
    labels::set_tag(&store, &old.run, "paper", false).unwrap();
    assert_eq!(garbage(&store, 1), Vec::<String>::new());
    labels::remove_tag(&store, "paper").unwrap();
    labels::set_note(&store, &old.run, "good").unwrap();
    assert_eq!(garbage(&store, 1), Vec::<String>::new());
}

#[test]
fn a_command_line_can_be_pasted() {
    let (_folder, store) = empty_store();
    let mut run = three_stages(&store, &name(1, "aaaa"), "my pipeline.toml", 1);
    run.command.overrides = vec!["stage.fit.train.loss={ max = {} }".to_owned()];
    run.command.environment = [("DATA".to_owned(), "/data/it's".to_owned())].into();
    run.command.device = "cuda:1".to_owned();
    let words = shlex::split(&run.command_line()).unwrap();
    let expected = [
        "DATA=/data/it's",
        "pairloom",
        "run",
        "my pipeline.toml",
        "--set",
        "stage.fit.train.loss={ max = {} }",
        "--device",
        "cuda:1",
    ];
    assert_eq!(words, expected);
    run.command = RunCommand { store: Some("s3://bucket/it".to_owned()), ..RunCommand::default() };
    let plain = "pairloom run 'my pipeline.toml' --store s3://bucket/it";
    assert_eq!(run.command_line(), plain);
    run.command.folder = Some("/an other/folder".to_owned());
    assert_eq!(run.command_line(), format!("cd '/an other/folder' && {plain}"));
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    run.command.folder = Some(here.display().to_string());
    assert_eq!(run.command_line(), plain);
}

#[test]
fn what_a_link_leads_to_is_not_removed() {
    let (folder, store) = empty_store();
    let outside = folder.path().join("outside");
    std::fs::create_dir_all(outside.join("0123")).unwrap();
    std::fs::write(outside.join("0123/mine.txt"), "mine").unwrap();
    let inside = store.objects().folder().unwrap().to_owned();
    let key = "ab".repeat(16);
    std::fs::create_dir_all(inside.join("extract").join(&key)).unwrap();
    store.objects().put(&format!("extract/{key}/features/part-00000.parquet"), "old".into()).unwrap();
    // A kind, an artefact, and a folder in an artefact of the store.
    std::os::unix::fs::symlink(&outside, inside.join("linked")).unwrap();
    std::os::unix::fs::symlink(outside.join("0123"), inside.join("extract").join("cd".repeat(16))).unwrap();
    std::os::unix::fs::symlink(outside.join("0123"), inside.join("extract").join(&key).join("more")).unwrap();
    let found = collect_garbage(&store, 1, true).unwrap();
    let removed: Vec<&str> = found.garbage.iter().map(|item| item.key.as_str()).collect();
    assert_eq!(removed, [key.as_str()]);
    assert!(!inside.join("extract").join(&key).exists());
    assert_eq!(std::fs::read_to_string(outside.join("0123/mine.txt")).unwrap(), "mine");
}

#[test]
fn a_run_comes_after_those_of_a_machine_whose_clock_runs_ahead() {
    let (_folder, store) = empty_store();
    let mut run = RunRecord::start("one.toml", RunCommand::default());
    let own = run.run.clone();
    run.name_after_others(&store).unwrap();
    assert_eq!(run.run, own, "a store without runs");
    three_stages(&store, "20991231T235959.999Z-ffff", "one.toml", 1);
    run.name_after_others(&store).unwrap();
    assert_eq!(run.run, format!("21000101T000000.000Z-{}", run.short_name()));
    run.save(&store).unwrap();
    assert_eq!(RunLog::open(&store).unwrap().names()[0], run.run);
}

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
