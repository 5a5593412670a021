//! Tests of the identity of pipelines, of names that mean several things, and of records that lack something.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::Store;
use super::comparison::compare_runs;
use super::gc::collect_garbage;
use super::labels::{self, PinTarget};
use super::record::{RunLog, RunOutcome, RunRecord};
use super::testing::{finished_run, stage};

/// Run of the first days of 2026 whose training has `epochs`, of the pipeline file `file`, typed as `text`.
fn run(store: &Store, day: u32, (text, file): (&str, Option<&str>), epochs: u32) -> RunRecord {
    let name = format!("202601{day:02}T000000.000Z-00{day:02}");
    let stages = [
        stage("pairs", "ingest", json!({ "split": "all" }), &[]),
        stage("fit", "train", json!({ "epochs": epochs }), &["pairs"]),
    ];
    let mut record = finished_run(store, &name, text, &stages);
    record.command.file = file.map(str::to_owned);
    record.save(store).unwrap();
    record
}

fn empty_store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    (folder, store)
}

fn found(log: &RunLog, name: &str) -> Result<String, String> {
    log.find(name).map(|run| run.short_name().to_owned()).map_err(|error| error.to_string())
}

#[test]
fn a_pipeline_is_known_by_the_path_of_its_file() {
    let (_folder, store) = empty_store();
    let here = Path::new("Cargo.toml").canonicalize().unwrap().display().to_string();
    run(&store, 1, ("p.toml", Some("/a/p.toml")), 1);
    run(&store, 2, ("p.toml", Some("/b/p.toml")), 2);
    run(&store, 3, ("../b/p.toml", Some("/b/p.toml")), 3);
    run(&store, 4, ("Cargo.toml", Some(&here)), 4);
    run(&store, 5, ("Cargo.toml", Some("/c/Cargo.toml")), 5);
    run(&store, 6, ("old/q.toml", None), 6);
    run(&store, 7, ("old/q.toml", Some("/c/old/q.toml")), 7);
    let log = RunLog::open(&store).unwrap();
    assert!(found(&log, "p").unwrap_err().ends_with("names several pipelines: `/a/p.toml`, `/b/p.toml`"));
    assert_eq!(log.find("p").unwrap_err().hint_text(), Some("name one by its whole path, or by more of its path"));
    for (name, end) in [("/a/p.toml", "0001"), ("b/p", "0003"), ("../b/p.toml", "0003"), ("/b/p.toml~1", "0002")] {
        assert_eq!(found(&log, name).as_deref(), Ok(end), "{name}");
    }
    assert!(found(&log, "/b/p.toml~2").is_err(), "the run of the other file does not count");
    assert_eq!(found(&log, "Cargo.toml").unwrap(), "0004", "the file in the current folder comes first");
    assert_eq!(found(&log, "Cargo").unwrap(), "0004");
    assert_eq!(found(&log, "q").unwrap(), "0007", "older records have no path");
    let names: Vec<&str> = log.pipeline_names().unwrap().into_values().collect();
    assert!(names.contains(&"/a/p.toml") && names.contains(&"../b/p.toml") && names.contains(&"/c/old/q.toml"));
    // Each of the five files keeps its last run, whatever its text; only the first of `/b/p.toml` loses its result.
    let removable = collect_garbage(&store, 1, false).unwrap();
    assert_eq!(removable.runs, [("20260102T000000.000Z-0002".to_owned(), "../b/p.toml".to_owned())]);
}

#[test]
fn runs_differ_in_connections_and_kinds() {
    let (_folder, store) = empty_store();
    let run = |day: u32, from: &'static str, kind: &'static str| {
        let reads = [from];
        let stages = [
            stage("p1", "ingest", json!({ "name": "one" }), &[]),
            stage("p2", "ingest", json!({ "name": "two" }), &[]),
            stage("fit", kind, json!({ "epochs": 1 }), &reads),
            stage("test", "evaluate", json!({}), &["fit"]),
        ];
        let mut run = finished_run(&store, &format!("202601{day:02}T000000.000Z-00{day:02}"), "p.toml", &stages);
        // The input is called as in a pipeline file.
        let inputs = &mut run.stages[2].identity.as_mut().unwrap().inputs;
        let input = inputs.remove(from).unwrap();
        inputs.insert("images".to_owned(), input);
        run
    };
    let text = |first: &RunRecord, second: &RunRecord| -> Vec<String> {
        let found = compare_runs(first, second).into_iter();
        found
            .map(|change| format!("{}: {} → {}", change.subject, change.before.unwrap(), change.after.unwrap()))
            .collect()
    };
    let (first, second, third) = (run(1, "p1", "train"), run(2, "p2", "train"), run(3, "p2", "import_model"));
    assert_eq!(text(&first, &second), ["fit.images: p1.rows → p2.rows"]);
    assert_eq!(text(&second, &third), ["kind of fit: train → import_model"]);
    assert_eq!(text(&first, &first), Vec::<String>::new());
}

