//! Tests with files that NumPy and pyarrow wrote (`tests/golden/embeddings.py`), and with invalid files.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::{Float32Type, Float64Type};
use arrow::ipc::writer::FileWriter;
use serde_json::{Value, json};

use super::super::Ingest;
use super::super::testing::{folder, ingest, npy, npy_of, refused};
use pairloom_base::error::{ErrorCategory, Result};
use pairloom_stage::{OutputKind, Stage, missing_columns};
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables::{int_column, text_column, vector_column};

fn golden() -> (PathBuf, Value) {
    (test_data::golden(""), test_data::golden_json("embeddings.json"))
}

/// Returns identifier, image, split and vector of every row of a table.
fn rows(host: &InMemoryHost, table: &str, id: &str) -> Vec<(i64, i64, String, Vec<f32>)> {
    let batch = host.output(table);
    let (own, images, splits) = (
        int_column(&batch, id).unwrap(),
        int_column(&batch, "image_id").unwrap(),
        text_column(&batch, "split").unwrap(),
    );
    let (values, width) = vector_column(&batch, "embedding").unwrap();
    let vectors = values.chunks_exact(width);
    (0..)
        .zip(vectors)
        .map(|(i, vector)| (own.value(i), images.value(i), splits.value(i).to_owned(), vector.to_vec()))
        .collect()
}

fn images(host: &InMemoryHost) -> Vec<(i64, i64, String, Vec<f32>)> {
    rows(host, "image_embeddings", "image_id")
}

fn captions(host: &InMemoryHost) -> Vec<(i64, i64, String, Vec<f32>)> {
    rows(host, "caption_embeddings", "caption_id")
}

fn integers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

/// Asserts that a vector equals that of the golden file up to f32 rounding.
fn close(got: &[f32], expected: &Value) {
    let expected: Vec<f64> = expected.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect();
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((f64::from(*got) - expected).abs() < 1e-7, "{got}, expected {expected}");
    }
}

#[test]
fn every_file_format_gives_the_same_rows() {
    let (folder, golden) = golden();
    let (image_ids, order) = (integers(&golden["image_ids"]), integers(&golden["caption_ids"]));
    let at = |index: i64| usize::try_from(index).unwrap();
    for settings in [
        json!({"images": "embeddings_images.npy", "captions": "embeddings_captions.npy", "captions_per_image": 3}),
        json!({"images": "embeddings_images.npy", "captions": "embeddings_captions.npy", "image_of": "embeddings_image_of.txt"}),
        json!({"images": "embeddings_images.parquet", "captions": "embeddings_captions.parquet"}),
        json!({"images": "embeddings_images.feather", "captions": "embeddings_captions.arrows", "columns": {
            "image_id": "picture", "caption_id": "caption", "split": "part", "image_embedding": "vector", "caption_embedding": "vector",
        }}),
    ] {
        let arrays = settings["images"].as_str().unwrap().contains("npy");
        let host = ingest(&folder, json!({ "embeddings": settings })).unwrap();
        let images = images(&host);
        assert_eq!(images.len(), 16);
        let split = |image: usize| if arrays { "test" } else { golden["splits"][image].as_str().unwrap() };
        for (row, (id, _, got, vector)) in images.iter().enumerate() {
            assert_eq!(
                (*id, got.as_str()),
                (if arrays { row.try_into().unwrap() } else { image_ids[row] }, split(row))
            );
            close(vector, &golden["images"][row]);
        }
        let captions = captions(&host);
        assert_eq!(captions.len(), 48);
        for (row, (id, image_id, got, vector)) in captions.iter().enumerate() {
            let caption = if arrays { row } else { at(order[row]) };
            let image = caption / 3;
            assert_eq!(at(*id), caption);
            assert_eq!((*image_id, got.as_str()), (images[image].0, split(image)));
            close(vector, &golden["captions"][caption]);
        }
        let batch = host.output("caption_embeddings");
        assert!(text_column(&batch, "tokenizer").unwrap().iter().all(|name| name == Some("unknown")));
        for output in serde_json::from_value::<Ingest>(json!({ "embeddings": settings })).unwrap().outputs() {
            let OutputKind::Table { schema, .. } = output.kind else { panic!("{} is no table", output.name) };
            assert_eq!(missing_columns(&schema, &host.output(output.name).schema()), [] as [String; 0]);
        }
    }
}

