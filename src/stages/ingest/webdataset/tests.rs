//! Tests of `webdataset`.

use serde_json::json;
use tar::{Builder, Header};

use super::super::testing::{captions, encoded_images, folder, images, ingest, refused};

/// Tar file of these files.
fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // Unlike the builder's own functions, this writes any path.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn samples_of_all_archives_are_in_the_order_of_their_names() {
    let first = tar(&[("a/2.jpg", "P2"), ("a/2.txt", " two dogs \n"), ("a/1.txt", "a cat"), ("a/1.png", "P1")]);
    let second = tar(&[("2.JPEG", "P3"), ("2.txt", "a bird"), ("2.cls", "7")]);
    let data = folder(&[("tars/1.tar", &second), ("tars/0.tar", &first), ("tars/list.txt", b"0.tar")]);
    let host = ingest(data.path(), json!({"webdataset": {"shards": "tars", "split": "test"}})).unwrap();
    let row = |id: i64, name: &str| (id, "test".to_owned(), name.to_owned(), None);
    assert_eq!(images(&host), [row(0, "a/2.jpg"), row(1, "a/1.png"), row(2, "2.jpeg")]);
    assert_eq!(encoded_images(&host), [b"P2", b"P1", b"P3"]);
    let texts: Vec<_> = captions(&host).into_iter().map(|(id, image, _, text)| (id, image, text)).collect();
    assert_eq!(texts, [(0, 0, "two dogs".to_owned()), (1, 1, "a cat".to_owned()), (2, 2, "a bird".to_owned())]);
    // One archive is a source too.
    let host = ingest(data.path(), json!({"webdataset": {"shards": "tars/1.tar", "split": "train"}})).unwrap();
    assert_eq!(images(&host).len(), 1);
}

