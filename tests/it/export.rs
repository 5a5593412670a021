//! Tests of `pairloom export`: files that other programs read, and that `ingest` reads again.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use arrow::array::AsArray;
use arrow::datatypes::{Float32Type, Int64Type};
use arrow::ipc::reader::FileReader;
use serde_json::json;

use crate::support::{pairloom, python};

/// File of `NumPy` with f32 values and a shape such as `2, 3`, as the library writes it: `numpy.save` writes no comma
/// after the last size, and `numpy.load` reads both.
fn npy(shape: &str, values: &[f32]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}, ), }}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{header:<117}\n").bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

fn numbers(count: usize, first: u16) -> Vec<f32> {
    (first..).take(count).map(|number| f32::from(number) / 8.0).collect()
}

/// Writes a `*_precomp` folder with three images of training and two of each other split, with rows of a shape.
fn precomp(folder: &Path, shape: &str, size: usize) {
    fs::create_dir(folder).unwrap();
    for (split, images, first) in [("train", 3, 0), ("dev", 2, 300), ("test", 2, 600)] {
        let rows = npy(&format!("{images}, {shape}"), &numbers(images * size, first));
        fs::write(folder.join(format!("{split}_ims.npy")), rows).unwrap();
        let (mut captions, mut ids) = (String::new(), String::new());
        for image in 0..images {
            writeln!(ids, "{}", usize::from(first) + 7 * image).unwrap();
            (0..5).for_each(|caption| writeln!(captions, "caption {caption} of {split} {image} — é").unwrap());
        }
        fs::write(folder.join(format!("{split}_caps.txt")), captions).unwrap();
        fs::write(folder.join(format!("{split}_ids.txt")), ids).unwrap();
    }
}

fn command(folder: &Path, arguments: &[&str]) -> Output {
    pairloom().current_dir(folder).args(arguments).args(["--store", "store", "--quiet"]).output().unwrap()
}

fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = command(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Ingests the folder `of` as the stage `pairs`.
fn ingest(folder: &Path, of: &str, regions: bool) {
    let pipeline = format!("[stage.pairs.ingest]\nprecomp = {{ folder = \"{of}\", regions = {regions} }}\n");
    fs::write(folder.join("p.toml"), pipeline).unwrap();
    succeed(folder, &["run", "p.toml"]);
}

/// Names and contents of the files of a folder.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut all: Vec<_> =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect();
    all.sort();
    all
}

#[test]
fn a_precomp_folder_comes_back_byte_by_byte() {
    for (shape, size, regions, table) in [("4", 4, false, "pairs.features"), ("3, 2", 6, true, "pairs.regions")] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        precomp(&folder.join("given"), shape, size);
        ingest(folder, "given", regions);
        succeed(folder, &["export", table, "--format", "precomp", "--output", "made/precomp/"]);
        let [made, given] = ["made/precomp", "given"].map(|name| files(&folder.join(name)));
        assert!(made == given, "{table}: {made:?}");
        let tables = |query: &str| succeed(folder, &["sql", "--format", "jsonl", query]);
        let queries = [format!("SELECT * FROM {table} ORDER BY image_id"), "SELECT * FROM pairs.captions".to_owned()];
        let before = queries.each_ref().map(|query| tables(query));
        ingest(folder, "made/precomp", regions);
        assert_eq!(queries.each_ref().map(|query| tables(query)), before, "{table}");
    }
}

#[test]
fn vectors_are_an_array_with_identifiers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    precomp(&folder.join("given"), "3, 2", 6);
    ingest(folder, "given", true);
    let printed = succeed(folder, &["export", "pairs.regions", "--output", "all", "--json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        (&printed["rows"], &printed["files"]),
        (&7.into(), &serde_json::json!(["regions.npy", "regions_ids.txt"]))
    );
    let values = [numbers(18, 0), numbers(12, 300), numbers(12, 600)].concat();
    let ids = "0\n7\n14\n300\n307\n600\n607\n";
    let wanted = [("regions.npy".to_owned(), npy("7, 3, 2", &values)), ("regions_ids.txt".to_owned(), ids.into())];
    assert_eq!(files(&folder.join("all")), wanted);
    // An empty folder is filled.
    fs::create_dir(folder.join("test")).unwrap();
    succeed(folder, &["export", "pairs.regions", "--split", "test", "-o", "test"]);
    let wanted = [
        ("regions.npy".to_owned(), npy("2, 3, 2", &numbers(12, 600))),
        ("regions_ids.txt".to_owned(), b"600\n607\n".to_vec()),
    ];
    assert_eq!(files(&folder.join("test")), wanted);
}