/// The vector (3, 4) has length 5, which becomes 1 with `normalize`.
#[test]
fn vectors_are_normalized_unless_the_setting_is_false() {
    let set = folder(&[("i.npy", &npy(&[vec![3.0, 4.0]])), ("c.npy", &npy(&[vec![0.0, -2.0], vec![0.6, 0.8]]))]);
    let settings = |normalize| json!({"embeddings": {"images": "i.npy", "captions": "c.npy", "captions_per_image": 2, "split": "val", "normalize": normalize}});
    let vectors =
        |host: &InMemoryHost| [images(host), captions(host)].concat().into_iter().map(|row| row.3).collect::<Vec<_>>();
    let host = ingest(set.path(), settings(true)).unwrap();
    assert_eq!(vectors(&host), [[0.6, 0.8], [0.0, -1.0], [0.6, 0.8]]);
    assert!(images(&host).iter().chain(&captions(&host)).all(|row| row.2 == "val"));
    let host = ingest(set.path(), settings(false)).unwrap();
    assert_eq!(vectors(&host), [[3.0, 4.0], [0.0, -2.0], [0.6, 0.8]]);
}

fn of_arrays(images: &[Vec<f32>], captions: &[Vec<f32>], more: &[(&str, Value)]) -> Result<InMemoryHost> {
    let set = folder(&[("i.npy", &npy(images)), ("c.npy", &npy(captions)), ("of.txt", b"0\n1\n1\n")]);
    let mut settings = json!({"images": "i.npy", "captions": "c.npy"});
    for (name, value) in more {
        settings[*name] = value.clone();
    }
    ingest(set.path(), json!({ "embeddings": settings }))
}

fn distinct(count: u8) -> Vec<Vec<f32>> {
    (0..count).map(|i| vec![f32::from(i), 1.0]).collect()
}

#[test]
fn errors_for_mismatched_counts_suggest_a_setting() {
    let one = |n: u64| [("captions_per_image", json!(n))];
    let error_message = |images: &[Vec<f32>], captions: u8, more: &[(&str, Value)]| {
        refused(of_arrays(images, &distinct(captions), more))
    };
    let message = error_message(&distinct(4), 12, &[]);
    assert!(message.contains("i.npy` has 4 rows and `"), "{message}");
    assert!(
        message.contains("c.npy` has 12: expected 5 captions for each image\nset `captions_per_image = 3`"),
        "{message}"
    );
    assert!(error_message(&distinct(4), 13, &[]).contains("give the image of each caption with `image_of`"));
    let message = error_message(&distinct(10), 10, &[]);
    assert!(message.contains("set `captions_per_image = 1`; or") && message.contains("x[::5]"), "{message}");
    let message = error_message(&distinct(4), 12, &one(1));
    assert!(message.contains("has 12: expected 1 caption for each image"), "{message}");
    let repeated: Vec<_> = distinct(4).into_iter().flat_map(|row| vec![row; 3]).collect();
    for more in [&one(3)[..], &one(1), &[]] {
        let message = error_message(&repeated, 12, more);
        assert!(message.contains("has every row 3 times, once for each caption of"), "{message}");
        assert!(message.contains("numpy.save(path, x[::3])"), "{message}");
    }
    // Equal vectors of two images are allowed.
    let mut twins = distinct(4);
    twins[1] = twins[0].clone();
    assert_eq!(captions(&of_arrays(&twins, &distinct(4), &one(1)).unwrap()).len(), 4);
    assert!(refused(of_arrays(&[], &distinct(5), &[])).contains("i.npy` has no rows"));
    assert!(refused(of_arrays(&distinct(1), &[], &[])).contains("c.npy` has no rows"));
    let wide = vec![vec![1.0; 3]; 5];
    let message = refused(of_arrays(&distinct(1), &wide, &[]));
    assert!(
        message.contains("c.npy` has vectors of 3 values, expected 2 as in `") && message.contains("one model"),
        "{message}"
    );
}

