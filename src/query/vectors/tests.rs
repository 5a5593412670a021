//! Functions on vectors, with values to check by hand.

use crate::testing::{features, put, run, text};
use crate::{OutputFormat, Session};
use pairloom_store::Store;

/// Session over a table of eight vectors of two values: (0, 0.25), (0.5, 0.75), …
fn session() -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let rows: Vec<(i64, &str)> = (1..=8).map(|id| (id, if id < 4 { "train" } else { "test" })).collect();
    let key = put(&store, "extract", 7, &[("features", vec![features(&rows[..5], 2), features(&rows[5..], 2)])]);
    run(&store, "20260101T000000", &[("cnn", "extract", &key)]);
    let session = Session::open(&store).unwrap();
    (folder, session)
}

fn value(session: &Session, sql: &str) -> String {
    let csv =
        text(session, &format!("SELECT {sql}"), OutputFormat::Csv).unwrap_or_else(|error| panic!("{sql}: {error}"));
    csv.split_once('\n').unwrap().1.trim_end().to_owned()
}

fn number(session: &Session, sql: &str) -> f64 {
    let text = value(session, sql);
    text.parse().unwrap_or_else(|_| panic!("{sql}: {text}"))
}

fn message(session: &Session, sql: &str) -> String {
    match session.query(&format!("SELECT {sql}")) {
        Err(error) => error.to_string(),
        Ok(mut rows) => rows.next().expect("an error").expect_err(sql).to_string(),
    }
}

/// (1, 2, 2) and (2, 0, 1): product 4, norms 3 and √5, differences 1, 2, 1.
#[test]
fn measures_have_the_names_of_other_databases() {
    let (_folder, session) = session();
    let cosine = 4.0 / (3.0 * 5.0_f64.sqrt());
    let names = |prefixes: &[&str], rest: &str| prefixes.iter().map(|prefix| format!("{prefix}{rest}")).collect();
    let all: [(Vec<String>, f64); 8] = [
        (names(&["", "array_", "list_"], "cosine_distance"), 1.0 - cosine),
        (names(&["", "array_", "list_"], "cosine_similarity"), cosine),
        (names(&["", "array_", "list_"], "inner_product"), 4.0),
        (names(&["", "array_", "list_"], "dot_product"), 4.0),
        (names(&["", "array_", "list_"], "negative_inner_product"), -4.0),
        (names(&["array_", "list_", "l2_"], "distance"), 6.0_f64.sqrt()),
        (names(&["l1_"], "distance"), 4.0),
        (vec!["<=>".to_owned()], 1.0 - cosine),
    ];
    for (names, expected) in all {
        for name in names {
            // Whole numbers, doubles and singles.
            for (a, b) in [
                ("[1, 2, 2]", "[2, 0, 1]"),
                ("[1.0, 2.0, 2.0]", "[2, 0, 1]"),
                ("arrow_cast([1, 2, 2], 'FixedSizeList(3, Float32)')", "[2.0, 0.0, 1.0]"),
                ("arrow_cast([1, 2, 2], 'LargeList(Float16)')", "arrow_cast([2, 0, 1], 'FixedSizeList(3, Float32)')"),
            ] {
                let call = if name.starts_with('<') { format!("{a} {name} {b}") } else { format!("{name}({a}, {b})") };
                let got = number(&session, &call);
                assert!((got - expected).abs() < 1e-12, "{call}: {got}, expected {expected}");
            }
        }
    }
    for name in ["vector_norm", "l2_norm", "array_norm", "list_norm"] {
        assert_eq!(number(&session, &format!("{name}([1, 2, 2])")), 3.0);
    }
    for name in ["array_normalize", "list_normalize", "l2_normalize"] {
        assert_eq!(value(&session, &format!("{name}([3, 4])")), "\"[0.6, 0.8]\"");
    }
}

#[test]
fn missing_vectors_have_missing_measures() {
    let (_folder, session) = session();
    for sql in [
        "cosine_distance(NULL, [1, 2]) IS NULL",
        "cosine_distance([0, 0], [1, 2]) IS NULL",
        "cosine_similarity([1, 2], [0, 0]) IS NULL",
        "inner_product([1, NULL], [1, 2]) IS NULL",
        "inner_product(['NaN'::double, 1], [1, 2]) IS NULL",
        "cosine_distance(['Infinity'::double, 1], [1, 2]) IS NULL",
        "array_distance(['-Infinity'::double], ['-Infinity'::double]) IS NULL",
        "array_normalize([0, 0]) IS NULL",
        "vector_norm(NULL) IS NULL",
        "inner_product([NULL::double, 1], [NULL, NULL]) IS NULL",
        "bool_and(inner_product(CASE WHEN image_id > 9 THEN feature END, feature) IS NULL) FROM cnn.features",
        "vector_avg(feature) IS NULL FROM cnn.features WHERE image_id > 9",
        "max_by(image_id, feature[1]) IS NULL FROM cnn.features WHERE image_id > 9",
    ] {
        assert_eq!(value(&session, sql), "true", "{sql}");
    }
    // An infinite distance is a number, and the largest.
    assert_eq!(value(&session, "array_distance(['Infinity'::double, 1], [1, 2]) = 'Infinity'::double"), "true");
}

