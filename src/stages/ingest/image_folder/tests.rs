//! Tests of the form with tables in all formats, and of every mistake.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use serde_json::{Value, json};

use super::super::Ingest;
use super::super::testing::{captions, folder, images, ingest, refused};
use super::SplitFractions;
use pairloom_base::error::Result;
use pairloom_stage::Stage;
use pairloom_stage_testing::InMemoryHost;

/// Runs the form on a table and the image files `a.jpg`, `b.jpg` and `sub/c.jpg`, with more settings.
fn run(name: &str, table: &[u8], more: Value) -> Result<InMemoryHost> {
    let set = folder(&[
        (name, table),
        ("images/a.jpg", b""),
        ("images/b.jpg", b""),
        ("images/sub/c.jpg", b""),
        ("up.jpg", b""),
    ]);
    let mut settings = json!({"images": "images", "captions": name, "split": "test"});
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ingest(set.path(), json!({"image_folder": settings}))
}

/// Returns identifier, split, name and path of every image.
fn image(id: i64, split: &str, name: &str, path: &str) -> (i64, String, String, Option<String>) {
    (id, split.to_owned(), name.to_owned(), Some(path.to_owned()))
}

fn texts(host: &InMemoryHost) -> Vec<(i64, i64, String)> {
    captions(host).into_iter().map(|(id, image, _, text)| (id, image, text)).collect()
}

#[test]
fn rows_of_an_image_are_one_image_in_order_of_first_appearance() {
    let table = b"file_name,caption\nsub/c.jpg,C0\na.jpg, A0 \n./sub/c.jpg,C1\nb.jpg,\"B, 0\"\n";
    let host = run("t.csv", table, json!({})).unwrap();
    assert_eq!(
        images(&host),
        [
            image(0, "test", "sub/c.jpg", "sub/c.jpg"),
            image(1, "test", "a.jpg", "a.jpg"),
            image(2, "test", "b.jpg", "b.jpg")
        ]
    );
    let expected = [(0, 0, "C0"), (2, 0, "C1"), (1, 1, "A0"), (3, 2, "B, 0")];
    assert_eq!(texts(&host), expected.map(|(id, image, text)| (id, image, text.to_owned())));
}

#[test]
fn identifiers_are_numbers_or_texts() {
    let columns = json!({"columns": {"file_name": "file", "image_id": "id", "caption_id": "n", "caption": "text"},
                         "split": {"column": "part"}});
    let table = b"id\tfile\tn\ttext\tpart\n70\ta.jpg\t5\tA0\ttrain\n8\tb.jpg\t3\tB0\tval\n70\ta.jpg\t4\tA1\ttrain\n";
    let host = run("t.tsv", table, columns.clone()).unwrap();
    assert_eq!(images(&host), [image(70, "train", "a.jpg", "a.jpg"), image(8, "val", "b.jpg", "b.jpg")]);
    let expected = [(5, 70, "A0"), (4, 70, "A1"), (3, 8, "B0")];
    assert_eq!(texts(&host), expected.map(|(id, image, text)| (id, image, text.to_owned())));

    // The texts are the names of the images.
    let table = b"id\tfile\tn\ttext\tpart\n70\ta.jpg\t5\tA0\ttrain\nx8\tb.jpg\t3\tB0\tval\n";
    let host = run("t.tsv", table, columns).unwrap();
    assert_eq!(images(&host), [image(0, "train", "70", "a.jpg"), image(1, "val", "x8", "b.jpg")]);
}