#[test]
fn any_table_is_an_arrow_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    precomp(&folder.join("given"), "4", 4);
    ingest(folder, "given", false);
    succeed(folder, &["export", "pairs.features", "--format", "arrow", "-o", "features"]);
    let file = FileReader::try_new(File::open(folder.join("features/features.arrow")).unwrap(), None).unwrap();
    let batches: Vec<_> = file.map(|batch| batch.unwrap()).collect();
    let [batch] = &batches[..] else { panic!("{} batches", batches.len()) };
    assert_eq!(batch["image_id"].as_primitive::<Int64Type>().values(), &[0, 7, 14, 300, 307, 600, 607]);
    let vectors = batch["feature"].as_fixed_size_list().values().as_primitive::<Float32Type>().values().to_vec();
    assert_eq!(vectors, [numbers(12, 0), numbers(8, 300), numbers(8, 600)].concat());
    succeed(folder, &["export", "pairs.captions", "--format", "arrow", "-o", "captions"]);
    let file = FileReader::try_new(File::open(folder.join("captions/captions.arrow")).unwrap(), None).unwrap();
    let texts = file.map(|batch| batch.unwrap()["text"].as_string::<i32>().value(34).to_owned()).collect::<Vec<_>>();
    assert_eq!(texts, ["caption 4 of test 1 — é"]);
}

#[test]
fn wrong_tables_and_folders_are_refused_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    precomp(&folder.join("given"), "4", 4);
    ingest(folder, "given", false);
    let refused = |arguments: &[&str], wanted: &str| {
        let output = command(folder, &[&["export"], arguments].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(0), "{arguments:?}");
        assert!(message.contains(wanted), "{arguments:?}: {message}");
    };
    refused(&["features", "-o", "x"], "`features` names no table, expected `stage.table`");
    refused(&["pair.features", "-o", "x"], "did you mean `pairs`?");
    refused(&["pairs.feature", "-o", "x"], "did you mean `features`?");
    refused(&["pairs.captions", "-o", "x"], "has other vectors than one column of f32: none");
    refused(&["pairs.features", "--split", "tests", "-o", "x"], "has no rows of the split `tests`");
    refused(&["pairs.features", "-o", "p.toml"], "is a file, expected a folder");
    refused(&["pairs.features", "-o", "given"], "has files, expected a new or an empty one");
    refused(&["pairs.features", "-o", "p.toml/x"], "p.toml");
    let of_captions = ["pairs.features", "--format", "precomp", "--captions", "pairs.images", "-o", "x"];
    refused(&of_captions, "no column `text`");
    // An image with four captions.
    let table = "file,caption\n".to_owned() + &"0,a\n".repeat(4) + &"7,b\n".repeat(6);
    fs::write(folder.join("few.csv"), table).unwrap();
    let pipeline = "[stage.pairs.ingest]\nprecomp = { folder = \"given\" }\n\
                    [stage.few.ingest]\ncaptions = { file = \"few.csv\", image = \"file\", split = \"train\" }\n";
    fs::write(folder.join("few.toml"), pipeline).unwrap();
    succeed(folder, &["run", "few.toml"]);
    let few = ["pairs.features", "--format", "precomp", "--captions", "few.captions", "--split", "train", "-o", "x"];
    refused(&few, "image 0: got 4 captions, expected 5");
    let mut left: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["few.csv", "few.toml", "given", "p.toml", "store"]);
}

