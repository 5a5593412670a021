//! Tests of functions over vectors and JSON, with values to check by hand.

use super::testing::{features, put, run, text};
use super::{OutputFormat, Session};
use pairloom_store::Store;

/// Session over the vectors (0, 0.25) and (0.5, 0.75), and an artefact with settings.
fn session() -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let key = put(&store, "extract", 7, &[("features", vec![features(&[(1, "train"), (2, "test")], 2)])]);
    run(&store, "20260101T000000", &[("cnn", "extract", &key)]);
    let session = Session::open(&store).unwrap();
    (folder, session)
}

fn value(session: &Session, expression: &str, from: &str) -> String {
    let csv = text(session, &format!("SELECT {expression} AS x FROM {from}"), OutputFormat::Csv).unwrap();
    csv.strip_prefix("x\n").unwrap().trim_end().to_owned()
}

#[test]
fn vector_functions_take_the_vectors_of_tables() {
    let (_folder, session) = session();
    let pair = "cnn.features a JOIN cnn.features b ON a.image_id = 1 AND b.image_id = 2";
    for (expression, expected) in [
        // 0 × 0.5 + 0.25 × 0.75
        ("inner_product(a.feature, b.feature)", 0.1875),
        // √(0.5² + 0.5²)
        ("array_distance(a.feature, b.feature)", 0.5_f64.sqrt()),
        // 1 − 0.1875 / (0.25 · √0.8125)
        ("cosine_distance(a.feature, b.feature)", 1.0 - 0.75 / 0.8125_f64.sqrt()),
        ("array_sum(b.feature)", 1.25),
        ("array_max(b.feature)", 0.75),
        ("array_add(a.feature, b.feature)[2]", 1.0),
        ("array_scale(b.feature, 2.0)[1]", 1.0),
        ("array_length(b.feature)", 2.0),
    ] {
        let got: f64 = value(&session, expression, pair).parse().unwrap();
        assert!((got - expected).abs() < 1e-12, "{expression}: {got}, expected {expected}");
    }
    // They stay in f32.
    for (expression, expected) in [
        ("array_normalize(b.feature)[2]", 0.75 / 0.8125_f64.sqrt()),
        ("inner_product(array_normalize(b.feature), array_normalize(b.feature))", 1.0),
    ] {
        let got: f64 = value(&session, expression, pair).parse().unwrap();
        assert!((got - expected).abs() < 1e-7, "{expression}: {got}, expected {expected}");
    }
    let normalized = value(&session, "array_normalize(feature)", "cnn.features WHERE image_id = 1");
    assert_eq!(normalized, "\"[0.0, 1.0]\"");
}

#[test]
fn values_of_json_are_text_in_every_format() {
    let (_folder, session) = session();
    let json = r#"(SELECT '{"epochs": 3, "loss": {"max": {"margin": 0.2}}}' AS settings)"#;
    assert_eq!(value(&session, "json_get(settings, 'loss')", json), "\"{\"\"max\"\": {\"\"margin\"\": 0.2}}\"");
    assert_eq!(value(&session, "settings::int", "store.artefacts"), "7");
    let got = session.query("SELECT 1 FROM store.artefacts WHERE settings->'epochs' > 1").err().unwrap();
    assert!(got.hint_text().is_some_and(|hint| hint.contains("(settings->'epochs') > 1")), "{got}");
    // Every format can hold the values.
    for (name, format) in OutputFormat::ALL.into_iter().filter(|(name, _)| *name != "parquet") {
        let sql = format!("SELECT settings->'epochs' AS e, settings->'loss' AS l FROM {json}");
        assert!(text(&session, &sql, format).unwrap().contains('3'), "{name}");
    }
}
