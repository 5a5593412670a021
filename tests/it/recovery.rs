//! Real runs that are killed, interrupted, or run out of disk, and go on where they stopped.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use pairloom::kernels::sample::Sample;

use crate::support::{pairloom, pipeline, tiny_pipeline};

/// Every part and file of every artefact, by name below the store.
fn content(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut content = BTreeMap::new();
    for entry in walkdir::WalkDir::new(store).into_iter().map(Result::unwrap) {
        let name = entry.path().strip_prefix(store).unwrap().to_string_lossy().into_owned();
        let table = name.ends_with(".parquet") || name.contains("/model/") || name.contains("/page/");
        if entry.file_type().is_file() && table {
            content.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
    content
}

fn same(got: &BTreeMap<String, Vec<u8>>, wanted: &BTreeMap<String, Vec<u8>>) {
    let names = |content: &BTreeMap<String, Vec<u8>>| content.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(got), names(wanted));
    let other: Vec<_> = got.iter().filter(|(name, bytes)| wanted[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(other.is_empty(), "other bytes in {other:?}");
}

#[test]
fn a_run_that_is_killed_at_random_moments_ends_in_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    #[expect(clippy::disallowed_methods, reason = "the moments to kill at are parts of how long a run takes")]
    let clock = std::time::Instant::now();
    let status = pairloom().args(["run", "--quiet", "--store"]).arg(&whole).arg(&file).status().unwrap();
    assert!(status.success());
    let length = clock.elapsed();
    let mut sample = Sample::new(11, &[]);
    let mut kills = 0;
    for _ in 0..12 {
        let mut run = pairloom().args(["run", "--quiet", "--store"]).arg(&killed).arg(&file).spawn().unwrap();
        std::thread::sleep(length.mul_f64(0.05 + 0.5 * sample.unit()));
        // SIGKILL: nothing of the process can react to it.
        run.kill().unwrap();
        if !run.wait().unwrap().success() {
            kills += 1;
        }
    }
    assert!(kills >= 2, "killed {kills} times in the middle of a run of {length:?}");
    let status = pairloom().args(["run", "--quiet", "--store"]).arg(&killed).arg(&file).status().unwrap();
    assert!(status.success());
    same(&content(&killed), &content(&whole));
}

#[test]
fn an_interrupted_run_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let mut run = pairloom();
    run.args(["run", "--json", "--store"]).arg(folder.path().join("store")).arg(&file);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first part is there, and nearly everything is still to be done.
    let mut events = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(events.any(|event| event.contains("part_committed")));
    Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap();
    let output = run.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(told.contains("same command"), "{told}");
}

#[test]
fn a_full_disk_is_an_error_with_a_hint_and_more_space_repairs_it() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let file = tiny_pipeline(folder.path());
    // A small file system of its own, in a namespace that ends with the command.
    let script = r#"
        mount -t tmpfs -o size=600k none "$1" || exit 99
        "$2" run --store "$1/store" "$3"; first=$?
        find "$1/store" -name '*.parquet*' -size 0 | grep . && exit 98
        mount -o remount,size=200m "$1" || exit 99
        "$2" run --quiet --store "$1/store" "$3"; second=$?
        echo "first=$first second=$second"
    "#;
    let program = env!("CARGO_BIN_EXE_pairloom");
    let run = |options: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(options).args(["sh", "-c", script, "sh"]).arg(&disk).arg(program).arg(&file).output()
    };
    let output =
        run(&["--mount"]).ok().filter(|output| output.status.code() != Some(99) && output.status.code() != Some(1));
    let Some(output) = output.or_else(|| run(&["--map-root-user", "--mount"]).ok()) else {
        test_data::impossible("no `unshare` here");
        return;
    };
    if output.status.code() == Some(99) || output.status.code() == Some(1) {
        test_data::impossible("no small file system can be made here");
        return;
    }
    let (told, said) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(said.contains("first=4 second=0"), "{said}\n{told}");
    assert!(told.contains("No space left") && told.contains("free some space"), "{told}");
}

#[test]
fn two_processes_share_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let (alone, shared) = (folder.path().join("alone"), folder.path().join("shared"));
    assert!(pairloom().args(["run", "--quiet", "--store"]).arg(&alone).arg(&file).status().unwrap().success());
    let runs: Vec<_> = (0..2)
        .map(|_| pairloom().args(["run", "--quiet", "--store"]).arg(&shared).arg(&file).spawn().unwrap())
        .collect();
    for mut run in runs {
        assert!(run.wait().unwrap().success());
    }
    same(&content(&shared), &content(&alone));
}

#[test]
fn a_damaged_part_is_named_and_the_next_run_repairs_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let store = folder.path().join("store");
    assert!(pairloom().args(["run", "--quiet", "--store"]).arg(&store).arg(&file).status().unwrap().success());
    let whole = content(&store);
    let (name, bytes) = whole.iter().find(|(name, _)| name.contains("/features/")).unwrap();
    let mut flipped = bytes.clone();
    flipped[100] ^= 4;
    std::fs::write(store.join(name), flipped).unwrap();
    // Something downstream has to read it.
    let other = pipeline(folder.path(), "other.toml", |text| text.replace("epochs = 2", "epochs = 1"));
    let output = pairloom().args(["run", "--quiet", "--store"]).arg(&store).arg(&other).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("part-00000.parquet") && told.contains("damaged") && told.contains("hint"), "{told}");
    assert!(pairloom().args(["run", "--quiet", "--store"]).arg(&store).arg(&other).status().unwrap().success());
    assert_eq!(content(&store)[name], *bytes);
}