#[test]
fn images_with_captions_come_back_from_tar_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let synthetic = "[stage.pairs.ingest]\nsynthetic = { train = 5, val = 2, test = 2, pixels = 32 }\n";
    fs::write(folder.join("p.toml"), synthetic).unwrap();
    succeed(folder, &["run", "p.toml"]);
    let queries = ["SELECT * FROM pairs.images", "SELECT * FROM pairs.captions"];
    let tables = || queries.map(|query| succeed(folder, &["sql", "--format", "jsonl", query]));
    let before = tables();
    succeed(folder, &["export", "pairs.images", "--format", "webdataset", "--output", "tars"]);
    let names: Vec<String> = files(&folder.join("tars")).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["images-000000.tar"]);
    let webdataset = "[stage.pairs.ingest]\n\
                      webdataset = { shards = \"tars\", captions.json = \"captions\", split.column = \"split\" }\n";
    fs::write(folder.join("p.toml"), webdataset).unwrap();
    succeed(folder, &["run", "p.toml"]);
    assert_eq!(tables(), before);
    // Written again, the archives are the same.
    succeed(folder, &["export", "pairs.images", "--format", "webdataset", "--output", "again"]);
    assert!(files(&folder.join("again")) == files(&folder.join("tars")));
}

#[test]
fn an_export_has_whole_names_and_its_errors_have_no_passwords() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let name = "https://me:secret@h.org/it's.png?signature=secret";
    fs::write(folder.join("a.png"), "a picture").unwrap();
    fs::write(folder.join("t.csv"), format!("file_name,image_id,caption\na.png,{name},A\n")).unwrap();
    let pipeline = "[stage.pairs.ingest]\nimage_folder = { images = \".\", captions = \"t.csv\", split = \"test\" }\n";
    fs::write(folder.join("p.toml"), pipeline).unwrap();
    succeed(folder, &["run", "p.toml"]);
    let export = ["export", "pairs.images", "--format", "webdataset", "--output"];
    succeed(folder, &[&export[..], &["tars"]].concat());
    let archive = fs::read(folder.join("tars/images-000000.tar")).unwrap();
    assert!(String::from_utf8_lossy(&archive).contains(name));
    fs::remove_file(folder.join("a.png")).unwrap();
    let refused = command(folder, &[&export[..], &["again"]].concat());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("image 0, `https://h.org/it's.png`: ") && !text.contains("secret"), "{text}");
}

/// Python with numpy (`PAIRLOOM_PEER_PYTHON`), or without: then arrays are left out.
fn python_reads(precomp: &Path, tars: &Path) -> Option<serde_json::Value> {
    let python = std::env::var_os("PAIRLOOM_PEER_PYTHON").map(Command::new).or_else(python)?;
    let mut python = python;
    python.arg(test_data::root().join("tests/it/export_reader.py")).args([precomp, tars]);
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn python_reads_exports_as_published_code_does() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    precomp(&folder.join("given"), "3, 2", 6);
    ingest(folder, "given", true);
    succeed(folder, &["export", "pairs.regions", "--format", "precomp", "--output", "precomp"]);
    let synthetic = "[stage.pairs.ingest]\nsynthetic = { train = 2, val = 1, test = 1, pixels = 32 }\n";
    fs::write(folder.join("p.toml"), synthetic).unwrap();
    succeed(folder, &["run", "p.toml"]);
    succeed(folder, &["export", "pairs.images", "--format", "webdataset", "--output", "tars"]);
    let Some(read) = python_reads(&folder.join("precomp"), &folder.join("tars")) else { return };

    let splits = read["splits"].as_object().unwrap();
    for (split, images, first) in [("train", 3, 0), ("dev", 2, 300), ("test", 2, 600)] {
        let Some(found) = splits.get(split) else { continue };
        assert_eq!((&found["shape"], &found["dtype"]), (&json!([images, 3, 2]), &json!("float32")));
        let last: Vec<Vec<f32>> =
            numbers(images * 6, first)[(images - 1) * 6..].chunks(2).map(<[f32]>::to_vec).collect();
        assert_eq!(found["last"], json!([last, format!("caption 4 of {split} {} — é", images - 1)]));
    }
    let captions = succeed(folder, &["sql", "--format", "jsonl", "SELECT image_id, text FROM pairs.captions"]);
    let captions: Vec<serde_json::Value> = captions.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pictures = read["pictures"].as_array().unwrap();
    assert_eq!(pictures.len(), 4);
    for (image, (picture, split)) in pictures.iter().zip(["train", "train", "val", "test"]).enumerate() {
        let texts: Vec<_> = captions.iter().filter(|row| row["image_id"] == image).map(|row| &row["text"]).collect();
        assert_eq!(
            picture.as_array().unwrap()[1..],
            [json!("png"), json!([32, 32]), texts[0].clone(), json!(split), json!(texts)]
        );
    }
}
