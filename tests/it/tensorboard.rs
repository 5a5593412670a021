//! Tests of the event files that `pairloom tensorboard` writes, for running and finished trainings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{pairloom, pipeline};

/// Runs `pairloom`, which must succeed. Returns its stdout.
fn pairloom_in(store: &Path, arguments: &[&str]) -> String {
    let output = pairloom().arg("--store").arg(store).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Payloads of the records of an event file.
fn records(file: &[u8]) -> Vec<&[u8]> {
    let (mut records, mut rest) = (Vec::new(), file);
    while !rest.is_empty() {
        let length = usize::try_from(u64::from_le_bytes(rest[..8].try_into().unwrap())).unwrap();
        records.push(&rest[12..12 + length]);
        rest = &rest[12 + length + 4..];
    }
    records
}

/// Scalar with this tag in a record: the tag, then the field key of the value, then its four bytes.
fn scalar(record: &[u8], tag: &str) -> Option<f32> {
    let at = record.windows(tag.len()).position(|window| window == tag.as_bytes())? + tag.len();
    assert_eq!(record[at], 0x15, "the tag is followed by a 32-bit field");
    Some(f32::from_le_bytes(record[at + 1..at + 5].try_into().unwrap()))
}

/// Contents of all files below a folder, by path.
fn event_files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap).filter(|e| e.file_type().is_file());
    files.map(|entry| (entry.path().to_owned(), std::fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn event_files_have_all_metrics_of_a_training() {
    let folder = tempfile::tempdir().unwrap();
    // The stages up to the first training.
    let file = pipeline(folder.path(), "tiny.toml", |text| text[..text.find("[stage.joint.").unwrap()].to_owned());
    let (store, curves) = (folder.path().join("store"), folder.path().join("curves"));
    pairloom_in(&store, &["run", "--quiet", file.to_str().unwrap()]);
    let write = || pairloom_in(&store, &["tensorboard", curves.to_str().unwrap()]);
    let output = write();
    assert!(output.contains("tiny.fit,loss=max,seed=3,") && output.contains(": up to step 30"), "{output}");

    let files = event_files(&curves);
    let settings = |name: &str| {
        let found = files.iter().find(|(path, _)| path.ends_with(name));
        String::from_utf8_lossy(found.unwrap_or_else(|| panic!("no {name}")).1).into_owned()
    };
    let start = settings("events.out.tfevents.0000000000.hparams");
    assert!(["_hparams_/session_start_info", "batch_size", "loss.margin"].iter().all(|text| start.contains(text)));
    assert!(settings("events.out.tfevents.9999999999.end").contains("validation/kept_rsum"));
    assert!(settings("curves/events.out.tfevents.hparams").contains("rsum of the kept epoch"));
    let events: Vec<Vec<u8>> =
        files.values().flat_map(|file| records(file).into_iter().skip(1).map(<[u8]>::to_vec)).collect();
    assert!(files.values().all(|file| records(file)[0].ends_with(b"brain.Event:2")));
    for (table, columns) in [
        (
            "history",
            [
                ("loss", "train/loss"),
                ("gradient_norm", "train/gradient_norm"),
                ("learning_rate", "train/learning_rate"),
            ],
        ),
        ("validation", [("loss", "train/epoch_loss"), ("i2t_r1", "validation/i2t/R@1"), ("rsum", "validation/rsum")]),
    ] {
        let rows = pairloom_in(&store, &["sql", "--json", &format!("SELECT * FROM fit.{table} ORDER BY step")]);
        let rows: Vec<serde_json::Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(rows.len() >= 2, "{rows:?}");
        for (column, tag) in columns {
            let found: Vec<f32> = events.iter().filter_map(|event| scalar(event, tag)).collect();
            #[expect(clippy::cast_possible_truncation, reason = "TensorBoard shows f32")]
            let wanted: Vec<f32> = rows.iter().map(|row| row[column].as_f64().unwrap() as f32).collect();
            assert_eq!(found, wanted, "{tag}");
        }
    }

    // A second call writes nothing. An unfinished training gives the same curves; its settings are in the record of the run.
    assert_eq!(write(), "");
    assert_eq!(event_files(&curves), files);
    let artefact = walkdir::WalkDir::new(store.join("v1/train")).into_iter().map(Result::unwrap);
    let manifest = artefact.map(walkdir::DirEntry::into_path).find(|path| path.ends_with("manifest.json")).unwrap();
    std::fs::remove_file(manifest).unwrap();
    std::fs::remove_dir_all(&curves).unwrap();
    write();
    let running = event_files(&curves);
    assert_eq!(running.keys().filter(|path| path.ends_with("events.out.tfevents.0000000000.hparams")).count(), 1);
    let curves_only = |files: &BTreeMap<PathBuf, Vec<u8>>| -> Vec<(PathBuf, Vec<u8>)> {
        let is_curve = |path: &Path| path.extension().is_some_and(|end| end == "history" || end == "validation");
        files.iter().filter(|(path, _)| is_curve(path)).map(|(path, file)| (path.clone(), file.clone())).collect()
    };
    assert_eq!(curves_only(&running), curves_only(&files));

    // The limit counts trainings, not the runs that reused them.
    pairloom_in(&store, &["run", "--quiet", file.to_str().unwrap(), "--set", "stage.fit.train.epochs=1"]);
    let again = ["run", "--quiet", file.to_str().unwrap(), "--set", "stage.fit.train.epochs=1"];
    pairloom_in(&store, &again);
    pairloom_in(&store, &again);
    std::fs::remove_dir_all(&curves).unwrap();
    assert_eq!(pairloom_in(&store, &["tensorboard", curves.to_str().unwrap(), "--limit", "2"]).lines().count(), 2);
}

#[test]
fn a_store_without_a_training_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("synthetic.toml");
    std::fs::write(&file, "[stage.pairs.ingest]\nsynthetic = { train = 4, val = 2, test = 2, pixels = 32 }\n").unwrap();
    let store = folder.path().join("store");
    pairloom_in(&store, &["run", "--quiet", file.to_str().unwrap()]);
    let output = pairloom().args(["tensorboard", "curves", "--store"]).arg(&store).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no run of this store has a training yet"));
}
