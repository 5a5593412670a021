//! Tests of the reuse of results.

use super::*;
use crate::run::finish_reused;
use crate::status::stage_lineage;
use pairloom_stage::SourceRef;

#[test]
fn a_second_run_reuses_everything() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let (summary, events) = run(&pipeline(), &store);
    assert!(summary.error.is_none());
    assert_eq!(events.iter().filter(|event| matches!(event, Event::StageFinished { .. })).count(), 4);
    let statuses = statuses(&pipeline(), &store);
    assert_eq!(rows(&store, &statuses[1], "rows").unwrap(), (100..145).collect::<Vec<_>>());
    // Sums of the first 4, 8, … of the numbers 100, 101, ….
    let sums: Vec<i64> = (1..=11).map(|n| (100..100 + 4 * n).sum()).collect();
    assert_eq!(rows(&store, &statuses[3], "sums").unwrap(), sums);

    let (summary, events) = run(&pipeline(), &store);
    assert!(summary.error.is_none());
    assert_eq!(events.iter().filter(|event| matches!(event, Event::StageReused { .. })).count(), 4);
    let again = finish_reused(&statuses, &store, &options(), &|_| {}).unwrap();
    assert!(again.is_some());
}

/// A result may depend on the lineage, so the lineage must depend on what the key depends on only.
#[test]
fn the_lineage_of_a_stage_contains_neither_names_nor_the_order_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let sums_status = |plan: &Plan<ToyStage>, name: &str| {
        let statuses = statuses(plan, &store);
        let status = statuses.iter().find(|status| status.name == name).unwrap();
        stage_lineage(&status.identity, &statuses)
    };
    let lineage = sums_status(&pipeline(), "sums");
    let renamed = plan(vec![
        node("total", ToyStage::sum("a.rows")),
        node("z", ToyStage::count(45)),
        node("b", ToyStage::add("z.rows", 7)),
        node("a", ToyStage::add("z.rows", 100)),
    ]);
    assert_eq!(lineage, sums_status(&renamed, "total"));
    let kinds: Vec<_> = lineage.artefacts.iter().map(|found| (found.kind.as_str(), found.settings.clone())).collect();
    assert_eq!(kinds, [("count", serde_json::json!({ "n": 45 })), ("map", serde_json::json!({ "add": 100 }))]);
    let producer = lineage.producer("rows").unwrap().unwrap();
    assert_eq!((producer.kind.as_str(), producer.key.len()), ("map", 32));
    assert!(lineage.producer("lines").is_err());
}

#[test]
fn a_changed_setting_runs_the_later_stages_and_changing_it_back_runs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    run(&pipeline(), &store);
    let changed = || {
        plan(vec![
            node("numbers", ToyStage::count(45)),
            node("more", ToyStage::add("numbers.rows", 101)),
            node("other", ToyStage::add("numbers.rows", 7)),
            node("sums", ToyStage::sum("more.rows")),
        ])
    };
    assert_eq!(to_run(&changed(), &store), ["more", "sums"]);
    let reasons: Vec<_> = statuses(&changed(), &store).into_iter().map(|status| status.reasons).collect();
    assert_eq!(reasons[1], ["add: 100 → 101"]);
    assert_eq!(reasons[3], ["input `rows` comes from another map"]);
    run(&changed(), &store);
    assert_eq!(to_run(&pipeline(), &store), Vec::<String>::new());
}

#[test]
fn renamed_and_equal_stages_use_the_same_artefact() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    run(&pipeline(), &store);
    let renamed = plan(vec![
        node("n", ToyStage::count(45)),
        node("m", ToyStage::add("n.rows", 100)),
        node("m2", ToyStage::add("n.rows", 100)),
    ]);
    assert_eq!(to_run(&renamed, &store), Vec::<String>::new());
}

