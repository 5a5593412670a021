//! Tests of `evaluate` with judgements: one direction, unknown identifiers, grades.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, Int64Type};

use super::tests::{TestCaptions, TestImages, host, stage, unit};
use crate::testing::RunOnHost as _;
use pairloom_base::error::Result;
use pairloom_retrieval::Protocol;
use pairloom_spec::stages::evaluate::{Evaluate, RelevanceSource};
use pairloom_stage::{Stage, TableRef};
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;

/// Images 10, 11, 12 at 0°, 90°, 180°; captions 2 and 3 of image 10 at 5° and 85°, 10 of 11 at 80°, 4 of 12 at 170°.
///
/// Image 10 finds 2, 10, 3, 4; image 11 finds 3, 10, 4, 2; image 12 finds 4, 3, 10, 2.
/// Captions 3 and 10 find 11, 10, 12; caption 2 finds 10, 11, 12; caption 4 finds 12, 11, 10.
fn circle() -> (TestImages, TestCaptions) {
    let images = vec![(10, "test", unit(0.0)), (11, "test", unit(90.0)), (12, "test", unit(180.0))];
    let captions = vec![
        (2, 10, "test", unit(5.0)),
        (3, 10, "test", unit(85.0)),
        (10, 11, "test", unit(80.0)),
        (4, 12, "test", unit(170.0)),
    ];
    (images, captions)
}

fn judged(rows: &[(&str, i64, i64, f64)]) -> RecordBatch {
    let columns = vec![
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.0))) as ArrayRef,
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2))),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.3))),
    ];
    tables::batch(&tables::qrels::table().schema(), columns).expect("columns fit")
}

fn with_qrels(at_least: Option<f64>) -> Evaluate {
    let relevance = RelevanceSource {
        name: "judged".to_owned(),
        similarity: None,
        ratings: None,
        qrels: Some(TableRef::try_from("coco.qrels".to_owned()).expect("a table's name")),
        neighbours: None,
        at_least,
    };
    Evaluate { relevance: vec![relevance], ..stage(&[Protocol::All]) }
}

fn evaluated(rows: &[(&str, i64, i64, f64)], at_least: Option<f64>) -> Result<InMemoryHost> {
    let (images, captions) = circle();
    let mut host = host(&images, &captions);
    host.input_tables.insert("relevance.0.qrels".to_owned(), vec![judged(rows)]);
    host.run_stage(&with_qrels(at_least)).map(|()| host)
}

/// Value and number of queries of a measure without cut-off; `None` if it has no row.
fn measured(host: &InMemoryHost, direction: &str, measure: &str) -> Option<(f64, i64)> {
    let metrics = host.output("metrics");
    let text = |name: &str, row: usize| metrics[name].as_string::<i32>().value(row).to_owned();
    let row = (0..metrics.num_rows()).find(|&row| {
        metrics["relevance"].is_valid(row)
            && text("direction", row) == direction
            && text("measure", row) == measure
            && (metrics["k"].is_null(row) || metrics["k"].as_primitive::<Int64Type>().value(row) == 1)
    })?;
    let value = metrics["value"].as_primitive::<Float64Type>().value(row);
    Some((value, metrics["n_queries"].as_primitive::<Int64Type>().value(row)))
}