#[test]
fn columns_and_constants_go_together() {
    let (_folder, session) = session();
    // Vector i is ((i−1)/2, (i−1)/2 + 1/4); the second table repeats from its start.
    for sql in [
        "sum(inner_product(feature, [1.0, 0.0])) FROM cnn.features WHERE image_id < 6",
        "sum(inner_product([1.0, 0.0], feature)) FROM cnn.features WHERE image_id < 6",
        "sum(inner_product(a.feature, arrow_cast([1, 0], 'FixedSizeList(2, Float32)'))) FROM cnn.features a WHERE image_id < 6",
    ] {
        assert_eq!(number(&session, sql), 0.0 + 0.5 + 1.0 + 1.5 + 2.0, "{sql}");
    }
    let sql = "sum(array_distance(a.feature, b.feature)) FROM cnn.features a JOIN cnn.features b USING (image_id)";
    assert_eq!(number(&session, sql), 0.0);
}

#[test]
fn averages_are_of_vectors() {
    let (_folder, session) = session();
    // Means of 0, 0.5, 1 and of 0.25, 0.75, 1.25.
    let sql = "vector_avg(feature) FROM cnn.features WHERE image_id < 4";
    assert_eq!(value(&session, sql), "\"[0.5, 0.75]\"");
    assert_eq!(
        value(&session, "arrow_typeof(vector_avg(feature)) LIKE 'FixedSizeList(%Float32%' FROM cnn.features"),
        "true"
    );
    let sql = "split, vector_avg(feature)[1] FROM cnn.features GROUP BY split ORDER BY split";
    assert_eq!(value(&session, sql), "test,1.0\ntrain,0.5");
    let sql = "vector_avg(v) FROM (VALUES ([1.0, 2.0]), ([1.0]))  AS t(v)";
    assert!(message(&session, sql).contains("vectors of 2 and of 1 values"));
}

#[test]
fn the_best_rows_of_a_group() {
    let (_folder, session) = session();
    let from = "FROM cnn.features WHERE image_id < 6";
    assert_eq!(value(&session, &format!("max_by(image_id, feature[1]) {from}")), "5");
    assert_eq!(value(&session, &format!("min_by(image_id, feature[1]) {from}")), "1");
    assert_eq!(value(&session, &format!("arg_max(image_id, feature[2], 3) {from}")), "\"[5, 4, 3]\"");
    assert_eq!(value(&session, &format!("argmin(image_id, feature[2], 2) {from}")), "\"[1, 2]\"");
    assert_eq!(value(&session, &format!("max_by(image_id, feature[2], 99) {from}")), "\"[5, 4, 3, 2, 1]\"");
    // Of equal ones the first.
    assert_eq!(value(&session, &format!("max_by(image_id, 1, 2) {from}")), "\"[1, 2]\"");
    let groups = "split, max_by(image_id, feature[1], 2) FROM cnn.features GROUP BY split ORDER BY split";
    assert_eq!(value(&session, groups), "test,\"[5, 4]\"\ntrain,\"[3, 2]\"");
    for (sql, expected) in [
        ("max_by(image_id, 1, 0)", "expected a constant from 1 to"),
        ("max_by(image_id, 1, image_id)", "expected a constant from 1 to"),
        ("max_by(image_id, 1, 'two')", "expected a whole number"),
        ("max_by(image_id)", "max_by"),
    ] {
        let message = message(&session, &format!("{sql} FROM cnn.features"));
        assert!(message.contains(expected), "{sql}: {message}");
    }
}

