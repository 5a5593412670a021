//! Tests of the rows that the stage stores.

use serde_json::json;

use super::tests::{extract, host, inline, png};
use crate::testing::RunOnHost as _;
use pairloom_stage::Stage;
use pairloom_tables as tables;

/// Features of pictures with these seeds.
fn features(seeds: &[u8], more: serde_json::Value) -> Vec<f32> {
    let rows: Vec<_> = seeds.iter().map(|&seed| inline(png(seed))).collect();
    let mut host = host(&rows);
    host.run_stage(&extract(more)).unwrap();
    tables::vector_column(&host.output("features"), "feature").unwrap().0.to_vec()
}

/// Otherwise a row that is computed with others would differ from the copied one.
#[test]
fn a_feature_does_not_depend_on_the_number_of_images_computed_with_it() {
    let settings = || json!({"resize": 96, "crop": 96, "batch_size": 4});
    let all = features(&[1, 2, 3, 4, 5, 6], settings());
    for (number, feature) in all.chunks_exact(512).enumerate() {
        let seed = u8::try_from(number + 1).unwrap();
        assert!(features(&[seed], settings()) == feature, "{seed} alone");
    }
    assert!(features(&[6, 2], settings()) == [&all[5 * 512..], &all[512..1024]].concat());
}

/// Each batch is computed by one thread, whichever it is.
#[test]
fn features_do_not_depend_on_the_number_of_threads() {
    let rows: Vec<_> = (1..=7).map(|seed| inline(png(seed))).collect();
    let with_threads = |threads| {
        let mut host = host(&rows);
        host.resources.0.threads = threads;
        host.run_stage(&extract(json!({"resize": 96, "crop": 96}))).unwrap();
        host.output("features")
    };
    let alone = with_threads(1);
    assert_eq!(alone.num_rows(), 7);
    assert_eq!(alone, with_threads(2));
    assert_eq!(alone, with_threads(5));
}

#[test]
fn halves_are_declared_and_are_the_rounded_features() {
    let stage = extract(json!({"storage": "f16", "normalize": true}));
    let mut host = host(&[inline(png(1)), inline(png(2))]);
    host.run_stage(&stage).unwrap();
    let stored = host.output("features");
    assert_eq!(stored.schema(), tables::half_schema(&tables::features::table().schema_with_width(512)));
    let read = tables::from_halves(stored).unwrap();
    let (got, _) = tables::vector_column(&read, "feature").unwrap();
    let wanted = features(&[1, 2], json!({"normalize": true}));
    assert_ne!(got, wanted);
    assert!(got.iter().zip(&wanted).all(|(got, wanted)| (got - wanted).abs() <= wanted.abs() / 2048.0 + 3e-8));
    assert_eq!(stage.settings()["storage"], "f16");
    assert!(extract(json!({"storage": "f32"})).settings().get("storage").is_none(), "the key of older results");
}