#[test]
fn image_of_maps_captions_to_image_rows() {
    let image_of = [("image_of", json!("of.txt"))];
    let host = of_arrays(&distinct(2), &distinct(3), &image_of).unwrap();
    assert_eq!(captions(&host).iter().map(|row| row.1).collect::<Vec<_>>(), [0, 1, 1]);
    let message = refused(of_arrays(&distinct(1), &distinct(3), &image_of));
    for line in ["line 2: `1` is not a row of `", "line 3: `1` is not a row of `", "expected 0 to 0", "numpy.savetxt"] {
        assert!(message.contains(line), "{line}: {message}");
    }
    assert!(
        refused(of_arrays(&distinct(2), &distinct(4), &image_of))
            .contains("of.txt` has 3 lines, expected 4, one for each row of `")
    );
    let message = refused(of_arrays(&distinct(2), &distinct(3), &[("image_of", json!("i.npy"))]));
    assert!(message.contains("is not UTF-8"), "{message}");
}

/// The error names the images only, since captions are checked after valid images.
#[test]
fn zero_and_non_finite_vectors_are_all_named_and_nothing_is_written() {
    let mut images = distinct(4);
    images[1] = vec![0.0, 0.0];
    images[2] = vec![1.0, f32::NAN];
    images[3] = vec![f32::NEG_INFINITY, 0.0];
    let set = folder(&[("i.npy", &npy(&images)), ("c.npy", &npy(&distinct(20)))]);
    let stage: Ingest =
        serde_json::from_value(json!({"embeddings": {"images": "i.npy", "captions": "c.npy"}})).unwrap();
    let mut host = InMemoryHost::default();
    for name in ["images", "captions"] {
        host.source_paths.insert(format!("embeddings.{name}"), set.path().join(format!("{}.npy", &name[..1])));
    }
    let message = host.run(&stage).unwrap_err().to_string();
    for line in [
        "i.npy` has 3 mistakes:",
        "row 1 (from 0): the vector is zero and so has no direction",
        "row 2 (from 0): the value of column 1 is NaN, expected a finite number",
        "row 3 (from 0): the value of column 0 is -inf, expected a finite number",
    ] {
        assert!(message.contains(line), "{line}: {message}");
    }
    assert!(host.output_tables.is_empty());
    // With a mistake in the last caption, the images are not written either, although they are valid.
    let mut last = distinct(20);
    last[19] = vec![0.0, 0.0];
    std::fs::write(set.path().join("i.npy"), npy(&distinct(4))).unwrap();
    std::fs::write(set.path().join("c.npy"), npy(&last)).unwrap();
    assert!(host.run(&stage).unwrap_err().to_string().contains("c.npy` row 19 (from 0): the vector is zero"));
    assert!(host.output_tables.is_empty());
}

