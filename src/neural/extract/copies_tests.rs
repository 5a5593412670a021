//! Tests of images with the same bytes.

use serde_json::json;

use super::tests::{extract, host, images, inline, png};
use crate::testing::RunOnHost as _;
use pairloom_stage::{FileKeys, RowKey, Stage as _};
use pairloom_tables as tables;

#[test]
fn images_with_the_same_bytes_are_computed_once_and_fail_alike() {
    let damaged = || b"GIF89a".to_vec();
    let mut host = host(&[png(1), damaged(), png(2), png(1), damaged(), png(1)].map(inline));
    host.run_stage(&extract(json!({"on_undecodable": "skip", "max_skipped": 0.5}))).unwrap();
    let features = host.output("features");
    assert_eq!(tables::int_column(&features, "image_id").unwrap().values(), &[100, 102, 103, 105]);
    let rows: Vec<&[f32]> = tables::vector_column(&features, "feature").unwrap().0.chunks_exact(512).collect();
    assert!(rows[0] == rows[2] && rows[0] == rows[3] && rows[0] != rows[1]);
    let warnings: Vec<_> = host.warnings.iter().map(|of| (of.subject.as_str(), of.message.as_str())).collect();
    let same = "image left out: it has the bytes of `picture 1`, which cannot be decoded";
    let wanted = [("picture 1", "image left out: it is a GIF image, wanted JPEG or PNG"), ("picture 4", same)];
    assert_eq!(warnings, wanted);
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