#[test]
fn fields_of_json_have_captions_splits_and_identifiers() {
    let sample = |id: i64, split: &str, more: &str| {
        format!("{{\"split\": \"{split}\", \"texts\": [\"one {id}\", \"two {id}\"]{more}}}")
    };
    let (a, b) = (sample(7, "train", ""), sample(3, "val", ""));
    let settings =
        json!({"webdataset": {"shards": "x.tar", "captions": {"json": "texts"}, "split": {"column": "split"}}});
    let data = folder(&[("x.tar", &tar(&[("a.jpg", "A"), ("a.json", &a), ("b.jpg", "B"), ("b.json", &b)]))]);
    let host = ingest(data.path(), settings.clone()).unwrap();
    let splits: Vec<_> = images(&host).into_iter().map(|(id, split, ..)| (id, split)).collect();
    assert_eq!(splits, [(0, "train".to_owned()), (1, "val".to_owned())]);
    assert_eq!(captions(&host)[3], (3, 1, "val".to_owned(), "two 3".to_owned()));

    let ids = |id: i64, captions: &str| {
        format!(", \"image_id\": {id}, \"caption_ids\": {captions}, \"file_name\": \"{id} x.jpg\"")
    };
    let (a, b) = (sample(7, "train", &ids(7, "[70, 71]")), sample(3, "val", &ids(3, "[30, 31]")));
    let data = folder(&[("x.tar", &tar(&[("a.jpg", "A"), ("a.json", &a), ("b.jpg", "B"), ("b.json", &b)]))]);
    let host = ingest(data.path(), settings.clone()).unwrap();
    let names: Vec<_> = images(&host).into_iter().map(|(id, _, name, _)| (id, name)).collect();
    assert_eq!(names, [(7, "7 x.jpg".to_owned()), (3, "3 x.jpg".to_owned())]);
    assert_eq!(captions(&host)[2], (30, 3, "val".to_owned(), "one 3".to_owned()));

    let files: Vec<(&str, String)> = vec![
        ("a.json", a.clone()),
        ("b.json", sample(3, "dev", &ids(3, "[30, 31]"))),
        ("c.json", sample(4, "val", "")),
        ("d.json", sample(7, "val", &ids(7, "[72, 73]"))),
        ("e.json", sample(5, "val", &ids(5, "[70, 75]"))),
        ("f.json", sample(6, "val", &ids(6, "[76]"))),
        ("g.json", "[]".to_owned()),
        ("h.json", "{\"split\": \"val\", \"image_id\": 8, \"caption_ids\": []}".to_owned()),
    ];
    let pictures: Vec<String> = files.iter().map(|(name, _)| name.replace("json", "png")).collect();
    let all: Vec<(&str, &str)> = files
        .iter()
        .zip(&pictures)
        .flat_map(|((name, json), picture)| [(picture.as_str(), "P"), (*name, json.as_str())])
        .chain([
            ("i.json", "{\"split\": \"val\", \"image_id\": 9, \"caption_ids\": []}"),
            ("j.png", "P"),
            ("j.jpg", "P"),
        ])
        .collect();
    let error = refused(ingest(folder(&[("x.tar", &tar(&all))]).path(), settings));
    for expected in [
        "sample `b`: split is `dev`",
        "sample `c`: its `.json` has no whole numbers `image_id` and `caption_ids`",
        "sample `d`: the image id 7 is also that of an earlier sample",
        "sample `e`: the caption id 70 is also that of an earlier caption",
        "sample `f`: has 2 captions and 1 identifiers of captions",
        "sample `g`: its `.json` is no JSON object",
        "sample `h`: it has no captions, expected `.jpg`, `.jpeg` or `.png` and `texts` in `.json`, got `.png`, `.json`: \
         `on_missing",
        "sample `i`: it has no image, expected `.jpg`, `.jpeg` or `.png` and `texts` in `.json`, got `.json`: `on_missing",
        "sample `j`: has several images",
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

/// Files of more than 16 MiB and paths that lead out. A refused picture is a sample that is left out, and is counted once.
#[test]
fn refused_files_can_be_left_out() {
    let large = "x".repeat((16 << 20) + 1);
    let entries = [
        ("a.jpg", "A"),
        ("a.txt", "a"),
        ("../b.jpg", "B"),
        ("/etc/c.jpg", "C"),
        ("d.jpg", large.as_str()),
        ("d.txt", "d"),
    ];
    let data = folder(&[("x.tar", &tar(&entries))]);
    let settings = |on_missing: &str| {
        let share = if on_missing == "skip" { 0.75 } else { 0.1 };
        json!({"webdataset": {"shards": "x.tar", "split": "train", "on_missing": on_missing, "max_skipped": share}})
    };
    let host = ingest(data.path(), settings("skip")).unwrap();
    assert_eq!(encoded_images(&host), [b"A"]);
    let warnings: Vec<_> =
        host.warnings.iter().map(|warning| format!("{}: {}", warning.subject, warning.message)).collect();
    for expected in [
        "../b.jpg: file left out: its path leads out of the archive",
        "/etc/c.jpg: file left out: its path leads out of the archive",
        "d.jpg: file left out: has 16777217 bytes, expected at most 16777216",
    ] {
        assert!(warnings.iter().any(|warning| warning == expected), "{expected}: {warnings:?}");
    }
    assert_eq!(warnings.len(), 3);
    let mut fewer = settings("skip");
    fewer["webdataset"]["max_skipped"] = json!(0.7);
    assert!(refused(ingest(data.path(), fewer)).contains("3 of 4 samples were left out"));
    let error = refused(ingest(data.path(), settings("fail")));
    assert!(error.contains("file `../b.jpg`: its path leads out of the archive"), "{error}");
}

#[test]
fn samples_that_lack_something_can_be_left_out() {
    let data = folder(&[(
        "x.tar",
        &tar(&[("a.jpg", "A"), ("a.txt", "a"), ("b.jpg", "B"), ("c.txt", "c"), ("d.jpg", "D"), ("d.txt", "d")]),
    )]);
    let settings = |share: f64| json!({"webdataset": {"shards": "x.tar", "split": "train", "on_missing": "skip", "max_skipped": share}});
    let host = ingest(data.path(), settings(0.5)).unwrap();
    assert_eq!(encoded_images(&host), [b"A", b"D"]);
    assert_eq!(host.warnings.len(), 2);
    assert!(refused(ingest(data.path(), settings(0.4))).contains("2 of 4 samples were left out"));
    assert!(
        refused(ingest(folder(&[("x.zip", b"")]).path(), json!({"webdataset": {"shards": ".", "split": "train"}})))
            .contains("has no file whose name ends in .tar, .tar.gz, .tgz")
    );
}

/// The first sample has no picture, so it does not decide that samples have no identifiers.
#[test]
fn a_sample_that_is_left_out_decides_nothing() {
    let sample = r#"{"texts": ["a"], "image_id": 70, "caption_ids": [700]}"#;
    let data = folder(&[("x.tar", &tar(&[("a.txt", "a"), ("b.jpg", "B"), ("b.json", sample)]))]);
    let settings = json!({"webdataset": {"shards": "x.tar", "split": "train", "captions": {"json": "texts"},
        "on_missing": "skip", "max_skipped": 0.5}});
    let host = ingest(data.path(), settings).unwrap();
    assert_eq!((images(&host)[0].0, captions(&host)[0].0), (70, 700));
}

/// Python writes NaN in JSON. Where captions are texts, a `.json` gives no more than the name of the file.
#[test]
fn json_that_is_not_needed_may_be_wrong() {
    let files = [("a.jpg", "A"), ("a.txt", "a cat"), ("a.json", "{\"similarity\": NaN}")];
    let data = folder(&[("x.tar", &tar(&files))]);
    let host = ingest(data.path(), json!({"webdataset": {"shards": "x.tar", "split": "test"}})).unwrap();
    assert_eq!(images(&host)[0].2, "a.jpg");
    let settings = json!({"webdataset": {"shards": "x.tar", "split": {"column": "similarity"}}});
    let error = refused(ingest(data.path(), settings));
    assert!(error.contains("its `.json` is no JSON object"), "{error}");
}

#[test]
fn identifiers_beyond_64_bits_and_long_names_are_refused() {
    let settings = json!({"webdataset": {"shards": "x.tar", "captions": {"json": "text"}, "split": "test"}});
    let ids = |image: &str, caption: &str| format!("\"image_id\": {image}, \"caption_ids\": [{caption}]");
    for (more, expected) in [
        (ids("9223372036854775808", "1"), "the identifier 9223372036854775808 is no whole number of 64 bits"),
        (ids("1", "18446744073709551616"), "the identifier 1.8446744073709552e+19 is no whole number of 64 bits"),
        (format!("\"file_name\": \"{}\"", "a".repeat(4097)), "its file name has 4097 bytes, expected at most 4096"),
    ] {
        let sample = format!("{{\"text\": \"a cat\", {more}}}");
        let data = folder(&[("x.tar", &tar(&[("a.jpg", "A"), ("a.json", &sample)]))]);
        let error = refused(ingest(data.path(), settings.clone()));
        assert!(error.contains(expected), "{error}");
    }
    let sample = |captions: usize| format!("{{\"text\": [{}\"a\"]}}", "\"a\", ".repeat(captions - 1));
    for (count, is_read) in [(10_000, true), (10_001, false)] {
        let data = folder(&[("x.tar", &tar(&[("a.jpg", "A"), ("a.json", &sample(count))]))]);
        let read = ingest(data.path(), settings.clone());
        assert_eq!(read.is_ok(), is_read);
        if !is_read {
            assert!(refused(read).contains("has 10001 captions, expected at most 10000"));
        }
    }
}

/// As img2dataset writes a null caption: an empty `.txt`.
#[test]
fn empty_captions_are_left_out_and_counted() {
    let form = |more: &serde_json::Value| {
        let mut form = json!({"shards": "x.tar", "split": "train"});
        form.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"webdataset": form})
    };
    let data = folder(&[("x.tar", &tar(&[("a.jpg", "A"), ("a.txt", " \n"), ("b.jpg", "B"), ("b.txt", "b")]))]);
    let error = refused(ingest(data.path(), form(&json!({}))));
    assert!(
        error.contains("sample `a`: its caption is empty: `on_missing = \"skip\"` leaves such samples out"),
        "{error}"
    );
    let host = ingest(data.path(), form(&json!({"on_missing": "skip", "max_skipped": 0.5}))).unwrap();
    assert_eq!((encoded_images(&host), host.warnings.len()), (vec![b"B".to_vec()], 1));
    let error = refused(ingest(data.path(), form(&json!({"on_missing": "skip"}))));
    assert!(error.contains("1 of 2 samples were left out"), "{error}");

    let json = r#"{"texts": ["one", null, "", "four"], "image_id": 7, "caption_ids": [70, 71, 72, 73]}"#;
    let data = folder(&[("x.tar", &tar(&[("a.jpg", "A"), ("a.json", json)]))]);
    let lists = |more: serde_json::Value| {
        let mut settings = form(&more);
        settings["webdataset"]["captions"] = json!({"json": "texts"});
        settings
    };
    let error = refused(ingest(data.path(), lists(json!({}))));
    assert!(error.contains("sample `a`: caption 2 of 4 is empty: `on_missing"), "{error}");
    let host = ingest(data.path(), lists(json!({"on_missing": "skip", "max_skipped": 0.5}))).unwrap();
    let texts: Vec<_> = captions(&host).into_iter().map(|(id, image, _, text)| (id, image, text)).collect();
    assert_eq!(texts, [(70, 7, "one".to_owned()), (73, 7, "four".to_owned())]);
    let warnings: Vec<_> = host.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(warnings, ["left out: caption 2 of 4 is empty", "left out: caption 3 of 4 is empty"]);
    let error = refused(ingest(data.path(), lists(json!({"on_missing": "skip"}))));
    assert!(error.contains("2 of 4 captions were left out"), "{error}");
}