/// A difference of all instances of a stage has the name of the stage, one of a row that of the row.
#[test]
fn differences_of_instances_are_named_by_what_they_share() {
    let (_folder, store) = empty_store();
    let run = |day: u32, seeds: std::ops::Range<u32>, epochs: [u32; 2], batch_size: u32| {
        let rows = ["a", "b"].into_iter().zip(epochs);
        let named: Vec<(String, serde_json::Value)> = rows
            .flat_map(|(row, epochs)| {
                seeds.clone().map(move |seed| {
                    let settings = json!({ "row": row, "seed": seed, "epochs": epochs, "batch_size": batch_size });
                    (format!("fit@row={row},seed={seed}"), settings)
                })
            })
            .collect();
        let stages: Vec<_> = named.iter().map(|(name, settings)| stage(name, "train", settings.clone(), &[])).collect();
        finished_run(&store, &format!("202601{day:02}T000000.000Z-00{day:02}"), "p.toml", &stages)
    };
    let text = |first: &RunRecord, second: &RunRecord| -> Vec<String> {
        let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let found = compare_runs(first, second).into_iter();
        found.map(|change| format!("{}: {} → {}", change.subject, text(change.before), text(change.after))).collect()
    };
    let first = run(1, 1..3, [3, 3], 64);
    assert_eq!(text(&first, &run(2, 1..3, [3, 5], 64)), ["fit@row=b.epochs: 3 → 5"]);
    assert_eq!(text(&first, &run(3, 1..3, [3, 3], 32)), ["fit.batch_size: 64 → 32"]);
    assert_eq!(text(&first, &run(4, 1..4, [3, 3], 64)), ["fit@seed=3: - → train"]);
    assert_eq!(text(&first, &run(5, 1..4, [3, 3], 32)), ["fit.batch_size: 64 → 32", "fit@seed=3: - → train"]);
}

#[test]
fn settings_of_older_records_come_from_the_manifests() {
    let (_folder, store) = empty_store();
    for (day, epochs) in [(1, 1), (2, 2)] {
        let mut old = run(&store, day, ("p.toml", None), epochs);
        for stage in &mut old.stages {
            (stage.identity, stage.tables) = (None, vec![]);
        }
        old.save(&store).unwrap();
    }
    let differences = |log: &RunLog| {
        let found = compare_runs(log.find("0001").unwrap(), log.find("0002").unwrap()).into_iter();
        found.map(|change| (change.subject, change.before.unwrap(), change.after.unwrap())).collect::<Vec<_>>()
    };
    let difference =
        |subject: &str, before: &str, after: &str| (subject.to_owned(), before.to_owned(), after.to_owned());
    let log = RunLog::open(&store).unwrap();
    assert_eq!(differences(&log), [difference("fit.epochs", "1", "2")]);
    assert_eq!(log.find("0001").unwrap().stages[1].tables, ["rows"]);
    let all = RunLog::open(&store).unwrap();
    all.read_all().unwrap();
    assert_eq!(differences(&all), differences(&log));
    let fit = &log.find("0001").unwrap().stages[1];
    store.artefact(&fit.kind, &fit.key).remove().unwrap();
    let log = RunLog::open(&store).unwrap();
    assert_eq!(differences(&log), [difference("settings of fit", "not recorded", "recorded")]);
}

#[test]
fn a_damaged_record_is_reported_once() {
    let (folder, store) = empty_store();
    run(&store, 1, ("p.toml", None), 1);
    let second = run(&store, 2, ("p.toml", None), 2);
    let path = folder.path().join("v1/runs").join(format!("{}.json", second.run));
    std::fs::write(&path, &std::fs::read(&path).unwrap()[..100]).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let (counted, shown) = (Arc::clone(&count), path.display().to_string());
    let log = RunLog::open_observed(&store, move |error| {
        assert!(error.to_string().contains(&shown), "{error}");
        counted.fetch_add(1, Ordering::Relaxed);
    })
    .unwrap();
    for name in ["latest", "p.toml", "0002"] {
        assert!(found(&log, name).unwrap_err().contains("cannot be read"), "{name}");
    }
    assert_eq!(found(&log, "0001").unwrap(), "0001");
    log.read_all().unwrap();
    assert_eq!((log.readable().count(), count.load(Ordering::Relaxed)), (1, 1));
}

#[test]
fn the_last_run_is_not_the_one_before_a_record_that_cannot_be_read() {
    let (folder, store) = empty_store();
    let damage = |run: &RunRecord| {
        std::fs::write(folder.path().join("v1/runs").join(format!("{}.json", run.run)), "").unwrap();
    };
    damage(&run(&store, 1, ("p.toml", None), 1));
    let log = RunLog::open(&store).unwrap();
    assert!(log.last_finished(None).is_err(), "the store has a run, but none that can be read");
    run(&store, 2, ("p.toml", None), 1);
    let log = RunLog::open(&store).unwrap();
    assert_eq!(log.last_finished(None).unwrap().unwrap().short_name(), "0002", "an older damaged record is no matter");
    // It may be a run of any pipeline.
    damage(&run(&store, 3, ("other.toml", None), 1));
    let log = RunLog::open(&store).unwrap();
    for pipeline in [None, Some("p.toml")] {
        let error = log.last_finished(pipeline).unwrap_err();
        assert!(error.to_string().starts_with("the last finished run is not known: the record of a run"), "{error}");
        assert!(error.hint_text().unwrap().starts_with("name the run that you mean"), "{error:?}");
    }
    run(&store, 4, ("p.toml", None), 1);
    let log = RunLog::open(&store).unwrap();
    assert_eq!(log.last_finished(Some("p.toml")).unwrap().unwrap().short_name(), "0004");
}

