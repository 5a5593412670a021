//! Tests of the forms of data that are found: each pipeline is checked as `pairloom run` checks it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder};
use parquet::arrow::ArrowWriter;

use pairloom_pipeline::LoadOptions;
use pairloom_registry::AnyStage;
use pairloom_stage::Stage;

use super::{look, said, text_of};

/// Folder with these files. Names of pictures and arrays have fitting content.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

/// Array of f32 with this shape, all zeros.
fn npy(shape: &[usize]) -> Vec<u8> {
    let shape_text: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape_text}), }}\n");
    let length = u16::try_from(header.len()).unwrap();
    let values = vec![0u8; 4 * shape.iter().product::<usize>()];
    [b"\x93NUMPY\x01\x00", length.to_le_bytes().as_slice(), header.as_bytes(), &values].concat()
}

/// Settings of the source in the pipeline that is written beside the data, and the whole text.
fn written(folder: &Path, data: &str) -> (serde_json::Value, String) {
    let data = folder.join(data);
    let draft = look::look(&data).unwrap_or_else(|error| panic!("{error}: {:?}", error.hint_text()));
    let output = folder.join("pipeline.toml");
    let text = text_of(&draft, &data, &output);
    fs::write(&output, &text).unwrap();
    let options = LoadOptions::<AnyStage> {
        overrides: &[],
        profile: None,
        only: &[],
        except: &[],
        environment: &|_| None,
        sources_must_exist: true,
        check_queries: &|_, _| Vec::new(),
    };
    let pipeline = pairloom_pipeline::load(&output, &options).unwrap_or_else(|found| panic!("{found}\n{text}"));
    assert!(pipeline.warnings.as_slice().is_empty(), "{}\n{text}", pipeline.warnings);
    let source = pipeline.plan.stages().iter().find(|node| node.stage.kind() == "ingest").unwrap();
    (source.stage.settings(), text)
}

/// Message and hint for data of no form.
fn refused(folder: &Path, data: &str) -> String {
    let error = look::look(&folder.join(data)).unwrap_err();
    format!("{error} / {}", error.hint_text().unwrap_or_default())
}

#[test]
fn photographs_with_a_table_of_captions() {
    let rows = "picture;words;id\nb.jpg;A dog runs.;1\na.png;A cat sits on the mat.;2\n";
    let data = folder(&[("captions.csv", rows.as_bytes()), ("photos/a.png", b""), ("photos/b.jpg", b"")]);
    for named in ["", "captions.csv"] {
        let (settings, text) = written(data.path(), named);
        let source = &settings["image_folder"];
        assert_eq!(source["columns"]["file_name"], "picture");
        assert_eq!(source["columns"]["caption"], "words");
        assert_eq!(source["separator"], ";");
        // Two photographs cannot be divided.
        assert_eq!(source["split"], "train");
        assert!(text.contains("images = \"photos\"\ncaptions = \"captions.csv\"\n"), "{text}");
        assert!(text.contains("splits = [\"train\"]"), "{text}");
    }
    let many: String = (0..40).map(|i| format!("a.png,A cat number {i} sits.\n{i}.jpg,A dog.\n")).collect();
    let names: Vec<String> = (0..40).map(|i| format!("{i}.jpg")).collect();
    let mut files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    let table = format!("file_name,caption\n{many}");
    files.extend([("a.png", &b""[..]), ("t.csv", table.as_bytes())]);
    let (settings, text) = written(folder(&files).path(), "");
    assert_eq!(settings["image_folder"]["split"]["fractions"]["test"], 0.25);
    assert!(!text.contains("columns") && text.contains("images = \".\"\n"), "{text}");
    let splits = "image,sentence,part\nb.jpg,A dog.,train\na.png,A cat.,test\n";
    let data = folder(&[("c.csv", splits.as_bytes()), ("a.png", b""), ("b.jpg", b"")]);
    assert_eq!(written(data.path(), "").0["image_folder"]["split"]["column"], "part");
    let data = folder(&[("c.csv", b"image,caption\nb.jpg,A dog.\n")]);
    assert!(refused(data.path(), "").contains("names `b.jpg`, which is in no folder at or below"));
}

