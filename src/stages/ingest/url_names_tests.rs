//! Tests of images whose names are URLs with a password and a signature, neither of which any message shows.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, ListArray, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Float32Type};
use arrow::ipc::writer::FileWriter;
use serde_json::{Value, json};

use super::testing::{folder, ingest, ingest_beside, refused};
use pairloom_base::error::Result;
use pairloom_stage_testing::InMemoryHost;

/// Name of an image.
const URL: &str = "https://me:secret@h.org/it's.jpg?signature=secret.v1";
/// Name that leads out of the folder.
const OUT: &str = "https://me:secret@h.org/../../../it's.jpg?signature=secret.v1";

/// Asserts that a message has some parts, and nothing that is secret.
fn assert_shows(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("secret"), "{message}");
}

/// Subjects and messages of the warnings of a run.
fn warnings(host: &InMemoryHost) -> String {
    host.warnings.iter().map(|warning| format!("{}: {}\n", warning.subject, warning.message)).collect()
}

fn arrow_file(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// Runs `image_folder` on a table, with more settings and an image `a.jpg`.
fn image_folder(table: &str, more: &Value) -> Result<InMemoryHost> {
    let set =
        folder(&[("t.csv", table.as_bytes()), ("images/a.jpg", b""), ("images/it's.jpg?signature=secret.v1", b"")]);
    let mut settings = json!({"images": "images", "captions": "t.csv", "split": "test"});
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ingest(set.path(), json!({"image_folder": settings}))
}

#[test]
fn files_that_are_missing_are_named_without_secrets() {
    let table = format!("file_name,caption\na.jpg,A\n{URL},B\n");
    let missing = "`https:/h.org/it's.jpg`: there is no such file, which `t.csv` names in line 3";
    let message = refused(image_folder(&table, &json!({})));
    assert_shows(&message, &[missing, "the folder has `it's.jpg`: names are relative to the folder"]);
    let message = refused(image_folder(&table, &json!({"on_missing": "skip"})));
    assert_shows(&message, &["1 of 2 images were left out", missing]);
    let host = image_folder(&table, &json!({"on_missing": "skip", "max_skipped": 0.5})).unwrap();
    assert_shows(&warnings(&host), &["https:/h.org/it's.jpg: no such file, which `t.csv` names in line 3"]);
    let message = refused(image_folder(&format!("file_name,caption\n{OUT},A\n"), &json!({})));
    assert_shows(&message, &["image name `https://h.org/../../../it's.jpg` leads out of the image folder"]);
}

#[test]
fn mistakes_of_tables_of_captions_show_no_secrets() {
    let with_splits = json!({"split": {"column": "split"}});
    let table = format!("file_name,caption,split\n{URL},A,test\n{URL},B,val\na.jpg,C,{URL}\n");
    let message = refused(image_folder(&table, &with_splits));
    let expected = ["line 3: image `https://h.org/it's.jpg` is in split `val` here and in `test` before"];
    assert_shows(&message, &[expected[0], "line 4: split is `https://h.org/it's.jpg`, expected `train`"]);
    let table = format!("file_name,image_id,caption,caption_id\n{URL},1,A,1\na.jpg,1,B,2\n{URL},{URL},C,3\n");
    assert_shows(
        &refused(image_folder(&table, &json!({}))),
        &[
            "line 3: image identifier `1` is also that of `https:/h.org/it's.jpg` in line 2",
            "line 4: image `https://h.org/it's.jpg` has the identifier `https://h.org/it's.jpg` here and `1` in line 2",
        ],
    );
    let message = refused(image_folder(&format!("file_name,caption,caption_id\na.jpg,A,{URL}\n"), &json!({})));
    assert_shows(&message, &["line 2: `caption_id` is `https://h.org/it's.jpg`, expected a whole number"]);
    let captions = |table: &str| {
        let settings = json!({"captions": {"file": "c.csv", "split_column": "split"}});
        ingest(folder(&[("c.csv", table.as_bytes())]).path(), settings)
    };
    let message = refused(captions(&format!("image_id,caption,split\n{URL},A,test\n{URL},B,val\n")));
    assert_shows(&message, &["image `https://h.org/it's.jpg` is in split `val` here and in `test` before"]);
    let host = captions(&format!("image_id,caption,split\n1,A,test\n2,B,val\n{URL},C,test\n")).unwrap();
    assert_shows(&warnings(&host), &["are no whole numbers, such as `https://h.org/it's.jpg`"]);
    // A file without a header, and one with other separators.
    let message = refused(captions(&format!("{URL},A,test\n{URL},B,val\n")));
    assert_shows(&message, &["expected names of columns, got a row: `https://h.org/it's.jpg`"]);
    let message = refused(captions(&format!("{URL};A;test\n")));
    assert_shows(&message, &["its columns are separated by semicolons, expected commas: `https://h.org/it's.jpg`"]);
    let message = refused(captions(&format!("image_id,caption,split\n\"A\",\"B\" {URL},test\n")));
    assert_shows(&message, &["text after its closing quote: `\" https://h.org/it's.jpg`"]);
}

#[test]
fn published_lists_show_no_secrets() {
    let sentences = json!([{"raw": "A", "sentid": 1}]);
    let image = |name: &str, number: u64, folder: Value| json!({"filepath": folder, "filename": name, "imgid": number, "split": "test", "sentences": sentences});
    let karpathy = |images: Value| {
        let set = folder(&[("set.json", json!({"images": images}).to_string().as_bytes()), ("images/a.jpg", b"")]);
        refused(ingest(set.path(), json!({"karpathy": {"json": "set.json", "images": "images"}})))
    };
    let message = karpathy(json!([image(URL, 1, "val2014".into()), image(URL, 2, "val2014".into())]));
    assert_shows(&message, &["image `val2014/https:/h.org/it's.jpg` is also that of images[0]"]);
    let message = karpathy(json!([image(OUT, 1, "val2014".into())]));
    assert_shows(&message, &["image name `val2014/https://h.org/../../../it's.jpg` leads out of the image folder"]);
    let message = karpathy(json!([image(URL, 1, "val2014".into())]));
    assert_shows(&message, &["`val2014/https:/h.org/it's.jpg`: there is no such file"]);

    let flickr = |tokens: &str, train: &str| {
        let set = folder(&[
            ("tokens.txt", tokens.as_bytes()),
            ("train.txt", train.as_bytes()),
            ("val.txt", b""),
            ("test.txt", b""),
            ("images/a.jpg", b""),
        ]);
        let lists = json!({"tokens": "tokens.txt", "images": "images", "train": "train.txt", "val": "val.txt",
                           "test": "test.txt"});
        refused(ingest(set.path(), json!({ "flickr": lists })))
    };
    let message = flickr(&format!("{URL}#0\tA\n{URL}#0\tB\n"), "");
    assert_shows(&message, &["line 2: `https://h.org/it's.jpg#0` is a duplicate"]);
    let message = flickr("a.jpg#0\tA\n", &format!("{URL}\n{URL}\n{OUT}\n"));
    assert_shows(
        &message,
        &[
            "line 1: `https://h.org/it's.jpg` has no captions in the token file",
            "line 2: `https://h.org/it's.jpg` is in the list of `train` already",
            "line 3: image name `https://h.org/../../../it's.jpg` leads out",
        ],
    );
}

#[test]
fn rows_of_hugging_face_without_an_image_are_named_without_secrets() {
    let bytes: ArrayRef = Arc::new(BinaryArray::from_opt_vec(vec![Some(b"\x89PNG"), None]));
    let field = |name, kind: DataType| Arc::new(Field::new(name, kind, true));
    let picture = StructArray::from(vec![
        (field("bytes", DataType::Binary), bytes),
        (field("path", DataType::Utf8), texts(&["a.png", URL])),
    ]);
    let file = arrow_file(vec![("image", Arc::new(picture)), ("text", texts(&["A", "B"]))]);
    let run = |more: Value| {
        let mut form = json!({"files": "a.arrow", "caption": "text", "split": "train"});
        form.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ingest(folder(&[("a.arrow", &file)]).path(), json!({ "hugging_face": form }))
    };
    assert_shows(&refused(run(json!({}))), &["row 1: it has no image"]);
    let message = refused(run(json!({"on_missing": "skip"})));
    assert_shows(&message, &["1 of 2 samples were left out", "`https://h.org/it's.jpg`: it has no image"]);
    let host = run(json!({"on_missing": "skip", "max_skipped": 0.5})).unwrap();
    assert_shows(&warnings(&host), &["https://h.org/it's.jpg: sample left out: it has no image"]);
}

#[test]
fn ratings_show_no_secrets() {
    let other = URL.replace("it's", "b");
    let captions = format!("image,caption\n{URL},one\n{URL},two\na.jpg,three\n");
    let lines = [
        format!("{URL}#0,{other},1,x"),
        format!("{URL}#7,a.jpg,1,x"),
        format!("{URL},a.jpg,1,x"),
        format!("{other}#0,a.jpg,1,x"),
    ];
    let table = format!("caption,image,agg_score,sampling_method\n{}\n", lines.join("\n"));
    let set = folder(&[("captions.csv", captions.as_bytes()), ("r.csv", table.as_bytes())]);
    let form = json!({"captions": {"file": "captions.csv", "image": "image", "split": "test"}});
    let pairs = ingest(set.path(), form).unwrap();
    let settings = json!({"ratings": {"file": "r.csv", "images": "p.images", "captions": "p.captions"}});
    let inputs = [("ratings.images", &pairs, "images"), ("ratings.captions", &pairs, "captions")];
    assert_shows(
        &refused(ingest_beside(set.path(), settings, &inputs)),
        &[
            "line 2: image is `https://h.org/b.jpg`, which is no `file_name` of `p.images`",
            "line 3: caption is `https://h.org/it's.jpg#7`, but that image has 2 captions in `p.captions`",
            "line 4: caption is `https://h.org/it's.jpg`, expected `IMAGE#NUMBER`",
            "line 5: caption is `https://h.org/b.jpg`, which is no `file_name` of `p.images`",
        ],
    );
    let message = refused(ingest(set.path(), json!({"ratings": {"file": "r.csv"}})));
    assert_shows(&message, &["line 2: caption is `https://h.org/it's.jpg`, a name without an identifier"]);
    let set = folder(&[("r.csv", format!("caption,image,agg_score,sampling_method\na:1,{other},1,x\n").as_bytes())]);
    let message = refused(ingest(set.path(), json!({"ratings": {"file": "r.csv"}})));
    assert_shows(&message, &["line 2: image is `https://h.org/b.jpg`"]);
}

#[test]
fn identifiers_of_embeddings_show_no_secrets() {
    let vectors = |count: usize| -> ArrayRef {
        let rows = vec![Some(vec![Some(1.0), Some(2.0)]); count];
        Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows))
    };
    let images = |names: &[&str]| arrow_file(vec![("image_id", texts(names)), ("embedding", vectors(names.len()))]);
    let captions = arrow_file(vec![
        ("caption_id", texts(&[URL, URL])),
        ("image_id", texts(&["a", URL])),
        ("embedding", vectors(2)),
    ]);
    let set =
        folder(&[("i.arrow", &images(&["a", "b"])), ("twice.arrow", &images(&[URL, URL])), ("c.arrow", &captions)]);
    let run = |images: &str| {
        let form = json!({"images": images, "captions": "c.arrow", "split": "test"});
        refused(ingest(set.path(), json!({ "embeddings": form })))
    };
    let again = "identifier `https://h.org/it's.jpg` is also that of row 0";
    assert_shows(&run("i.arrow"), &["image id `https://h.org/it's.jpg` is not in `", again]);
    assert_shows(&run("twice.arrow"), &[again]);
}
