//! Tests of the rows that the stage stores, and of images with the same bytes.

use serde_json::json;

use super::tests::{extract, host, images, inline, png};
use crate::testing::RunOnHost as _;
use pairloom_stage::{FileKeys, RowKey, Stage};
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
    let expected = features(&[1, 2], json!({"normalize": true}));
    assert_ne!(got, expected);
    assert!(got.iter().zip(&expected).all(|(got, expected)| (got - expected).abs() <= expected.abs() / 2048.0 + 3e-8));
    assert_eq!(stage.settings()["storage"], "f16");
    assert!(extract(json!({"storage": "f32"})).settings().get("storage").is_none(), "the key of older results");
}

#[test]
fn images_with_the_same_bytes_are_computed_once_and_fail_alike() {
    let damaged = || b"GIF89a".to_vec();
    let mut host = host(&[png(1), damaged(), png(2), png(1), damaged(), png(1)].map(inline));
    host.run_stage(&extract(json!({"on_undecodable": "skip", "max_skipped": 0.5}))).unwrap();
    let features = host.output("features");
    assert_eq!(tables::int_column(&features, "image_id").unwrap().values(), &[100, 102, 103, 105]);
    let rows: Vec<&[f32]> = tables::vector_column(&features, "feature").unwrap().0.chunks_exact(512).collect();
    assert!(rows[0] == rows[2] && rows[0] == rows[3] && rows[0] != rows[1]);
    let warnings: Vec<_> =
        host.warnings.iter().map(|warning| (warning.subject.as_str(), warning.message.as_str())).collect();
    let same = "image left out: it has the bytes of `picture 1`, which cannot be decoded";
    let expected = [("picture 1", "image left out: it is a GIF image, expected JPEG or PNG"), ("picture 4", same)];
    assert_eq!(warnings, expected);
}

/// An image that is not computed, since another one ends the stage, is not broken.
#[test]
fn a_copy_of_an_image_is_not_blamed_for_another_one() {
    let mut host = host(&[png(1), b"GIF89a".to_vec(), png(1)].map(inline));
    let error = host.run_stage(&extract(json!({}))).unwrap_err().to_string();
    assert_eq!(error, "image `picture 1`: it is a GIF image, expected JPEG or PNG");
}

/// Columns that `plan` reads: of images in the table their digests, of those in a folder their paths.
#[test]
fn keys_of_images_need_the_key_columns_only() {
    let stage = extract(json!({"splits": ["train"]}));
    let rows = [inline(png(1)), inline(png(2)), (Some("a.png"), None), inline(png(3)), (Some("b.png"), None)];
    let rows = images(&rows);
    let columns = stage.copied_rows().unwrap().key_columns.iter().map(|name| rows.schema().index_of(name).unwrap());
    let rows = rows.project(&columns.collect::<Vec<_>>()).unwrap();
    assert!(rows.column_by_name("bytes").is_none());
    let file = RowKey::of(&png(4));
    let files = FileKeys::new([(RowKey::of(b"b.png"), file)].into_iter());
    assert_eq!(stage.item_keys(&rows, &files).unwrap(), [Some(RowKey::of(&png(1))), None, Some(file)]);
}