/// Values that are finite as f64 and not as f32, whose largest is 3.4028235e38.
#[test]
fn values_beyond_f32_are_named() {
    let lists = |rows: [[f64; 2]; 2]| -> ArrayRef {
        let rows = rows.map(|row| Some(row.map(Some)));
        Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows))
    };
    let ids = || numbers(&[Some(7), Some(8)]);
    let images = arrow(vec![("image_id", ids()), ("embedding", lists([[1.0, -3.5e38], [1e300, f64::NAN]]))]);
    let captions = arrow(vec![("caption_id", ids()), ("image_id", ids()), ("embedding", lists([[1.0, 2.0]; 2]))]);
    let settings = json!({"embeddings": {"images": "i", "captions": "c", "split": "test"}});
    let message = refused(ingest(folder(&[("i", &images), ("c", &captions)]).path(), settings));
    for part in [
        "row 0 (from 0): the value of column 1 is -3.5e38, which is beyond f32, expected at most 3.4028235e38",
        "row 1 (from 0): the value of column 0 is 1e300, which is beyond f32",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

/// Returns an Arrow file with these columns.
fn arrow(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn numbers(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn lists(values: &[Option<Vec<Option<f32>>>]) -> ArrayRef {
    Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(values.to_vec()))
}

fn list(values: &[f32]) -> Vec<Option<f32>> {
    values.iter().copied().map(Some).collect()
}

#[test]
fn every_mistake_of_a_table_is_named_with_its_row() {
    let image_ids = numbers(&[Some(7), Some(8), Some(7), None, Some(9), Some(10), Some(11)]);
    let image_vectors = lists(&[
        Some(list(&[1.0, 2.0])),
        Some(list(&[1.0])),
        Some(list(&[2.0, 1.0])),
        Some(list(&[1.0, 1.0])),
        None,
        Some(vec![Some(1.0), None]),
        Some(list(&[])),
    ]);
    let splits: ArrayRef = Arc::new(StringArray::from(vec![
        Some("test"),
        Some("test"),
        Some("val"),
        Some("test"),
        Some("dev"),
        None,
        Some("test"),
    ]));
    let images = arrow(vec![("image_id", image_ids), ("split", splits), ("embedding", image_vectors)]);
    let good = arrow(vec![
        ("image_id", numbers(&[Some(7), Some(8)])),
        ("split", Arc::new(StringArray::from(vec!["test", "val"]))),
        ("embedding", lists(&[Some(list(&[1.0, 2.0])), Some(list(&[2.0, 1.0]))])),
    ]);
    let texts = arrow(vec![
        ("caption_id", numbers(&[Some(1), Some(2), Some(1), None])),
        ("image_id", numbers(&[Some(7), Some(9), Some(8), Some(8)])),
        ("split", Arc::new(StringArray::from(vec!["test", "test", "test", "val"]))),
        (
            "embedding",
            lists(&[
                Some(list(&[1.0, 2.0])),
                Some(list(&[1.0, 2.0])),
                Some(list(&[1.0, 2.0])),
                Some(list(&[0.0, 0.0])),
            ]),
        ),
    ]);
    let set = folder(&[("bad.arrow", &images), ("i.arrow", &good), ("c.arrow", &texts)]);
    let run =
        |images: &str| refused(ingest(set.path(), json!({"embeddings": {"images": images, "captions": "c.arrow"}})));
    let message = run("bad.arrow");
    for line in [
        "row 1 (from 0): the vector has 1 values, expected 2 as before",
        "row 2 (from 0): image id 7 is also that of row 0",
        "row 3 (from 0): `image_id` is missing or above 9223372036854775807",
        "row 4 (from 0): split is `dev`, expected `train`",
        "row 4 (from 0): the vector is missing",
        "row 5 (from 0): the split is missing",
        "row 5 (from 0): the value of column 1 is missing",
        "row 6 (from 0): the vector has 0 values, expected 1 to 65536",
        "expected one row per image, not one per caption",
    ] {
        assert!(message.contains(line), "{line}: {message}");
    }
    let message = run("i.arrow");
    for line in [
        "c.arrow` has 5 mistakes",
        "row 1 (from 0): image id 9 is not in `",
        "row 2 (from 0): split is `test`, expected `val`, the split of its image",
        "row 2 (from 0): caption id 1 is also that of row 0",
        "row 3 (from 0): `caption_id` is missing or above 9223372036854775807",
        "row 3 (from 0): the vector is zero",
    ] {
        assert!(message.contains(line), "{line}: {message}");
    }
    // With the setting `split`, the columns of that name are not checked.
    let settings = json!({"embeddings": {"images": "i.arrow", "captions": "i.arrow", "split": "test", "columns": {"caption_id": "image_id"}}});
    let host = ingest(set.path(), settings).unwrap();
    assert_eq!(captions(&host).iter().map(|row| row.2.as_str()).collect::<Vec<_>>(), ["test", "test"]);
}

#[test]
fn a_file_that_is_npy_by_its_name_alone_is_refused() {
    let set = folder(&[("i.npy", b"no array"), ("c.npy", b"no array")]);
    let settings = json!({"images": "i.npy", "captions": "c.npy"});
    let message = refused(ingest(set.path(), json!({ "embeddings": settings })));
    assert!(message.contains("i.npy` is not an npy file"), "{message}");
}

#[test]
fn the_error_for_missing_columns_lists_the_existing_ones() {
    let (folder, _) = golden();
    let settings = json!({"images": "embeddings_images.feather", "captions": "embeddings_captions.arrows"});
    let message = refused(ingest(&folder, json!({ "embeddings": settings })));
    for line in [
        "has 3 mistakes",
        "column `image_id`: is not there",
        "column `embedding`: is not there",
        "column `split`: is not there",
        "the file has `picture` (UInt16), `part` (LargeUtf8), `vector`",
        "name them with `columns`",
    ] {
        assert!(message.contains(line), "{line}: {message}");
    }
}

#[test]
fn settings_and_files_must_fit() {
    let problems = |settings: Value| -> Vec<String> {
        let mut whole = json!({"images": "a", "captions": "b"});
        whole.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let stage: Ingest = serde_json::from_value(json!({ "embeddings": whole })).unwrap();
        stage.check().into_iter().map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
    };
    assert_eq!(problems(json!({})), [] as [&str; 0]);
    assert_eq!(
        problems(json!({"captions_per_image": 0})),
        ["embeddings.captions_per_image: got 0, expected at least 1"]
    );
    assert_eq!(problems(json!({"captions_per_image": 5, "image_of": "x"})).len(), 1);
    assert_eq!(problems(json!({"image_of": "x", "columns": {}})).len(), 1);
    assert!(problems(json!({"split": "dev"}))[0].starts_with("embeddings.split: split is `dev`, expected"));

    let (folder, _) = golden();
    let run = |settings: Value| {
        let error = ingest(&folder, json!({ "embeddings": settings })).unwrap_err();
        (error.category(), error.to_string())
    };
    let (kind, message) = run(json!({"images": "embeddings_images.npy", "captions": "embeddings_captions.parquet"}));
    assert!(kind == ErrorCategory::Data && message.contains("expected two files of the same format"), "{message}");
    let (kind, message) =
        run(json!({"images": "embeddings_images.npy", "captions": "embeddings_captions.npy", "columns": {}}));
    assert!(kind == ErrorCategory::Usage && message.contains("npy file, which has none"), "{message}");
    let parquet = json!({"images": "embeddings_images.parquet", "captions": "embeddings_captions.parquet", "captions_per_image": 3});
    let (kind, message) = run(parquet);
    assert!(
        kind == ErrorCategory::Usage && message.contains("`embeddings.captions_per_image` is for npy files"),
        "{message}"
    );
}

#[test]
fn identifiers_that_are_texts_become_row_numbers() {
    let texts = |values: &[Option<&str>]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
    let vectors = |count: usize| lists(&vec![Some(list(&[1.0, 2.0])); count]);
    let images = arrow(vec![("image_id", texts(&[Some("dog"), Some("cat")])), ("embedding", vectors(2))]);
    let pairs = |ids: &[Option<&str>], images: &[Option<&str>]| {
        arrow(vec![("caption_id", texts(ids)), ("image_id", texts(images)), ("embedding", vectors(ids.len()))])
    };
    let good = pairs(&[Some("c"), Some("a"), Some("b")], &[Some("cat"), Some("dog"), Some("cat")]);
    let bad = pairs(&[Some("c"), Some("c"), None], &[Some("cat"), Some("cow"), None]);
    let twice = arrow(vec![("image_id", texts(&[Some("dog"), Some("dog")])), ("embedding", vectors(2))]);
    let numbered = arrow(vec![("image_id", numbers(&[Some(1), Some(2)])), ("embedding", vectors(2))]);
    let set = folder(&[
        ("i.arrow", &images),
        ("c.arrow", &good),
        ("bad.arrow", &bad),
        ("twice.arrow", &twice),
        ("numbered.arrow", &numbered),
    ]);
    let run = |images: &str, captions: &str| {
        ingest(set.path(), json!({"embeddings": {"images": images, "captions": captions, "split": "test"}}))
    };
    let host = run("i.arrow", "c.arrow").unwrap();
    assert_eq!(captions(&host).iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(), [(0, 1), (1, 0), (2, 1)]);
    let message = refused(run("i.arrow", "bad.arrow"));
    for line in [
        "row 1 (from 0): image id `cow` is not in `",
        "row 1 (from 0): identifier `c` is also that of row 0, expected one row per caption",
        "row 2 (from 0): `caption_id` is missing",
        "row 2 (from 0): `image_id` is missing",
    ] {
        assert!(message.contains(line), "{line}: {message}");
    }
    let message = refused(run("twice.arrow", "c.arrow"));
    assert!(
        message.contains("row 1 (from 0): identifier `dog` is also that of row 0, expected one row per image"),
        "{message}"
    );
    let message = refused(run("numbered.arrow", "c.arrow"));
    assert!(message.contains("column `image_id`: is Utf8, expected whole numbers"), "{message}");
    let message = refused(run("c.arrow", "i.arrow"));
    assert!(message.contains("`images` and `captions` look swapped"), "{message}");
}

#[test]
fn swapped_files_and_arrays_of_three_dimensions_are_recognised() {
    let message = refused(of_arrays(&distinct(10), &distinct(2), &[]));
    assert!(
        message.contains("there are fewer captions than images: `images` and `captions` look swapped"),
        "{message}"
    );
    let message = refused(of_arrays(&distinct(3), &distinct(2), &[("image_of", json!("of.txt"))]));
    assert!(message.contains("has 3 lines, expected 2") && message.contains("look swapped"), "{message}");
    let set = folder(&[("i.npy", &npy_of("2, 3, 4", &[1.0; 24])), ("c.npy", &npy(&distinct(10)))]);
    let message = refused(ingest(set.path(), json!({"embeddings": {"images": "i.npy", "captions": "c.npy"}})));
    assert!(
        message.contains(
            "i.npy`: array has the shape [2, 3, 4], three dimensions, expected two dimensions: (rows, width)"
        ),
        "{message}"
    );
    assert!(message.contains("numpy.save(path, x.mean(axis=1))"), "{message}");
}

#[test]
fn listed_identifiers_replace_row_numbers() {
    let (two, four) = (npy(&[vec![1.0, 0.0], vec![0.0, 1.0]]), npy(&vec![vec![1.0, 0.0]; 4]));
    let read = |settings: Value, images: &[u8], captions: &[u8]| {
        let files = [("i.npy", &two[..]), ("c.npy", &four), ("i", images), ("c", captions), ("of", b"1\n0\n1\n0\n")];
        let mut all = json!({"images": "i.npy", "captions": "c.npy"});
        all.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        ingest(folder(&files).path(), json!({ "embeddings": all }))
    };
    let both = json!({"image_ids": "i", "caption_ids": "c", "image_of": "of"});
    let host = read(both.clone(), b"391895\n16\n", b"4\n3\n16\n1\n").unwrap();
    assert_eq!(images(&host).iter().map(|row| row.0).collect::<Vec<_>>(), [391_895, 16]);
    let caption_pairs = |host: &InMemoryHost| captions(host).iter().map(|row| (row.0, row.1)).collect::<Vec<_>>();
    assert_eq!(caption_pairs(&host), [(4, 16), (3, 391_895), (16, 16), (1, 391_895)]);
    let images_only = json!({"image_ids": "i", "captions_per_image": 2});
    let host = read(images_only, b"7\n5\n", b"").unwrap();
    assert_eq!(caption_pairs(&host), [(0, 7), (1, 7), (2, 5), (3, 5)]);

    let message = refused(read(both.clone(), b"1\n2\n3\n", b"1\n2\n3\n4\n"));
    assert!(message.contains("has 3 identifiers, expected 2, one for each row of"), "{message}");
    let message = refused(read(both, b"1\n2\n", b"1\n2\n2\n4\n"));
    assert!(message.contains("row 2 (from 0): caption id 2 is also that of row 1"), "{message}");
    let stage: Ingest = serde_json::from_value(
        json!({"embeddings": {"images": "a", "captions": "b", "caption_ids": "c", "columns": {"image_id": "id"}}}),
    )
    .unwrap();
    let problems: Vec<String> = stage.check().into_iter().map(|problem| problem.message).collect();
    assert_eq!(problems, ["got `columns`, which is for Parquet and Arrow files, with `caption_ids`, for npy files"]);
}