/// Only names that are set must exist.
#[test]
fn columns_of_identifiers_are_used_without_a_setting() {
    let expected = [(7, 40, "A".to_owned()), (9, 3, "B".to_owned())];
    let table = b"file_name,caption,image_id,caption_id\na.jpg,A,40,7\nb.jpg,B,3,9\n";
    assert_eq!(texts(&run("t.csv", table, json!({})).unwrap()), expected);
    // The first object has other fields.
    let lines = b"{\"file_name\": \"a.jpg\", \"caption\": \"\\\"image_id\\\"\"}\n";
    assert_eq!(texts(&run("t.jsonl", lines, json!({})).unwrap()), [(0, 0, "\"image_id\"".to_owned())]);
    let more = [&lines[..], b"{\"file_name\": \"b.jpg\", \"caption\": \"B\", \"image_id\": 3}\n"].concat();
    let message = refused(run("t.jsonl", &more, json!({})));
    assert!(message.contains("line 1: `image_id` is missing"), "{message}");
    assert!(message.contains("`columns.image_id = \"\"` numbers the images instead"), "{message}");

    let numbered = [(0, 0, "A".to_owned()), (1, 1, "B".to_owned())];
    let none = json!({"columns": {"image_id": "", "caption_id": ""}});
    assert_eq!(texts(&run("t.csv", table, none).unwrap()), numbered);
    // A column of files is no column of identifiers.
    let table = b"image_id,caption\na.jpg,A\n./a.jpg,B\n";
    let host = run("t.csv", table, json!({"columns": {"file_name": "image_id"}})).unwrap();
    assert_eq!(images(&host), [image(0, "test", "a.jpg", "a.jpg")]);
    let message = refused(run("t.csv", b"file_name,caption\na.jpg,A\n", json!({"columns": {"image_id": "image_id"}})));
    assert!(message.contains("no column `image_id`"), "{message}");
    let table = b"file_name,caption,image_id,split\na.jpg,A,1,test\na.jpg,B,1,val\n";
    let message = refused(run("t.csv", table, json!({"split": {"column": "split"}})));
    assert!(message.contains("in split `val` here") && !message.contains("numbers the images"), "{message}");
}

#[test]
fn json_lines_and_parquet_tables_are_read() {
    let lines =
        b"{\"file_name\": \"a.jpg\", \"caption\": [\"A0\", \"A1\"]}\n{\"file_name\": \"b.jpg\", \"caption\": \"B0\"}\n";
    let host = run("metadata.jsonl", lines, json!({})).unwrap();
    let expected = [(0, 0, "A0"), (1, 0, "A1"), (2, 1, "B0")].map(|(id, image, text)| (id, image, text.to_owned()));
    assert_eq!(texts(&host), expected);

    let batch = RecordBatch::try_from_iter([
        ("file_name", Arc::new(StringArray::from(vec!["a.jpg", "a.jpg", "b.jpg"])) as ArrayRef),
        ("caption", Arc::new(StringArray::from(vec!["A0", "A1", "B0"]))),
        ("id", Arc::new(Int64Array::from(vec![7, 7, 9]))),
    ])
    .unwrap();
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let host = run("t.parquet", &bytes, json!({"columns": {"image_id": "id"}})).unwrap();
    assert_eq!(texts(&host), expected.map(|(id, image, text)| (id, [7, 9][usize::try_from(image).unwrap()], text)));
}