/// Values of a column of splits that are none are renamed, and only those.
#[test]
fn a_column_with_other_names_of_splits_is_found() {
    let cases = [
        ("train", "dev", "test", "values = { dev = \"val\" } } }"),
        ("train", "validation", "test", "values = { validation = \"val\" } } }"),
        ("Train", "Val", "Test", "values = { Test = \"test\", Train = \"train\", Val = \"val\" } } }"),
    ];
    let pictures: [(&str, &[u8]); 3] = [("a.png", b""), ("b.jpg", b""), ("c.jpg", b"")];
    for (train, val, test, expected) in cases {
        let rows = format!("image,caption,Subset\na.png,A cat.,{train}\nb.jpg,A dog.,{val}\nc.jpg,A cow.,{test}\n");
        let mut files = pictures.to_vec();
        files.push(("c.csv", rows.as_bytes()));
        let data = folder(&files);
        let (settings, text) = written(data.path(), "");
        let line = format!("split = {{ column = {{ name = \"Subset\", {expected}\n");
        assert!(text.contains(&line), "{line}{text}");
        assert_eq!(settings["image_folder"]["split"]["column"]["values"][val], "val");
        let said = said(&look::look(data.path()).unwrap());
        assert!(
            said.contains("\nsplit: the column `Subset`, with `") && said.contains(&format!("`{val}` as `val`")),
            "{said}"
        );
    }
    // Without test images the validation images are tested, and other values are no splits.
    let table = |values: [&str; 3]| {
        let [a, b, c] = values;
        format!("image,caption,Subset\na.png,A cat.,{a}\nb.jpg,A dog.,{b}\nc.jpg,A cow.,{c}\n")
    };
    let look_at = |rows: &str| {
        let mut files = pictures.to_vec();
        files.push(("c.csv", rows.as_bytes()));
        let data = folder(&files);
        (written(data.path(), "").1, said(&look::look(data.path()).unwrap()))
    };
    let (text, said) = look_at(&table(["train", "train", "dev"]));
    assert!(
        text.contains("splits = [\"val\"]") && said.contains("note: The column has no test images"),
        "{text}{said}"
    );
    let (text, said) = look_at(&table(["train", "north", "test"]));
    assert!(
        text.contains("split = \"train\"\n") && said.contains("\nsplit: none, all images are trained on\n"),
        "{text}{said}"
    );
    let many: String = (0..40).map(|i| format!("{i}.jpg,A dog.\n")).collect();
    let names: Vec<String> = (0..40).map(|i| format!("{i}.jpg")).collect();
    let table = format!("image,caption\n{many}");
    let mut files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    files.push(("c.csv", table.as_bytes()));
    let said = super::said(&look::look(folder(&files).path()).unwrap());
    assert!(said.contains("\nsplit: random, as no column of splits was found\n"), "{said}");
}

#[test]
fn gaps_of_a_table_are_left_out_and_counted() {
    let rows =
        "image,caption\na.png,A cat.\na.png, \nb.jpg,A dog.\nb.jpg,Two dogs.\ngone.jpg,A cow.\ngone.jpg,A bull.\n";
    let data = folder(&[("c.csv", rows.as_bytes()), ("a.png", b""), ("b.jpg", b"")]);
    let (settings, text) = written(data.path(), "");
    let note = "`on_missing` leaves out 1 row with an empty caption and 2 rows with a file that is not there, of 6.";
    assert!(text.contains(&format!("# {note}\n")), "{text}");
    assert!(text.contains("on_missing = \"skip\"\n"), "{text}");
    // One of three images is more than the tenth that may be left out.
    assert_eq!(settings["image_folder"]["max_skipped"], 0.34);
    assert!(said(&look::look(data.path()).unwrap()).contains(&format!("note: {note}\n")));
    let whole = folder(&[("c.csv", b"image,caption\na.png,A cat.\n"), ("a.png", b"")]);
    assert!(!written(whole.path(), "").1.contains("on_missing = \"skip\""));
}