#[test]
fn a_run_is_compared_with_the_last_finished_one() {
    let (_folder, store) = empty_store();
    run(&store, 1, ("p.toml", None), 1);
    let mut failed = run(&store, 2, ("p.toml", None), 2);
    failed.outcome = RunOutcome::Failed;
    failed.save(&store).unwrap();
    run(&store, 3, ("other.toml", None), 3);
    run(&store, 4, ("p.toml", None), 4);
    run(&store, 5, ("p.toml", None), 4);
    let log = RunLog::open(&store).unwrap();
    for run in ["0002", "0004", "0005"] {
        let before = log.before(log.find(run).unwrap()).map(RunRecord::short_name);
        assert_eq!(before, Some("0001"), "{run}");
    }
    assert_eq!(log.before(log.find("0001").unwrap()), None);
}

#[test]
fn a_store_without_a_finished_run_tells_how_to_go_on() {
    let (_folder, store) = empty_store();
    assert_eq!(RunLog::open(&store).unwrap().none_finished(None).to_string(), "this store has no runs");
    let mut failed = run(&store, 1, ("p.toml", None), 2);
    (failed.outcome, failed.error) = (RunOutcome::Failed, Some("stage `fit`: loss is NaN\nmore".to_owned()));
    failed.command.overrides = vec!["seed=3".to_owned()];
    failed.save(&store).unwrap();
    let log = RunLog::open(&store).unwrap();
    for (name, whose) in [
        ("latest", "this store has finished; the last one, `20260101T000000.000Z-0001` of `p.toml`,"),
        ("p", "`p.toml` has finished; the last one, `20260101T000000.000Z-0001`,"),
    ] {
        let error = log.find(name).unwrap_err();
        assert_eq!(error.to_string(), format!("no run of {whose} failed: stage `fit`: loss is NaN"));
        let hint = "go on with `pairloom run p.toml --set 'seed=3'`, or name this run: `0001`";
        assert_eq!(error.hint_text(), Some(hint));
    }
}

#[test]
fn all_meanings_of_a_name_are_known() {
    let (_folder, store) = empty_store();
    let first = run(&store, 1, ("fit.toml", Some("/a/fit.toml")), 1);
    run(&store, 2, ("fit.toml", Some("/b/fit.toml")), 2);
    labels::set_tag(&store, &first.run, "pairs", false).unwrap();
    let log = RunLog::open(&store).unwrap();
    let meanings = |name: &str| log.meanings(name).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
    let stage = "a stage of the run `20260102T000000.000Z-0002` of `fit.toml`";
    assert_eq!(meanings("fit"), ["the pipeline `/a/fit.toml`", stage]);
    assert_eq!(meanings("pairs"), ["the tag of the run `20260101T000000.000Z-0001`", stage]);
    assert_eq!(meanings("0001"), ["the run `20260101T000000.000Z-0001`"]);
    assert_eq!(meanings("paper"), Vec::<String>::new());
}

#[test]
fn pinned_results_are_named_by_garbage_collection() {
    let (_folder, store) = empty_store();
    let old = run(&store, 1, ("p.toml", None), 1);
    run(&store, 2, ("p.toml", None), 2);
    let key = old.stages[1].key.clone();
    labels::pin(&store, &PinTarget::Artefact("train".to_owned(), key.clone())).unwrap();
    let pinned = collect_garbage(&store, 1, false).unwrap().pinned;
    assert_eq!(pinned.len(), 1);
    assert_eq!((pinned[0].key.as_str(), &pinned[0].last_use), (key.as_str(), &Some((old.run, "fit".to_owned()))));
}

#[test]
fn notes_have_no_control_characters() {
    let (_folder, store) = empty_store();
    let error = labels::set_note(&store, "run", "red \u{1b}[31mtext").unwrap_err().to_string();
    assert!(error.contains("`\\u{1b}`"), "{error}");
    labels::set_note(&store, "run", "two\n\tlines").unwrap();
    assert!(!labels::check_tag("a\nb").unwrap_err().to_string().contains('\n'));
}

#[test]
fn a_tag_with_the_name_of_a_later_pipeline_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let first = finished_run(&store, "20260101T000000.000Z-0001", "one.toml", &[]).run;
    labels::set_tag(&store, &first, "paper", false).unwrap();
    let find = |name: &str| RunLog::open(&store).unwrap().find(name).map(|run| run.run.clone());
    assert_eq!(find("paper").unwrap(), first);
    finished_run(&store, "20260102T000000.000Z-0002", "paper.toml", &[]);
    let error = find("paper").unwrap_err().to_string();
    assert!(error.contains("the tag of the run `20260101T000000.000Z-0001`, the pipeline `paper.toml`"), "{error}");
}
