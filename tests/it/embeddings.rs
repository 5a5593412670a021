//! Tests of the evaluation of embeddings from files, against recalls by argsort (`tests/golden/embeddings.py`).

use std::path::Path;
use std::process::{Command, Output};

use test_data::{golden, golden_json};

use crate::support::pairloom;

const RECALLS: [&str; 6] = ["i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1", "t2i_r5", "t2i_r10"];

/// Runs `pipelines/embeddings.toml` on these files, with additional settings.
fn run(store: &Path, images: &Path, captions: &Path, settings: &[&str]) -> Output {
    let mut command = pairloom();
    command.args(["run", "--quiet", "--store"]).arg(store);
    command.arg(test_data::root().join("pipelines/embeddings.toml"));
    command.env("IMAGES", images).env("CAPTIONS", captions);
    settings.iter().fold(&mut command, |command, setting| command.args(["--set", setting])).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Single row of a query result.
fn row(store: &Path, sql: &str) -> Vec<String> {
    let mut command: Command = pairloom();
    let output = command.args(["sql", "--format", "csv", "--store"]).arg(store).arg(sql).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().last().unwrap_or_default().split(',').map(str::to_owned).collect()
}

#[test]
fn recalls_of_embedding_files_equal_those_by_argsort() {
    let expected = golden_json("embeddings.json");
    let folder = tempfile::tempdir().unwrap();
    let arrays = ("embeddings_images.npy", "embeddings_captions.npy");
    let parquet = ("embeddings_images.parquet", "embeddings_captions.parquet");
    let image_of = format!("stage.theirs.ingest.embeddings.image_of={}", golden("embeddings_image_of.txt").display());
    for (number, ((images, captions), settings, pool)) in [
        (arrays, &["stage.theirs.ingest.embeddings.captions_per_image=3"][..], "all"),
        (arrays, &[&image_of], "all"),
        (parquet, &[], "test"),
        (parquet, &["stage.test.evaluate.split=val"], "val"),
        (parquet, &["stage.theirs.ingest.embeddings.split=test"], "all"),
    ]
    .into_iter()
    .enumerate()
    {
        let store = folder.path().join(number.to_string());
        let output = run(&store, &golden(images), &golden(captions), settings);
        assert!(output.status.success(), "{}", stderr(&output));
        let got = row(&store, &format!("SELECT {} FROM test.summary", RECALLS.join(", ")));
        for (name, got) in RECALLS.iter().zip(got) {
            let (got, expected): (f64, f64) = (got.parse().unwrap(), expected[pool][name].as_f64().unwrap());
            assert!((got - expected).abs() < 1e-9, "{images} {pool} {name}: {got}, expected {expected}");
        }
        let sql = "SELECT count(*), count(DISTINCT image_id), max(tokenizer) FROM theirs.caption_embeddings";
        assert_eq!(row(&store, sql), ["48", "16", "unknown"]);
    }
}

/// The last row of the captions has a NaN: exit code 3, the row is named, and no part of either table is published.
#[test]
fn a_file_with_an_invalid_value_publishes_no_part() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let captions = folder.path().join("captions.npy");
    let mut content = std::fs::read(golden("embeddings_captions.npy")).unwrap();
    let last = content.len() - 2;
    content[last..].copy_from_slice(&0x7e00u16.to_le_bytes());
    std::fs::write(&captions, &content).unwrap();
    let three = ["stage.theirs.ingest.embeddings.captions_per_image=3"];
    let output = run(&store, &golden("embeddings_images.npy"), &captions, &three);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("captions.npy` row 47 (from 0): the value of column 5 is NaN"), "{message}");
    let published = || {
        let files = walkdir::WalkDir::new(&store).into_iter().map(Result::unwrap);
        files.filter(|entry| entry.file_name().to_string_lossy().ends_with(".parquet")).count()
    };
    assert_eq!(published(), 0);

    std::fs::write(&captions, &content[..last]).unwrap();
    let output = run(&store, &golden("embeddings_images.npy"), &captions, &three);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("has 574 bytes of f16 values, expected 576"), "{message}");
    assert_eq!(published(), 0);
    // With the valid file, the same command succeeds.
    let output = run(&store, &golden("embeddings_images.npy"), &golden("embeddings_captions.npy"), &three);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(published() > 2);
}
