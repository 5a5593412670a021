//! Tests of stores of other builds: results and records without checksums or with unknown fields, and records that were changed.

use std::fs;
use std::path::Path;

use test_data::golden;

use crate::cli::{SYNTHETIC, assert_code, folder, json_lines, run, stderr, stdout};

/// Pipeline of the store in `tests/golden`, which `pairloom run` of a build without checksums wrote (`ba840e94` in its record).
const EARLIER: &str = "[stage.pairs.ingest]\nsynthetic = { train = 4, val = 2, test = 2 }\n
[stage.meaning.score_captions]\ncaptions = \"pairs.captions\"\nmeasure = { cider = {} }\n";

/// Copies a folder with its content.
fn copy_folder(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from) {
        let entry = entry.expect("the folder can be read");
        let place = to.join(entry.path().strip_prefix(from).expect("it is below the folder"));
        if entry.file_type().is_dir() {
            fs::create_dir_all(&place).expect("a folder");
        } else {
            fs::copy(entry.path(), &place).expect("a file");
        }
    }
}

/// Number that a query selects.
fn count(folder: &Path, query: &str) -> i64 {
    let output = run(folder, &["sql", query, "--json"]);
    assert_code(&output, 0);
    json_lines(&output)[0]["n"].as_i64().expect("a number")
}

/// The wanted numbers are those of `PyArrow`.
#[test]
fn a_store_of_an_earlier_build_is_read_and_used() {
    let folder = folder(EARLIER);
    copy_folder(&golden("store_without_checksums"), &folder.path().join("store"));
    let captions = || {
        ["count(*)", "sum(length(text))"]
            .map(|of| count(folder.path(), &format!("SELECT {of} AS n FROM pairs.captions")))
    };
    assert_eq!(captions(), [40, 2817]);
    assert_eq!(count(folder.path(), "SELECT count(*) AS n FROM pairs.images"), 8);
    assert_eq!(count(folder.path(), "SELECT count(*) AS n FROM meaning.caption_ngrams"), 10);
    let verified = run(folder.path(), &["verify", "--all"]);
    assert_code(&verified, 0);
    assert!(stderr(&verified).contains("2 results"), "{}", stderr(&verified));
    let runs = json_lines(&run(folder.path(), &["runs", "--json"]));
    assert_eq!((runs.len(), &runs[0]["outcome"]), (1, &"finished".into()));
    // Its captions are reused; their n-grams are not, because the rules of `ptb` have changed since. (A new version of
    // one of these stages changes the number.)
    let again = run(folder.path(), &["run", "p.toml"]);
    assert_code(&again, 0);
    assert!((stdout(&again) + &stderr(&again)).contains("1 of 2 stages ran"), "{}", stderr(&again));
    assert_eq!(captions(), [40, 2817]);
    assert_code(&run(folder.path(), &["show", "20261127T162602.822Z-54db"]), 0);
    assert_code(&run(folder.path(), &["gc"]), 0);
}

/// As a later build may write them, and as this build's are for an earlier one, which knows no checksums.
#[test]
fn unknown_fields_of_records_and_manifests_are_ignored() {
    let folder = folder(EARLIER);
    copy_folder(&golden("store_without_checksums"), &folder.path().join("store"));
    for entry in walkdir::WalkDir::new(folder.path().join("store")) {
        let entry = entry.expect("the store can be read");
        if entry.path().extension().is_some_and(|extension| extension == "json") {
            let text = fs::read_to_string(entry.path()).expect("a file");
            fs::write(entry.path(), text.replacen('{', "{\"of_a_later_build\": [1],", 1)).expect("a file");
        }
    }
    assert_eq!(count(folder.path(), "SELECT count(*) AS n FROM pairs.images"), 8);
    assert_code(&run(folder.path(), &["verify", "--all"]), 0);
}

#[test]
fn a_changed_record_and_a_changed_manifest_are_found() {
    let folder = folder(SYNTHETIC);
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    let store = folder.path().join("store/v1");
    let file = |below: &str, name: &str| {
        let mut files = walkdir::WalkDir::new(store.join(below)).into_iter().map(Result::unwrap);
        files.find(|file| file.path().to_string_lossy().ends_with(name)).expect("the file").into_path()
    };
    let (record, manifest) = (file("runs", ".json"), file("ingest", "manifest.json"));
    let text = fs::read_to_string(&record).expect("the record");
    assert_eq!(text.matches("\"finished\"").count(), 2, "a name and a value: {text}");
    fs::write(&record, text.replace("\"outcome\":\"finished\"", "\"outcome\":\"failed\"")).expect("the record");
    let verified = run(folder.path(), &["verify", "--all", "--json"]);
    assert_code(&verified, 3);
    let damaged: Vec<_> = json_lines(&verified).into_iter().filter(|line| line["state"] == "damaged").collect();
    assert_eq!((damaged.len(), &damaged[0]["kind"]), (1, &"runs".into()));
    assert!(stderr(&verified).contains("damaged: 1 record of runs"), "{}", stderr(&verified));
    let runs = run(folder.path(), &["runs"]);
    assert!(stderr(&runs).contains("its checksum differs") && !stdout(&runs).contains("failed"), "{}", stderr(&runs));
    fs::write(&record, text).expect("the record");
    assert_code(&run(folder.path(), &["verify", "--all"]), 0);

    // A part may not have other rows than those that were written.
    let text = fs::read_to_string(&manifest).expect("the manifest");
    assert!(text.contains("\"rows\":8"), "{text}");
    fs::write(&manifest, text.replace("\"rows\":8", "\"rows\":9")).expect("the manifest");
    assert_code(&run(folder.path(), &["verify", "--all"]), 3);
    let output = run(folder.path(), &["run", "p.toml"]);
    assert_code(&output, 0);
    assert!(
        stderr(&output).contains("1 of 1 stage ran") || stdout(&output).contains("1 of 1 stage ran"),
        "it is rebuilt"
    );
    assert_code(&run(folder.path(), &["verify", "--all"]), 0);
}
