//! Tests of `test_significance` on results that are small enough to compute by hand.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, Int64Type};

use super::TestSignificance;
use pairloom_stage::{AncestorArtefact, AncestorInput, RunnableStage, Stage};
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;

/// Query: fold, direction, id, image, and hits at 1, 5, 10.
type HitRow = (i64, &'static str, i64, i64, [bool; 3]);

/// Rows of `rankings`.
fn rankings(protocol: &str, method: &str, parameters: Option<&str>, queries: &[HitRow]) -> RecordBatch {
    let rows = queries.len();
    let schema = tables::rankings::table(&tables::DEFAULT_CUTOFFS).schema();
    let repeat = |text: &str| Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows))) as ArrayRef;
    let int = |get: fn(&HitRow) -> i64| Arc::new(Int64Array::from_iter_values(queries.iter().map(get))) as ArrayRef;
    let hit = |place: usize| {
        Arc::new(BooleanArray::from(queries.iter().map(|query| query.4[place]).collect::<Vec<_>>())) as ArrayRef
    };
    let none = || Arc::new(Int64Array::new_null(rows)) as ArrayRef;
    let empty = |name: &str, values: ArrayRef| {
        tables::list_array(&schema, name, std::iter::repeat_n(0, rows), values).expect("a list")
    };
    let columns = vec![
        repeat(protocol),
        int(|query| query.0),
        repeat(method),
        Arc::new(std::iter::repeat_n(parameters, rows).collect::<StringArray>()),
        Arc::new(StringArray::from_iter_values(queries.iter().map(|query| query.1))),
        int(|query| query.2),
        int(|query| query.3),
        hit(0),
        hit(1),
        hit(2),
        none(),
        none(),
        none(),
        empty("top_ids", Arc::new(Int64Array::from(Vec::<i64>::new()))),
        empty("top_scores", Arc::new(Float32Array::from(Vec::<f32>::new()))),
    ];
    tables::batch(&schema, columns).expect("rows of rankings")
}

/// Three images with a caption each, with the given hits at 1. All hit at 5 and 10.
fn three(i2t: [bool; 3], t2i: [bool; 3]) -> Vec<HitRow> {
    let one = |direction, hits: [bool; 3], first: i64| {
        (0..3).zip(hits).map(move |(image, hit)| (0, direction, first + image, image + 1, [hit, true, true]))
    };
    one("i2t", i2t, 1).chain(one("t2i", t2i, 10)).collect()
}

fn stage_of(text: &str) -> TestSignificance {
    toml::from_str(text).expect("settings")
}

fn run(stage: &TestSignificance, tables: &[(&str, Vec<RecordBatch>)]) -> Result<(RecordBatch, Vec<String>), String> {
    let mut host = InMemoryHost::default();
    host.input_tables.extend(tables.iter().map(|(name, batches)| ((*name).to_owned(), batches.clone())));
    for (name, _) in tables {
        // The key of an evaluation is the name of its input.
        let key = (*name).to_owned();
        let settings = serde_json::json!({ "split": "test", "query_bank": key });
        let (kind, inputs) = ("evaluate".to_owned(), [].into());
        let input = AncestorInput::Artefact { key: key.clone(), output: "rankings".to_owned() };
        host.lineage.inputs.insert(key.clone(), input);
        host.lineage.artefacts.push(AncestorArtefact { kind, key, version: 1, settings, inputs });
    }
    host.run(stage as &dyn RunnableStage)
        .map_err(|error| format!("{error} | {}", error.hint_text().unwrap_or_default()))?;
    let warnings = host.warnings.iter().map(|warning| format!("{}: {}", warning.subject, warning.message)).collect();
    Ok((host.output("significance_tests"), warnings))
}

fn number(rows: &RecordBatch, name: &str, row: usize) -> f64 {
    rows[name].as_primitive::<Float64Type>().value(row)
}

fn count(rows: &RecordBatch, name: &str, row: usize) -> i64 {
    rows[name].as_primitive::<Int64Type>().value(row)
}

#[track_caller]
fn close(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-9, "got {got}, expected {expected}");
}

#[test]
fn methods_of_one_table_against_the_nearest_neighbour() {
    let base = rankings("p", "nns", None, &three([false, true, false], [false, true, false]));
    let other = rankings("p", "csls", Some("k = 10"), &three([true, true, false], [true, true, true]));
    let (rows, warnings) =
        run(&stage_of("rankings = \"a.rankings\""), &[("rankings", vec![base, other])]).expect("runs");
    assert!(warnings.is_empty());
    let measures: Vec<&str> = rows["measure"].as_string::<i32>().iter().flatten().collect();
    assert_eq!(measures, ["rsum", "i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1", "t2i_r5", "t2i_r10"]);
    let text = |name: &str| rows[name].as_string::<i32>().value(0).to_owned();
    assert_eq!([text("method"), text("parameters"), text("baseline")], ["csls", "k = 10", "nns"]);
    assert!(rows["baseline_parameters"].is_null(0));
    assert!(rows["settings"].is_null(0) && rows["baseline_settings"].is_null(0));
    assert_eq!([text("evaluation"), text("baseline_evaluation")], ["rankings", "rankings"]);

    // 2/3 + 1 + 1 and 1 + 1 + 1, against 1/3 + 1 + 1 twice.
    close(number(&rows, "value", 0), 1700.0 / 3.0);
    close(number(&rows, "baseline_value", 0), 1400.0 / 3.0);
    close(number(&rows, "difference", 0), 100.0);
    // Image 1 contributes 2/3 of the difference, image 3 the rest: 2 of the 4 swaps give as large a difference.
    close(number(&rows, "p_value", 0), 0.5);
    assert_eq!(["wins", "losses", "n_queries", "n_images"].map(|name| count(&rows, name, 0)), [3, 0, 6, 3]);
    // 1 draw of 27 has image 1 three times, and 1 has image 2 three times: each is more than 2.5 %.
    close(number(&rows, "ci95_low", 0), 0.0);
    close(number(&rows, "ci95_high", 0), 200.0);

    // Only image 1 differs, so every swap gives as large a difference.
    close(number(&rows, "difference", 1), 100.0 / 3.0);
    close(number(&rows, "p_value", 1), 1.0);
    assert_eq!(["wins", "losses", "n_queries"].map(|name| count(&rows, name, 1)), [1, 0, 3]);
    close(number(&rows, "difference", 2), 0.0);
    close(number(&rows, "p_value", 2), 1.0);
    close(number(&rows, "ci95_high", 2), 0.0);
    close(number(&rows, "p_value", 4), 0.5);
}