/// The name of a sample ends at its first point, and other files than `.jpg` and `.txt` are named by settings.
#[test]
fn expected_files_are_named_and_can_be_set() {
    let files = [("0.input.jpg", "A"), ("0.prompt.txt", "a cat"), ("0.output.jpg", "B")];
    let data = folder(&[("x.tar", &tar(&files)), ("y.tar", &tar(&[("v1.2-a.jpg", "A"), ("v1.2-a.txt", "a")]))]);
    let form = |name: &str| json!({"webdataset": {"shards": name, "split": "train"}});
    let error = refused(ingest(data.path(), form("x.tar")));
    let expected = "sample `0`: it has no image, expected `.jpg`, `.jpeg` or `.png` and `.txt`, got `.input.jpg`, `.prompt.txt`, \
                    `.output.jpg`; the name of a sample ends at its first point";
    assert!(error.contains(expected), "{error}");
    let error = refused(ingest(data.path(), form("y.tar")));
    assert!(error.contains("sample `v1`: it has no image") && error.contains("got `.2-a.jpg`, `.2-a.txt`;"), "{error}");
    let mut named = form("x.tar");
    named["webdataset"]["image"] = json!("input.jpg");
    named["webdataset"]["captions"] = json!({"file": "prompt.txt"});
    let host = ingest(data.path(), named).unwrap();
    assert_eq!((encoded_images(&host), images(&host)[0].2.as_str()), (vec![b"A".to_vec()], "0.input.jpg"));
    assert_eq!(captions(&host)[0].3, "a cat");
    for (setting, value) in [("image", json!(".jpg")), ("image", json!("A.JPG")), ("captions", json!({"file": ""}))] {
        let mut wrong = form("x.tar");
        wrong["webdataset"][setting] = value;
        let stage: super::super::Ingest = serde_json::from_value(wrong).unwrap();
        assert_eq!(pairloom_stage::Stage::check(&stage).len(), 1, "{setting}");
    }
}

/// An archive that is sorted by the ends of names: the files of a sample are apart. Leaving them out would leave out all.
#[test]
fn samples_whose_files_are_apart_are_refused() {
    let data = folder(&[("x.tar", &tar(&[("a.jpg", "A"), ("b.jpg", "B"), ("a.txt", "a"), ("b.txt", "b")]))]);
    for on_missing in ["fail", "skip"] {
        let error = refused(ingest(
            data.path(),
            json!({"webdataset": {"shards": "x.tar", "split": "train", "on_missing": on_missing}}),
        ));
        let place = "sample `a`: its other files are earlier in the archive, expected all of them side by side";
        assert!(error.contains(place) && error.contains("`tar --sort=name` writes them so"), "{error}");
    }
}