#[test]
fn a_table_of_captions_beside_a_folder_of_pictures_is_named() {
    let other = b"image,caption\nelsewhere.jpg,A cow.\n";
    let rows = b"image,caption\na.png,A cat.\n";
    let data = folder(&[("photos/a.png", b""), ("a.csv", other), ("captions.csv", rows)]);
    let (_, text) = written(data.path(), "photos");
    let table = data.path().join("captions.csv").display().to_string();
    assert!(
        text.contains(&format!("# The table `{table}` beside the folder has captions of these pictures")),
        "{text}"
    );
    assert!(text.contains(&format!("`pairloom init {table}`")), "{text}");
    assert_eq!(written(data.path(), "captions.csv").0["image_folder"]["columns"]["file_name"], "image");
}

#[test]
fn annotations_of_coco_karpathy_and_flickr() {
    let karpathy = br#"{"images": [{"filepath": "val2014", "filename": "a.jpg", "imgid": 0, "split": "test",
        "sentences": [{"raw": "A dog.", "sentid": 0}]}], "dataset": "coco"}"#;
    let data = folder(&[("dataset_coco.json", karpathy), ("coco/val2014/a.jpg", b"")]);
    let (_, text) = written(data.path(), "dataset_coco.json");
    assert!(
        text.contains("[stage.pairs.ingest.karpathy]\njson = \"dataset_coco.json\"\nimages = \"coco\"\n"),
        "{text}"
    );
    let coco = |name: &str| {
        let images = format!(r#"{{"images": [{{"id": 1, "file_name": "{name}"}}]"#);
        format!(r#"{images}, "annotations": [{{"id": 1, "image_id": 1, "caption": "A dog."}}]}}"#)
    };
    let (train, val) = (coco("a.jpg"), coco("b.jpg"));
    let data = folder(&[
        ("annotations/captions_train2014.json", train.as_bytes()),
        ("annotations/captions_val2014.json", val.as_bytes()),
        ("annotations/instances_val2014.json", br#"{"images": [], "annotations": [{"bbox": []}]}"#),
        ("train2014/a.jpg", b""),
        ("val2014/b.jpg", b""),
    ]);
    let (settings, text) = written(data.path(), "");
    let splits: Vec<_> = settings["coco"]["files"].as_array().unwrap().iter().map(|file| &file["split"]).collect();
    assert_eq!(splits, ["train", "val"]);
    assert_eq!(settings["coco"]["files"][1]["folder"], "val2014");
    assert!(text.contains("No file of test images") && text.contains("splits = [\"val\"]"), "{text}");
    let (settings, _) = written(data.path(), "annotations/captions_train2014.json");
    assert_eq!(settings["coco"]["files"].as_array().unwrap().len(), 1);
    let data = folder(&[
        ("Flickr8k.token.txt", b"a.jpg#0\tA dog .\na.jpg#1\tA dog runs .\n"),
        ("Flickr_8k.trainImages.txt", b"a.jpg\n"),
        ("Flickr_8k.devImages.txt", b""),
        ("Flickr_8k.testImages.txt", b""),
        ("Flicker8k_Dataset/a.jpg", b""),
    ]);
    let (_, text) = written(data.path(), "");
    assert!(
        text.contains("val = \"Flickr_8k.devImages.txt\"") && text.contains("images = \"Flicker8k_Dataset\""),
        "{text}"
    );
    fs::remove_file(data.path().join("Flickr_8k.devImages.txt")).unwrap();
    assert!(refused(data.path(), "").contains("its lists of images are not beside it"));
}

#[test]
fn arrays_archives_and_tables_of_urls() {
    let ims = |shape: &[usize]| npy(shape);
    for (shape, content) in
        [(&[6, 8][..], "features = \"pairs.features\""), (&[6, 3, 8], "regions = \"pairs.regions\"")]
    {
        let array = ims(shape);
        let data = folder(&[("train_caps.txt", b"a\n"), ("train_ims.npy", &array)]);
        let (settings, text) = written(data.path(), "");
        assert_eq!(
            settings["precomp"]["regions"],
            if shape.len() == 3 { true.into() } else { serde_json::Value::Null }
        );
        assert!(text.contains(content), "{text}");
    }
    let (images, captions) = (npy(&[4, 8]), npy(&[12, 8]));
    let data = folder(&[("clip_image.npy", &images), ("clip_text.npy", &captions)]);
    for named in ["", "clip_image.npy"] {
        assert_eq!(written(data.path(), named).0["embeddings"]["captions_per_image"], 3);
    }
    let urls = "image_url\ttitle\nhttps://h.org/a.jpg\tA dog runs.\nhttp://h.org/b\tA cat.\n";
    let data = folder(&[("web.tsv", urls.as_bytes())]);
    let (settings, _) = written(data.path(), "web.tsv");
    assert_eq!(settings["image_urls"]["columns"], serde_json::json!({ "url": "image_url", "caption": "title" }));
    let data = folder(&[("web.tsv", b"a bus station\thttp://h.org/a.jpg\na dog\thttp://h.org/b.jpg\n")]);
    assert!(refused(data.path(), "web.tsv").contains("begins with a row, expected the names of its columns"));
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in [("0.jpg", "x"), ("0.json", r#"{"key": "0", "captions": ["A dog."]}"#)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    let tar = tar.into_inner().unwrap();
    let data = folder(&[("shards/00000.tar", &tar)]);
    for named in ["shards", "shards/00000.tar"] {
        assert_eq!(written(data.path(), named).0["webdataset"]["captions"]["json"], "captions");
    }
}

/// Tables of Hugging Face: pictures as bytes, lists of captions, numbers beside them.
#[test]
fn parquet_files_with_pictures_or_urls() {
    let texts = |texts: &[&str]| -> ArrayRef { Arc::new(StringArray::from(texts.to_vec())) };
    let mut lists = ListBuilder::new(StringBuilder::new());
    for caption in ["A dog runs.", "A cat sits."] {
        lists.values().append_value(caption);
        lists.append(true);
    }
    let pictures: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"one", b"two"]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
    let write = |columns: Vec<(&str, ArrayRef)>| {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut content = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut content, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        content
    };
    let split = texts(&["train", "test"]);
    let file = write(vec![
        ("img", pictures),
        ("sentids", numbers.clone()),
        ("text", Arc::new(lists.finish())),
        ("split", split),
    ]);
    let data = folder(&[("data/train-00000-of-00001.parquet", &file)]);
    let (settings, text) = written(data.path(), "");
    let source = &settings["hugging_face"];
    assert_eq!([&source["image"], &source["caption"], &source["split"]["column"]], ["img", "text", "split"], "{text}");
    let urls = texts(&["https://h.org/a.jpg", "https://h.org/b.jpg"]);
    let file = write(vec![("id", numbers), ("url", urls), ("caption", texts(&["A dog.", "A cat."]))]);
    let data = folder(&[("laion.parquet", &file)]);
    let (settings, text) = written(data.path(), "laion.parquet");
    assert!(settings["image_urls"].is_object() && !text.contains("columns"), "{text}");
}

#[test]
fn what_is_of_no_form_is_refused_with_the_forms() {
    let data = folder(&[("notes.txt", b"hello\n"), ("photos/a.jpg", b""), ("empty/x.bin", b"")]);
    assert!(refused(data.path(), "notes.txt").contains("is of no known form / expected photographs with a table"));
    assert!(refused(data.path(), "empty").contains("has no data of a known form / expected photographs"));
    assert!(refused(data.path(), "gone").contains("cannot look at `"));
    let (settings, text) = written(data.path(), "photos");
    assert_eq!(settings["image_folder"]["captions"], serde_json::Value::Null);
    assert!(text.contains("nothing can be trained") && !text.contains("[stage.fit.train]"), "{text}");
}
