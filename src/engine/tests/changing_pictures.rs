//! Tests of pictures that change while a stage reads them: files below the folder that the paths of an input table are
//! relative to. The stage has no source of its own.

use super::*;
use pairloom_stage::SourceRef;

#[test]
fn pictures_that_change_while_a_stage_reads_them_give_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let pictures = folder.path().join("pictures");
    std::fs::create_dir(&pictures).unwrap();
    let picture = pictures.join("1.jpg");
    std::fs::write(&picture, "one").unwrap();
    let list = || node("list", ToyStage::Count { n: 25, source: Some(SourceRef::new(&pictures)) });
    let both = || plan(vec![list(), node("look", ToyStage::pass("list.rows"))]);
    // The stage with the source is complete before the pictures change.
    assert!(run(&plan(vec![list()]), &store).0.error.is_none());
    let change = |event: &Event| {
        if matches!(event, Event::PartCommitted { stage, part: 0, .. } if stage == "look") {
            std::fs::write(&picture, "two").unwrap();
        }
    };
    let summary = execute(&both(), RunnableStage::run, &store, &options(), &CancelToken::new(), &change).unwrap();
    let message = summary.error.unwrap().to_string();
    assert!(
        message.starts_with("stage `look`: `rows`: `") && message.ends_with("pictures` changed while it was read"),
        "{message}"
    );
    // With the pictures as they were at first, nothing of that run is taken up.
    std::fs::write(&picture, "one").unwrap();
    assert_eq!(to_run(&both(), &store), ["look"]);
    let (summary, events) = run(&both(), &store);
    assert!(summary.error.is_none(), "{:?}", summary.error);
    assert!(events.iter().any(|event| matches!(event, Event::StageStarted { resumed_rows: 0, .. })));
    assert_eq!(rows(&store, &statuses(&both(), &store)[1], "rows").unwrap(), (0..25).collect::<Vec<_>>());
}
