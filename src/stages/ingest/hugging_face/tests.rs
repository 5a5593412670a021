//! Tests of `hugging_face`, on files that `tests/golden/hugging_face.py` wrote in the form of the library `datasets`.

use serde_json::json;

use super::super::testing::{captions, encoded_images, folder, images, ingest, refused};

/// Folder with the golden files: two with lists of captions, and one with a single caption and an image without bytes.
fn golden() -> tempfile::TempDir {
    let read = |name: &str| std::fs::read(test_data::root().join("tests/golden").join(name)).unwrap();
    let [first, second, single] =
        ["first", "second", "single"].map(|name| read(&format!("hugging_face_{name}.parquet")));
    folder(&[("lists/0.parquet", &first), ("lists/1.parquet", &second), ("single.parquet", &single)])
}

#[test]
fn rows_of_all_files_are_read_in_order() {
    let data = golden();
    let settings = json!({"hugging_face": {"files": "lists", "caption": "captions", "image_id": "id", "split": {"column": "split"}}});
    let host = ingest(data.path(), settings).unwrap();
    let row = |id: i64, split: &str, name: &str| (id, split.to_owned(), name.to_owned(), None);
    assert_eq!(images(&host), [row(30, "train", "a b.jpg"), row(10, "val", "ä.png"), row(20, "test", "000000002.png")]);
    let pictures = encoded_images(&host);
    let sizes: Vec<_> = pictures.iter().map(|bytes| pairloom_images::image::image_size(bytes).unwrap()).collect();
    assert_eq!(sizes, [(5, 4), (3, 2), (1, 6)]);
    let texts: Vec<_> = captions(&host).into_iter().map(|(id, image, _, text)| (id, image, text)).collect();
    let wanted = [(0, 30, "one"), (1, 30, "two"), (2, 10, "three"), (3, 20, "four"), (4, 20, "five — é")];
    assert_eq!(texts, wanted.map(|(id, image, text)| (id, image, text.to_owned())));
}

#[test]
fn a_row_without_an_image_is_refused_or_left_out() {
    let data = golden();
    let settings = |more: serde_json::Value| {
        let mut form = json!({"files": "single.parquet", "split": "train"});
        form.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"hugging_face": form})
    };
    let error = refused(ingest(data.path(), settings(json!({}))));
    assert!(error.contains("row 1: it has no image"), "{error}");
    let host = ingest(data.path(), settings(json!({"on_missing": "skip", "max_skipped": 0.5}))).unwrap();
    assert_eq!((encoded_images(&host).len(), host.warnings.len()), (1, 1));
    let error = refused(ingest(data.path(), settings(json!({"image": "caption", "caption": "text"}))));
    for wanted in [
        "column `caption`: is Utf8, wanted bytes, or a struct of `bytes`, `path` and few other texts or numbers",
        "column `text`: is not there",
    ] {
        assert!(error.contains(wanted), "{error}");
    }
}