#[test]
fn two_stages_with_the_same_key_are_built_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let twins =
        plan(vec![node("a", ToyStage::count(45)), node("b", ToyStage::count(45)), node("c", ToyStage::pass("b.rows"))]);
    let (summary, events) = run(&twins, &store);
    assert!(summary.error.is_none(), "{:?}", summary.error);
    assert_eq!(events.iter().filter(|event| matches!(event, Event::StageStarted { .. })).count(), 2);
}

#[test]
fn a_stage_depends_on_the_content_of_a_source_and_not_on_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let (one, two) = (folder.path().join("one.txt"), folder.path().join("two.txt"));
    std::fs::write(&one, "same").unwrap();
    std::fs::write(&two, "same").unwrap();
    let reads = |path: &Path| plan(vec![node("a", ToyStage::Count { n: 3, source: Some(SourceRef::new(path)) })]);
    run(&reads(&one), &store);
    assert_eq!(to_run(&reads(&two), &store), Vec::<String>::new());
    std::fs::write(&two, "other").unwrap();
    assert_eq!(statuses(&reads(&two), &store)[0].reasons, ["input `source` has other content"]);
}

#[test]
fn a_source_that_changes_while_it_is_read_gives_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let source = folder.path().join("source.txt");
    std::fs::write(&source, "one").unwrap();
    let plan = plan(vec![node("a", ToyStage::Count { n: 25, source: Some(SourceRef::new(&source)) })]);
    let change = |event: &Event| {
        if matches!(event, Event::PartCommitted { part: 0, .. }) {
            std::fs::write(&source, "two").unwrap();
        }
    };
    let summary = execute(&plan, RunnableStage::run, &store, &options(), &CancelToken::new(), &change).unwrap();
    let message = summary.error.unwrap().to_string();
    assert!(
        message.starts_with("stage `a`: `source`: `") && message.ends_with("changed while it was read"),
        "{message}"
    );
    // With the content that it had at first, nothing of that run is taken up.
    std::fs::write(&source, "one").unwrap();
    let (summary, events) = run(&plan, &store);
    assert!(summary.error.is_none());
    assert!(events.iter().any(|event| matches!(event, Event::StageStarted { resumed_rows: 0, .. })));
}

#[test]
fn a_consumer_reads_while_its_producer_runs() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let (_, events) = run(&plan(vec![node("a", ToyStage::count(20_000)), node("b", ToyStage::pass("a.rows"))]), &store);
    let first_of_b =
        events.iter().position(|event| matches!(event, Event::PartCommitted { stage, .. } if stage == "b"));
    let end_of_a = events.iter().position(|event| matches!(event, Event::StageFinished { stage, .. } if stage == "a"));
    assert!(first_of_b < end_of_a, "{first_of_b:?} {end_of_a:?}");
}

#[test]
fn two_runs_at_once_share_the_work() {
    let folder = tempfile::tempdir().unwrap();
    // Two stores on one folder behave like two processes: locks belong to open files.
    let stores = [Store::open(folder.path()).unwrap(), Store::open(folder.path()).unwrap()];
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
    assert_eq!(content(folder.path()), expected());
}

#[test]
fn bytes_in_flight_stay_within_the_limit_of_the_run() {
    let peak = |memory| {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let plan = plan(vec![node("a", ToyStage::count(3000)), node("b", ToyStage::pass("a.rows"))]);
        // Publishing is slow: there is a short wait after every part of `b`.
        let observer = |event: &Event| {
            if matches!(event, Event::PartCommitted { stage, .. } if stage == "b") {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        };
        let options = RunOptions { memory, threads: 8, ..options() };
        execute(&plan, RunnableStage::run, &store, &options, &CancelToken::new(), &observer)
            .unwrap()
            .peak_bytes_in_flight
    };
    // A block of seven numbers has 56 bytes; its part has some 700 as Parquet.
    let (tight, loose) = (peak(2_000), peak(1 << 20));
    assert!(tight <= 2_000, "{tight}");
    assert!(loose > 2 * tight, "more is in flight without a tight limit: {loose} and {tight}");
}