#[test]
fn every_mistake_is_named_with_its_line() {
    let mut table = b"id,file_name,caption,n,split\n\
        1,a.jpg,A,1,test\n\
        2,../up.jpg,A,2,test\n\
        3,/etc/hostname,A,3,test\n\
        4,a.jpg,A,4,test\n\
        1,b.jpg,A,5,test\n\
        6,b.jpg, ,6,test\n\
        7,sub/c.jpg,C,1,test\n\
        1,a.jpg,A,x,test\n\
        1,a.jpg,A,9,train\n\
        1,,A,10,test\n\
        8,d.jpg,D,11,dev\n\
        1,a.jpg,A,B,12,test\n\
        ,a.jpg,A,13,test\n"
        .to_vec();
    table.extend(b"9,e.jpg,caf\xe9,14,test\n");
    let columns = json!({"columns": {"image_id": "id", "caption_id": "n"}, "split": {"column": "split"}});
    let message = refused(run("t.csv", &table, columns));
    for part in [
        "t.csv` has 13 mistakes",
        "line 3: image name `../up.jpg` leads out of the image folder",
        "line 4: image name `/etc/hostname` leads out of the image folder",
        "line 5: image `a.jpg` has the identifier `4` here and `1` in line 2",
        "line 6: image identifier `1` is also that of `a.jpg` in line 2",
        "line 7: caption is empty",
        "line 8: caption id 1 is also that of line 2",
        "line 9: `n` is `x`, expected a whole number",
        "line 10: image `a.jpg` is in split `train` here and in `test` before",
        "line 11: `file_name` is empty",
        "line 12: split is `dev`, expected `train`",
        "line 13: 6 fields, expected 5",
        "line 14: `id` is empty",
        "line 15: bytes that are not UTF-8",
        "a field with `,` needs double quotes",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let message = refused(run("t.csv", b"image,text\na.jpg,A\n", json!({})));
    assert!(message.contains("no column `file_name`") && message.contains("no column `caption`"), "{message}");
    assert!(
        message.contains("its columns are `image`, `text`; name those that differ below `image_folder`"),
        "{message}"
    );
}

#[test]
fn missing_files_are_named_with_the_file_that_was_meant() {
    let message = refused(run("t.csv", b"file_name,caption\na.jpg,A\nb,B\nc.jpg,C\n", json!({})));
    assert!(
        message.contains(
            "has 2 mistakes:\n  `b`: there is no such file, which `t.csv` names in line 3\n  `c.jpg`: there is"
        ),
        "{message}"
    );
    assert!(message.contains("the folder has `b.jpg`: file names need their extension"), "{message}");
    let hint = |name: &str| refused(run("t.csv", format!("file_name,caption\n{name},A\n").as_bytes(), json!({})));
    assert!(hint("a.JPG").contains("the folder has `a.jpg`: names must agree in upper and lower case"));
    assert!(hint("sub\\c.jpg").contains("the folder has `sub/c.jpg`: folders are separated by `/`"));
    let message = refused(run("t.csv", b"caption,file_name\na.jpg,A dog.\nb.jpg,A cat.\n", json!({})));
    assert!(message.contains("the folder has `a.jpg`, which is a caption here: two columns are swapped"), "{message}");
    let message = refused(run("t.csv", b"file_name,caption\nimages/a.jpg,A\nb.jpg,B\n", json!({})));
    assert!(message.contains("the folder has `a.jpg`: names are relative to the folder"), "{message}");
}

#[test]
fn at_most_a_tenth_of_the_images_is_left_out() {
    let table = |gone: usize| -> Vec<u8> {
        let gone: String = (0..gone).map(|i| format!("gone{i}.jpg,G\n")).collect();
        format!("file_name,caption\na.jpg,A\nb.jpg,B\nsub/c.jpg,C\n{gone}").into_bytes()
    };
    let message = refused(run("t.csv", &table(1), json!({"on_missing": "skip"})));
    assert!(
        message.starts_with("1 of 4 images were left out, expected at most 0.1 of them:\n  `gone0.jpg`: there is no such file, which `t.csv` names in line 5"),
        "{message}"
    );
    let host = run("t.csv", &table(1), json!({"on_missing": "skip", "max_skipped": 0.25})).unwrap();
    assert_eq!((images(&host).len(), host.warnings.len()), (3, 1));
    let all = b"file_name,caption\ng.jpg,G\n";
    let message = refused(run("t.csv", all, json!({"on_missing": "skip", "max_skipped": 1.0})));
    assert!(message.starts_with("all 1 images were left out") && message.contains("path of the folder"), "{message}");
}

/// Expected splits: the formula of [`SplitFractions`] in Python, with its package `blake3`.
#[test]
fn the_split_is_a_function_of_the_name() {
    let fractions = |val, test, split_seed| SplitFractions { val, test, split_seed };
    let split = |seed: u64| -> Vec<&str> {
        ["a.jpg", "b.jpg", "sub/c.jpg", "d.jpg", "e.jpg"].map(|name| fractions(0.3, 0.3, seed).split_of(name)).to_vec()
    };
    assert_eq!(split(0), EXPECTED[0]);
    assert_eq!(split(9), EXPECTED[1]);
    let names: Vec<String> = (0..10_000).map(|i| format!("{i}.jpg")).collect();
    let share = |expected: &str| names.iter().filter(|name| fractions(0.1, 0.2, 1).split_of(name) == expected).count();
    // Three standard deviations: 90 of val, 120 of test.
    assert!((910..=1090).contains(&share("val")) && (1880..=2120).contains(&share("test")), "{}", share("val"));

    // Three images: with these fractions, one split stays empty for some seeds.
    let table = b"file_name,caption\na.jpg,A\nb.jpg,B\nsub/c.jpg,C\n";
    let message = refused(run("t.csv", table, json!({"split": {"fractions": {"val": 0.001, "test": 0.2}}})));
    assert!(
        message.contains("no image is in the split `val`: 3 images") && message.contains("split_seed"),
        "{message}"
    );
}

/// Splits of the five names for the seeds 0 and 9.
const EXPECTED: [[&str; 5]; 2] = [["train", "val", "train", "train", "train"], ["test", "test", "val", "val", "test"]];

/// Excel writes semicolons where the comma is the decimal point.
#[test]
fn a_table_with_semicolons_is_read_with_its_setting() {
    let table = b"file_name;caption\r\na.jpg;\"A; 1,5\"\r\nb.jpg;B\r\n";
    let host = run("t.csv", table, json!({"separator": ";"})).unwrap();
    assert_eq!(texts(&host), [(0, 0, "A; 1,5".to_owned()), (1, 1, "B".to_owned())]);
    let message = refused(run("t.csv", table, json!({})));
    assert!(message.contains("separated by semicolons") && message.ends_with("set `separator = \";\"`"), "{message}");
}

/// Rows that an odd quote swallows are a warning, if their number leaves doubt.
#[test]
fn a_field_that_may_have_swallowed_rows_is_a_warning() {
    let host = run("t.csv", b"file_name,caption\na.jpg,\"A\nb.jpg,B\"\nsub/c.jpg,C\n", json!({})).unwrap();
    assert_eq!(images(&host).len(), 2);
    assert!(host.warnings[0].subject.ends_with("t.csv"), "{:?}", host.warnings);
    assert!(host.warnings[0].message.starts_with("line 2: a quoted field goes on to line 3"), "{:?}", host.warnings);
}

#[test]
fn settings_are_checked_without_data() {
    let problems = |more: Value| -> Vec<(String, String)> {
        let mut settings = json!({"images": "images", "captions": "t.csv", "split": "train"});
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let stage: Ingest = serde_json::from_value(json!({"image_folder": settings})).unwrap();
        stage.check().into_iter().map(|problem| (problem.setting, problem.message)).collect()
    };
    assert_eq!(problems(json!({})), []);
    assert_eq!(problems(json!({"separator": "\t"})), []);
    for wrong in ["a", "\"", "\n", "é"] {
        assert_eq!(problems(json!({"separator": wrong}))[0].0, "image_folder.separator", "{wrong}");
    }
    assert_eq!(
        problems(json!({"split": {"fractions": {"val": 0.6, "test": 0.5}}})),
        [(
            "image_folder.split.fractions".to_owned(),
            "`val` and `test` are 1.1 together, expected at most 1".to_owned()
        )]
    );
    let problems = problems(json!({"split": {"fractions": {"val": -0.1, "test": 2}}, "max_skipped": 0.5}));
    let settings: Vec<&str> = problems.iter().map(|(setting, _)| setting.as_str()).collect();
    assert_eq!(
        settings,
        ["image_folder.split.fractions.val", "image_folder.split.fractions.test", "image_folder.max_skipped"]
    );
}

/// Two files whose names differ by a space.
#[test]
fn names_of_pictures_are_not_trimmed() {
    let set = folder(&[
        ("t.csv", b"file_name,caption\nlead.png,one\n\" lead.png\",two\n"),
        ("images/lead.png", b""),
        ("images/ lead.png", b""),
    ]);
    let settings = json!({"image_folder": {"images": "images", "captions": "t.csv", "split": "test"}});
    let host = ingest(set.path(), settings).unwrap();
    assert_eq!(images(&host), [image(0, "test", "lead.png", "lead.png"), image(1, "test", " lead.png", " lead.png")]);
    assert_eq!(texts(&host), [(0, 0, "one".to_owned()), (1, 1, "two".to_owned())]);
    // A space behind a comma is meant by nobody.
    let message = refused(run("t.csv", b"file_name,caption\n a.jpg,A\n", json!({})));
    assert!(message.contains("` a.jpg`: there is no such file"), "{message}");
    assert!(message.contains("the folder has `a.jpg`: white space is part of a name"), "{message}");
}

/// Cells as the Hugging Face copy of Flickr30k and pandas write them. The expected lists are those of Python's `json.loads`
/// and `ast.literal_eval`.
#[test]
fn a_list_in_a_cell_is_a_list_of_captions() {
    let table = b"file_name,caption\na.jpg,\"[\"\"A dog runs .\"\", \"\"Two dogs play .\"\"]\"\n\
        b.jpg,\"['A cat .', \"\"It's one .\"\"]\"\nsub/c.jpg,[a] dog\n";
    let expected =
        [(0, 0, "A dog runs ."), (1, 0, "Two dogs play ."), (2, 1, "A cat ."), (3, 1, "It's one ."), (4, 2, "[a] dog")];
    let expected = expected.map(|(id, image, text)| (id, image, text.to_owned()));
    assert_eq!(texts(&run("t.csv", table, json!({})).unwrap()), expected);
    let table = b"file_name\tcaption\na.jpg\t[\"A dog runs .\", \"Two dogs play .\"]\n\
        b.jpg\t['A cat .', \"It's one .\"]\nsub/c.jpg\t[a] dog\n";
    assert_eq!(texts(&run("t.tsv", table, json!({})).unwrap()), expected);
    let message = refused(run("t.tsv", b"file_name\tcaption\na.jpg\t['A dog', 'cut\n", json!({})));
    assert!(message.contains("line 2: `caption` begins as a list"), "{message}");
}

#[test]
fn captions_that_are_empty_or_null_can_be_left_out() {
    let lines = "{\"file_name\": \"a.jpg\", \"caption\": [\"A0\", null, \" \", \"A3\"]}\n\
                 {\"file_name\": \"b.jpg\", \"caption\": null}\n{\"file_name\": \"b.jpg\"}\n\
                 {\"file_name\": \"sub/c.jpg\", \"caption\": []}\n{\"file_name\": \"sub/c.jpg\", \"caption\": \"C\"}\n";
    let skip = |share: f64| json!({"on_missing": "skip", "max_skipped": share});
    let message = refused(run("t.jsonl", lines.as_bytes(), json!({})));
    for part in [
        "line 1: caption is missing: `on_missing = \"skip\"` leaves such captions out",
        "line 2: caption is missing",
        "line 3: caption is missing",
        "line 4: `caption` is an empty list",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    // Five of eight: the two of `a.jpg`, those of two lines, and an empty list.
    let host = run("t.jsonl", lines.as_bytes(), skip(0.63)).unwrap();
    assert_eq!(images(&host), [image(0, "test", "a.jpg", "a.jpg"), image(2, "test", "sub/c.jpg", "sub/c.jpg")]);
    // Numbers are those of the table.
    assert_eq!(
        texts(&host),
        [(0, 0, "A0"), (3, 0, "A3"), (6, 2, "C")].map(|(id, image, text)| (id, image, text.to_owned()))
    );
    let warnings: Vec<_> = host.warnings.iter().map(|warning| warning.message.as_str()).collect();
    let expected = "5 of 8 captions are left out: line 1: caption is missing; line 1: caption is empty; line 2: caption is \
                    missing; line 3: caption is missing; line 4: `caption` is an empty list";
    assert_eq!(warnings, [expected, "image has no captions and is left out"]);
    let message = refused(run("t.jsonl", lines.as_bytes(), skip(0.62)));
    assert!(message.starts_with("5 of 8 captions were left out, expected at most 0.62"), "{message}");
    let message = refused(run("t.csv", b"file_name,caption\na.jpg,\n", skip(1.0)));
    assert!(message.starts_with("all 1 captions were left out"), "{message}");
    let host = run("t.csv", b"file_name,caption,caption_id\na.jpg,,7\na.jpg,A,9\n", skip(0.5)).unwrap();
    assert_eq!(texts(&host), [(9, 0, "A".to_owned())]);
}

#[test]
fn other_names_of_splits_have_a_setting() {
    let table = b"file_name,caption,part\na.jpg,A,train\nb.jpg,B,validation\nsub/c.jpg,C,dev\n";
    let split = |values: Value| json!({"split": {"column": {"name": "part", "values": values}}});
    let host = run("t.csv", table, split(json!({"validation": "val", "dev": "val"}))).unwrap();
    let splits: Vec<_> = images(&host).into_iter().map(|(_, split, ..)| split).collect();
    assert_eq!(splits, ["train", "val", "val"]);
    let message = refused(run("t.csv", table, split(json!({"validation": "val"}))));
    assert!(message.contains("line 4: split is `dev`, expected `train`, `restval`, `val` or `test`; "), "{message}");
    assert!(
        message.contains("`{ name = \"part\", values = { \"dev\" = \"val\" } }` as the column gives it one"),
        "{message}"
    );
    let settings =
        json!({"images": "images", "captions": "t.csv", "split": {"column": {"name": "a", "values": {"dev": "x"}}}});
    let stage: Ingest = serde_json::from_value(json!({ "image_folder": settings })).unwrap();
    assert_eq!(stage.check()[0].setting, "image_folder.split.column.values");
}

/// Sixty rows of `dev` are one mistake, and those of another value a second.
#[test]
fn an_unknown_split_is_one_mistake_with_the_number_of_its_rows() {
    let rows = |split: &str, count: usize| format!("a.jpg,A,{split}\n").repeat(count);
    let table = format!("file_name,caption,part\n{}{}b.jpg,B,holdout\n", rows("train", 1), rows("dev", 60));
    let message = refused(run("t.csv", table.as_bytes(), json!({"split": {"column": "part"}})));
    assert_eq!(message.matches("split is `dev`, expected `train`").count(), 1, "{message}");
    for part in
        ["has 2 mistakes:\n  line 3: split is `dev`", "line 63: split is `holdout`", "the split `dev` occurs 60 times"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("`holdout` occurs"), "{message}");
}

/// "é" is U+00E9 (NFC), or U+0065 U+0301 (NFD), as macOS names files.
#[test]
fn a_name_in_another_form_of_unicode_is_found_for_the_hint() {
    let set = folder(&[
        ("t.csv", "file_name,caption\ngone.jpg,G\ncaf\u{e9}.jpg,A\nCaf\u{e9}.JPG,B\ne\u{301}.png,C\n".as_bytes()),
        ("images/cafe\u{301}.jpg", b""),
        ("images/Cafe\u{301}.jpg", b""),
        ("images/\u{e9}.png", b""),
    ]);
    let run = |more: Value| {
        let mut settings = json!({"images": "images", "captions": "t.csv", "split": "test"});
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refused(ingest(set.path(), json!({ "image_folder": settings })))
    };
    // The hint is that of the first name with one.
    let message = run(json!({}));
    let expected = "\nthe folder has `cafe\u{301}.jpg`: its letters are in another form of Unicode";
    assert!(message.contains("has 4 mistakes") && message.ends_with(expected), "{message}");
    let message = run(json!({"on_missing": "skip"}));
    for part in [
        "`caf\u{e9}.jpg`: there is no such file, which `t.csv` names in line 3; the folder has `cafe\u{301}.jpg`: its letters",
        "the folder has `Cafe\u{301}.jpg`: its letters are in another form of Unicode, and its ending in another case",
        "the folder has `\u{e9}.png`: its letters are in another form of Unicode",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}