/// Each fold has the same weight, whatever its size.
#[test]
fn recalls_are_means_over_folds() {
    let queries = |hits: [bool; 3]| -> Vec<HitRow> {
        let ask = |direction: &'static str| {
            [(0, 0), (0, 1), (1, 2)].into_iter().zip(hits).map(move |((fold, image), hit)| {
                (fold, direction, 10 * image + i64::from(direction == "t2i"), image, [hit, hit, hit])
            })
        };
        ask("i2t").chain(ask("t2i")).collect()
    };
    let base = rankings("p", "nns", None, &queries([true, false, false]));
    let other = rankings("p", "nnn", None, &queries([true, false, true]));
    let (rows, _) = run(&stage_of("rankings = \"a.rankings\""), &[("rankings", vec![base, other])]).expect("runs");
    // Fold recalls are 50 and 0, and 50 and 100: six measures of 25 and of 75.
    close(number(&rows, "baseline_value", 0), 150.0);
    close(number(&rows, "value", 0), 450.0);
    close(number(&rows, "value", 1), 75.0);
}

#[test]
fn two_tables_are_compared_method_by_method_or_with_one() {
    let (low, high) = (three([false; 3], [false; 3]), three([true; 3], [true; 3]));
    let ours = vec![
        rankings("p", "nns", None, &high),
        rankings("p", "csls", Some("k = 10"), &high),
        rankings("q", "nns", None, &high),
    ];
    let theirs = vec![rankings("p", "nns", None, &low), rankings("p", "csls", Some("k = 5"), &low)];
    let tables = [("rankings", ours), ("against", theirs)];
    let both = "rankings = \"a.rankings\"\nagainst = \"b.rankings\"";
    let (rows, warnings) = run(&stage_of(both), &tables).expect("runs");
    assert_eq!(rows.num_rows(), 7);
    close(number(&rows, "difference", 0), 200.0);
    let text = |name: &str| rows[name].as_string::<i32>().value(6).to_owned();
    assert_eq!([text("evaluation"), text("baseline_evaluation")], ["rankings", "against"]);
    assert_eq!(text("settings"), "evaluate: query_bank = rankings");
    assert_eq!(text("baseline_settings"), "evaluate: query_bank = against");
    // All three images have the same difference: 2 of 8 swaps give as large a difference.
    close(number(&rows, "p_value", 0), 0.25);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("`csls` (k = 10) of protocol `p`"), "{warnings:?}");

    let (rows, warnings) = run(&stage_of(&format!("{both}\nbaseline = \"csls\"")), &tables).expect("runs");
    assert_eq!((rows.num_rows(), warnings.len()), (14, 1), "{warnings:?}");
}

#[test]
fn results_that_cannot_be_compared_are_errors() {
    let base = three([false; 3], [false; 3]);
    let nns = || rankings("p", "nns", None, &base);
    let one = stage_of("rankings = \"a.rankings\"");
    let two = stage_of("rankings = \"a.rankings\"\nagainst = \"b.rankings\"");
    let refused = |stage: &TestSignificance, tables: &[(&str, Vec<RecordBatch>)], expected: &str| {
        let error = run(stage, tables).expect_err("refused");
        assert!(error.contains(expected), "{error}, expected {expected}");
    };
    refused(&one, &[("rankings", vec![nns()])], "nothing to compare");
    let csls = |parameters| rankings("p", "csls", Some(parameters), &base);
    refused(&one, &[("rankings", vec![csls("k = 1")])], "no method is called `nns`; there are `csls` (k = 1)");
    let several = stage_of("rankings = \"a.rankings\"\nbaseline = \"csls\"");
    refused(&several, &[("rankings", vec![csls("k = 1"), csls("k = 2")])], "several methods are called `csls`");
    refused(&one, &[("rankings", vec![nns(), nns()])], "twice in protocol `p`");
    let elsewhere = vec![rankings("q", "nns", None, &base)];
    refused(&two, &[("rankings", vec![nns()]), ("against", elsewhere)], "a protocol in common");

    let fewer = vec![rankings("p", "nns", None, &base[1..])];
    refused(&two, &[("rankings", vec![nns()]), ("against", fewer.clone())], "the baseline has no image 1 of fold 0 |");
    refused(&two, &[("rankings", fewer), ("against", vec![nns()])], "the result has no image 1 of fold 0 |");
    let mut moved = base.clone();
    moved[4].3 = 7;
    let moved = vec![rankings("p", "nns", None, &moved)];
    refused(
        &two,
        &[("rankings", vec![nns()]), ("against", moved)],
        "caption 11 of fold 0 belongs to image 2 in the result, but to image 7 in the baseline",
    );
    assert_eq!(stage_of("rankings = \"a.rankings\"\nbaseline = \" \"").check().len(), 1);
}