/// A judgement holds in its direction only, although 10 is both an image and a caption.
#[test]
fn directions_have_their_own_judgements() {
    let rows = [
        ("i2t", 10, 10, 1.0),
        ("i2t", 10, 3, 2.0),
        ("i2t", 10, 2, 0.0),
        ("i2t", 12, 2, 1.0),
        ("t2i", 10, 10, 1.0),
        ("t2i", 4, 12, 0.5),
    ];
    let host = evaluated(&rows, None).expect("the input is fine");
    // Image 10 wants 10 and 3 and finds 2, 10: hits 0 1, so P(2)/2 = 1/4. Image 12 wants 2 and finds 4.
    assert_eq!(measured(&host, "i2t", "recall"), Some((0.0, 2)));
    assert_eq!(measured(&host, "i2t", "r_precision"), Some((25.0, 2)));
    assert_eq!(measured(&host, "i2t", "map_at_r"), Some((12.5, 2)));
    // Caption 10 wants image 10 and finds 11; the grade of caption 4 is too low.
    assert_eq!(measured(&host, "t2i", "map_at_r"), Some((0.0, 1)));
    assert_eq!(host.warnings, []);

    let host = evaluated(&rows, Some(0.5)).expect("the input is fine");
    assert_eq!(measured(&host, "t2i", "recall"), Some((50.0, 2)));
    let host = evaluated(&rows, Some(2.0)).expect("the input is fine");
    assert_eq!(measured(&host, "i2t", "set_recall"), Some((0.0, 1)));
    assert_eq!(measured(&host, "t2i", "recall"), None, "no caption has such a grade");
}

#[test]
fn unknown_queries_and_items_are_named() {
    let rows = [("i2t", 10, 2, 1.0), ("i2t", 99, 2, 1.0), ("t2i", 2, 98, 1.0), ("t2i", 97, 96, 1.0)];
    let host = evaluated(&rows, None).expect("one judgement is known");
    let messages: Vec<String> = host.warnings.iter().map(|w| format!("{}: {}", w.subject, w.message)).collect();
    let expected = "relevance.0.qrels: 3 of 4 judgements are left out, since the split lacks their query or item: \
                  i2t query 99 with item 2, t2i query 2 with item 98, t2i query 97 with item 96";
    assert_eq!(messages, [expected]);

    let error = evaluated(&rows[1..], None).expect_err("all are unknown");
    let message = error.to_string();
    assert!(message.starts_with("the split lacks the query or the item of all 3 judgements"), "{message}");
    assert!(message.contains("images, such as 10, 11, 12, and of its captions, such as 2, 3, 10, 4"), "{message}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("`test_caption_ids` of `precomp`")), "{error}");

    let error = evaluated(&rows[..1], Some(2.0)).expect_err("the grade is too low");
    assert!(error.to_string().ends_with("no judgement of the split with a grade of 2 or higher"), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.starts_with("the highest grade is 1;")), "{error}");
}

#[test]
fn rankings_have_the_wanted_depth() {
    let (images, captions) = circle();
    let lengths = |depth: usize| {
        let mut host = host(&images, &captions);
        host.run_stage(&Evaluate { ranking_depth: depth, ..stage(&[Protocol::All]) }).expect("the input is fine");
        let rankings = host.output("rankings");
        let lists = rankings["top_ids"].as_list::<i32>();
        (0..lists.len()).map(|row| lists.value(row).len()).collect::<Vec<_>>()
    };
    assert_eq!(lengths(1), [1; 7]);
    assert_eq!(lengths(2), [2; 7]);
    assert_eq!(lengths(50), [4, 4, 4, 3, 3, 3, 3]);
    let problems = Evaluate { ranking_depth: 0, ..stage(&[Protocol::All]) }.check();
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[test]
fn bad_settings_are_named() {
    let messages = |change: &dyn Fn(&mut RelevanceSource)| -> Vec<String> {
        let mut stage = with_qrels(None);
        change(&mut stage.relevance[0]);
        stage.check().iter().map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
    };
    assert_eq!(messages(&|_| {}), Vec::<String>::new());
    assert_eq!(messages(&|of| of.at_least = Some(-1.0)), Vec::<String>::new());
    let got = messages(&|of| (of.at_least, of.neighbours) = (Some(f64::NAN), Some(vec![1])));
    assert_eq!(
        got,
        [
            "relevance.0.neighbours: belongs to `similarity`",
            "relevance.0.at_least: got NaN, expected the lowest value of relevant pairs"
        ]
    );
    let got = messages(&|of| of.ratings = of.qrels.clone());
    assert_eq!(got, ["relevance.0: names several tables"]);
}