/// Vectors 1 to 3 are (0, 1/4), (1/2, 3/4) and (1, 5/4); their cosines with (1, 0) are 0, 2/√13 and 4/√41.
#[test]
fn the_nearest_rows_of_a_group() {
    let (_folder, session) = session();
    let from = "FROM cnn.features WHERE image_id < 4";
    let items = |call: &str| {
        let list = format!("{call} AS best {from}");
        value(&session, &format!("best[1]['item'], best[2]['item'] FROM (SELECT {list})"))
    };
    assert_eq!(items("topk(image_id, feature[1], 2)"), "3,2");
    assert_eq!(items("bottomk(image_id, feature[1], 2)"), "1,2");
    assert_eq!(items("topk(image_id, feature, [1, 0], 2)"), "3,2");
    assert_eq!(items("topk(image_id, feature, [1, 0], 2, 'cosine_distance')"), "3,2");
    assert_eq!(items("topk(image_id, feature, [0.5, 0.75], 2, 'l2_distance')"), "2,1");
    let score = |call: &str| number(&session, &format!("best[1]['score'] FROM (SELECT {call} AS best {from})"));
    let cosine = 4.0 / 41.0_f64.sqrt();
    assert!((score("topk(image_id, feature, [1, 0], 2)") - cosine).abs() < 1e-12);
    assert!((score("topk(image_id, feature, [1, 0], 2, 'cosine_distance')") - (1.0 - cosine)).abs() < 1e-12);
    assert_eq!(score("topk(image_id, feature, [0.5, 0.75], 2, 'array_distance')"), 0.0);
    // By groups, and beside another one: both read the cosines of a batch once.
    let groups = "split, topk(image_id, feature, [1, 0], 1)[1]['item'] FROM cnn.features GROUP BY split ORDER BY split";
    assert_eq!(value(&session, groups), "test,5\ntrain,3");
    assert_eq!(
        value(&session, "topk(image_id, feature, [1, 0], 2) IS NULL FROM cnn.features WHERE image_id > 9"),
        "true"
    );
    for (sql, expected) in [
        ("topk(image_id, 1, 0)", "expected a constant from 1 to"),
        ("topk(image_id, feature, [1, 0], 0)", "expected a constant from 1 to"),
        ("topk(image_id, feature, [1, 0, 0], 2)", "vectors of"),
        ("topk(image_id, feature, [1, 0], 2, 'cosine')", "the measure `cosine`, expected one of: cosine_distance"),
        ("topk(image_id, feature, [1, 0], 2, split)", "expected a constant text"),
        ("topk(image_id, image_id, [1, 0], 2)", "`topk` of Int64, expected a vector"),
        ("bottomk(image_id, feature, [1, 0], 2)", "has 4 arguments, expected `bottomk(x, score, k)`"),
        ("topk(image_id, feature, [1, 0], 2) OVER ()", "no window function"),
    ] {
        let message = message(&session, &format!("{sql} FROM cnn.features"));
        assert!(message.contains(expected), "{sql}: {message}");
    }
}

/// Rows of a list that is full before a batch ends, beside the sort of all rows.
#[test]
fn a_full_list_takes_better_rows_alone() {
    let (_folder, session) = session();
    let rows = "(SELECT value AS x, (value * 7919) % 10007 AS y FROM generate_series(1, 50000))";
    for (function, order) in [("topk", "DESC"), ("bottomk", "ASC")] {
        let best = value(&session, &format!("{function}(y, y, 40) FROM {rows}"));
        let sorted =
            format!("array_agg({{'item': y, 'score': y}}) FROM (SELECT y FROM {rows} ORDER BY y {order} LIMIT 40)");
        assert_eq!(best, value(&session, &sorted), "{function}");
    }
    let floats =
        "(SELECT CASE WHEN value % 9000 = 0 THEN 'NaN'::double ELSE value END AS y FROM generate_series(1, 30000))";
    let best = value(&session, &format!("max_by(y, y, 4) FROM {floats}"));
    assert_eq!(best, "\"[NaN, NaN, NaN, 30000.0]\"");
}

#[test]
fn wrong_arguments_say_what_is_wanted() {
    let (_folder, session) = session();
    for (sql, expected) in [
        ("cosine_distance([1, 2], [1, 2, 3])", "`cosine_distance` of vectors of 2 and of 3 values"),
        ("cosine_distance(feature, [1, 2, 3]) FROM cnn.features", "of 3 and of 2 values"),
        (
            "array_distance(feature, arrow_cast([1, 2, 3], 'FixedSizeList(3, Float32)')) FROM cnn.features",
            "`array_distance` of vectors of 2 and of 3 values",
        ),
        ("inner_product('[1, 2]', [1, 2])", "expected a vector, for example [0.5, 1.0] without quotes"),
        ("inner_product(image_id, feature) FROM cnn.features", "`inner_product` of Int64, expected a vector"),
        ("vector_norm(['a'])", "expected a vector"),
        ("cosine_distance([1, 2])", "has 1 arguments, expected two vectors"),
        ("vector_avg(image_id) FROM cnn.features", "`vector_avg` of Int64, expected a vector"),
    ] {
        let message = message(&session, sql);
        assert!(message.contains(expected), "{sql}: {message}");
    }
}

#[test]
fn functions_are_described() {
    let (_folder, session) = session();
    let functions = text(&session, "SHOW FUNCTIONS LIKE 'list_cosine%'", OutputFormat::Csv).unwrap();
    assert!(functions.contains("cosine_distance(vector, vector)") && functions.contains("1 - cosine"), "{functions}");
}
