//! Tests of runs that are interrupted, damaged or out of disk space, and of the runs that resume them.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::book::block;
use crate::support::{assert_same_content, content, pairloom, pipeline, tiny_pipeline};

/// Page of the book with the matrix that is run here, and its queries.
const SWEEPS: &str = "docs/tutorials/sweeps.md";

/// The matrix of the book over the tiny pipeline, with two seeds. A part of a killed matrix is not computed again, and the
/// rest has the same bytes, also with instances side by side.
#[test]
fn a_killed_matrix_goes_on_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = block(SWEEPS, "toml", "[matrix]");
    let over_queries = block(SWEEPS, "toml", "[stage.over_queries.");
    let file = pipeline(folder.path(), "matrix.toml", |tiny| format!("{tiny}\n{over_queries}\n{matrix}"));
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    let run = |store: &Path, more: &[&str]| {
        let mut command = pairloom();
        command
            .args(["run", "--no-progress", "--threads", "2", "--only", "seed=1,2"])
            .args(more)
            .arg("--store")
            .arg(store)
            .arg(&file);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command
    };
    // Side by side, each instance has one of the two threads.
    let output = run(&whole, &["--jobs", "2"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut first = run(&killed, &["--jobs", "2"]).spawn().unwrap();
    let stderr = BufReader::new(first.stderr.take().unwrap());
    let finished =
        stderr.lines().map_while(Result::ok).any(|line| line.starts_with("test@row=") && line.contains("finished"));
    assert!(finished, "an evaluation finishes");
    first.kill().unwrap();
    first.wait().unwrap();
    let output = run(&killed, &["--jobs", "2"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("reused"), "{text}");
    assert_same_content(&content(&killed), &content(&whole));
    // A stage of all instances, with the axis as a column.
    let query = |sql: &str| {
        let output = pairloom().args(["sql", "--format", "csv", "--store"]).arg(&killed).arg(sql).output().unwrap();
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (rows, error) = query(&block(SWEEPS, "sql", "SELECT row, count(*)"));
    let rows: Vec<&str> = rows.lines().collect();
    assert!(rows.len() == 3 && rows[0] == "row,seeds,mean,deviation", "{rows:?} {error}");
    assert!(rows[1].starts_with("max,2,") && rows[2].starts_with("sum,2,"), "{rows:?}");
    // The tests over queries are of the differences between the summaries of a seed.
    let (tests, error) = query(&block(SWEEPS, "sql", "FROM over_queries.significance_tests"));
    let (summaries, _) = query("SELECT row, seed, rsum FROM test.summary WHERE method = 'nns' ORDER BY row, seed");
    let columns = |text: &str| -> Vec<(String, String, f64)> {
        let cells = text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        cells.map(|cells| (cells[0].clone(), cells[1].clone(), cells[2].parse().expect("a number"))).collect()
    };
    let (tests, summaries) = (columns(&tests), columns(&summaries));
    assert!(tests.len() == 4 && summaries.len() == 4, "{tests:?} {summaries:?} {error}");
    for ((row, seed, difference), (_, _, rsum)) in tests.iter().zip(&summaries) {
        let sum = summaries.iter().find(|(row, of, _)| row == "sum" && of == seed).expect("the baseline").2;
        assert!((difference - (rsum - sum)).abs() < 1e-9, "{row} {seed}: {difference}, {rsum} and {sum}");
    }
    // Instances are named in any order, or in part.
    for (name, expected) in [("test@seed=2,row=max", "\n1\n"), ("test@row=sum", "\n2\n"), ("test@*", "\n4\n")] {
        let sql = format!("SELECT count(*) FROM \"{name}\".summary WHERE method = 'nns'");
        let (rows, error) = query(&sql);
        assert!(rows.ends_with(expected), "{name}: {rows} {error}");
    }
    let (_, error) = query("SELECT * FROM \"test@row=max,seed=9\".summary");
    assert!(error.contains("`test` is repeated over row (sum, max) and seed (1, 2)"), "{error}");
    // A failure of one instance leaves the others alone.
    let only = ["--keep-going", "--set", r#"stage."fit@row=max,seed=2".train.learning_rate=1e30"#];
    let output = run(&folder.path().join("failed"), &only).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("stage `fit@row=max,seed=2`") && text.contains("test@row=sum,seed=2: finished"), "{text}");
    // What finished is reported without it.
    let hint = "to report the other rows, run the same command with --except row=max,seed=2\n";
    assert!(text.contains(hint), "{text}");
    let output = run(&folder.path().join("failed"), &["--except", "row=max,seed=2"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("reused"), "{text}");
}

#[test]
fn an_interrupted_run_prints_how_to_resume() {
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let mut run = pairloom();
    run.args(["run", "--json", "--store"]).arg(folder.path().join("store")).arg(&file);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // After the first part, most of the run is left.
    let mut events = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(events.any(|event| event.contains("part_committed")));
    Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap();
    let output = run.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("same command"), "{stderr}");
}

#[test]
fn a_run_under_nohup_goes_on_when_its_terminal_closes() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), "short.toml", |tiny| {
        tiny[..tiny.find("[stage.detected.import_regions]").expect("the stage after the features")].to_owned()
    });
    let run = pairloom();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(run.get_program());
    shell.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.args(["run", "--json", "--store"]).arg(folder.path().join("store")).arg(&file);
    let mut run = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut events = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(events.any(|event| event.contains("part_committed")));
    Command::new("kill").args(["-HUP", &run.id().to_string()]).status().unwrap();
    assert!(events.any(|event| event.contains("run_finished") || event.contains("stage_finished")), "it goes on");
    assert_eq!(events.filter(|event| event.contains("interrupted")).count(), 0);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_full_disk_is_an_error_with_a_hint_and_the_next_run_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let file = tiny_pipeline(folder.path());
    // A small file system, in a mount namespace that ends with the command.
    let script = r#"
        mount -t tmpfs -o size=600k none "$1" || exit 99
        "$2" run --store "$1/store" "$3"; first=$?
        find "$1/store" -name '*.parquet*' -size 0 | grep . && exit 98
        mount -o remount,size=200m "$1" || exit 99
        "$2" run --quiet --store "$1/store" "$3"; second=$?
        echo "first=$first second=$second"
    "#;
    let program = test_data::program("pairloom");
    let run = |options: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(options).args(["sh", "-c", script, "sh"]).arg(&disk).arg(&program).arg(&file).output()
    };
    let output =
        run(&["--mount"]).ok().filter(|output| output.status.code() != Some(99) && output.status.code() != Some(1));
    let Some(output) = output.or_else(|| run(&["--map-root-user", "--mount"]).ok()) else {
        test_data::impossible("`unshare` is not installed");
        return;
    };
    if output.status.code() == Some(99) || output.status.code() == Some(1) {
        test_data::impossible("no small file system can be mounted here");
        return;
    }
    let (stderr, stdout) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(stdout.contains("first=4 second=0"), "{stdout}\n{stderr}");
    assert!(stderr.contains("No space left") && stderr.contains("free some space"), "{stderr}");
}

#[test]
fn a_limit_of_the_size_of_files_is_an_error_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let run = pairloom();
    let mut shell = Command::new("sh");
    // 4,096 bytes.
    shell.args(["-c", "ulimit -f 8; exec \"$0\" \"$@\""]).arg(run.get_program());
    shell.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.args(["run", "--store"]).arg(folder.path().join("store")).arg(&file).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("File too large") && stderr.contains("ulimit -f"), "{stderr}");
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
    assert_same_content(&content(&shared), &content(&alone));
}

#[test]
fn a_run_that_waits_for_a_stopped_one_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), "training.toml", |tiny| {
        let end = tiny.find("[stage.joint.embed]").expect("the stage after the training");
        tiny[..end].replace("epochs = 2", "epochs = 12")
    });
    let store = folder.path().join("store");
    let start = || {
        let mut run = pairloom();
        run.args(["run", "--json", "--store"]).arg(&store).arg(&file);
        let mut run = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let events = BufReader::new(run.stdout.take().unwrap()).lines().map_while(Result::ok);
        (run, events)
    };
    let signal = |name: &str, process: &str| {
        assert!(Command::new("kill").args([name, process]).status().unwrap().success());
    };
    let (mut first, mut events) = start();
    // Most of the training is left, and its claim is held.
    assert!(events.any(|event| event.contains("\"event\":\"trained\"")));
    let process = first.id().to_string();
    signal("-STOP", &process);
    let (mut second, mut messages) = start();
    let message = messages.find(|event| event.contains("\"event\":\"waiting\"") || event.contains("waiting_for\":\""));
    signal("-CONT", &process);
    let message = message.expect("the second run says that it waits");
    if std::fs::read_to_string("/proc/locks").is_ok_and(|locks| !locks.is_empty()) {
        let expected = format!("process {process}, which is stopped (`kill -CONT {process}` continues it)");
        assert!(message.contains(&expected), "{message}");
    } else {
        test_data::impossible("`/proc/locks` shows no locks here");
    }
    // Both go on to their ends.
    assert!(events.any(|event| event.contains("run_finished")) && messages.any(|event| event.contains("run_finished")));
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
}

#[test]
fn a_damaged_part_is_an_error_and_the_next_run_rebuilds_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let store = folder.path().join("store");
    assert!(pairloom().args(["run", "--quiet", "--store"]).arg(&store).arg(&file).status().unwrap().success());
    let whole = content(&store);
    let (name, bytes) = whole.iter().find(|(name, _)| name.contains("/features/")).unwrap();
    let mut flipped = bytes.clone();
    flipped[100] ^= 4;
    std::fs::write(store.join(name), flipped).unwrap();
    // Another training reads the part.
    let other = pipeline(folder.path(), "other.toml", |text| text.replace("epochs = 2", "epochs = 1"));
    let output = pairloom().args(["run", "--quiet", "--store"]).arg(&store).arg(&other).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("part-00000.parquet") && stderr.contains("damaged") && stderr.contains("hint"), "{stderr}");
    assert!(pairloom().args(["run", "--quiet", "--store"]).arg(&store).arg(&other).status().unwrap().success());
    assert_eq!(content(&store)[name], *bytes);
    // No stage reads the last table. A check of all content finds its damage, and a run mends it.
    let (name, bytes) = whole.iter().find(|(name, _)| name.contains("/summary/")).unwrap();
    let verify = || pairloom().args(["verify", "--store"]).arg(&store).arg("--pipeline").arg(&file).output().unwrap();
    let sound = verify();
    assert_eq!(sound.status.code(), Some(0), "{}", String::from_utf8_lossy(&sound.stderr));
    std::fs::write(store.join(name), vec![0; bytes.len()]).unwrap();
    let damaged = verify();
    assert_eq!(damaged.status.code(), Some(3));
    let (found, message) = (String::from_utf8_lossy(&damaged.stdout), String::from_utf8_lossy(&damaged.stderr));
    assert!(found.contains("summary/part-00000.parquet` is damaged: its digest differs"), "{found}");
    assert!(message.contains("1 of") && message.contains("a run rebuilds damaged results"), "{message}");
    assert!(pairloom().args(["run", "--quiet", "--store"]).arg(&store).arg(&file).status().unwrap().success());
    assert_eq!(content(&store)[name], *bytes);
    assert_eq!(verify().status.code(), Some(0));
    // The model of a training is zeros: a check of all content finds it, as does a stage that reads it.
    let is_of_file =
        |folder: &Path| std::fs::read_to_string(folder.join("manifest.json")).unwrap().contains("\"epochs\":2,");
    let mut folders = std::fs::read_dir(store.join("v1/train")).unwrap().map(|entry| entry.unwrap().path());
    let model = folders.find(|folder| is_of_file(folder)).unwrap().join("model/model.safetensors");
    let bytes = std::fs::read(&model).unwrap();
    std::fs::write(&model, vec![0; bytes.len()]).unwrap();
    let damaged = verify();
    assert_eq!(damaged.status.code(), Some(3));
    let found = String::from_utf8_lossy(&damaged.stdout);
    assert!(found.contains("model/model.safetensors` is damaged: its digest differs"), "{found}");
    assert!(pairloom().args(["run", "--quiet", "--store"]).arg(&store).arg(&file).status().unwrap().success());
    assert!(std::fs::read(&model).unwrap() == bytes, "another model");
    std::fs::write(&model, vec![0; bytes.len()]).unwrap();
    let reader = pipeline(folder.path(), "reader.toml", |text| {
        text.replace("splits = [\"test\"]", "splits = [\"test\", \"val\"]")
    });
    let output = pairloom().args(["run", "--quiet", "--store"]).arg(&store).arg(&reader).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("model/model.safetensors") && stderr.contains("damaged"), "{stderr}");
    assert!(pairloom().args(["run", "--quiet", "--store"]).arg(&store).arg(&file).status().unwrap().success());
    assert!(std::fs::read(&model).unwrap() == bytes, "another model");
    assert_eq!(verify().status.code(), Some(0));
}

#[test]
fn a_run_with_48_open_files_gives_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let run = |store: &Path, files: &str| {
        let program = pairloom();
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", files]).arg(program.get_program());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.args(["run", "--quiet", "--store"]).arg(store).arg(&file);
        command.output().unwrap()
    };
    let (few, usual) = (folder.path().join("few"), folder.path().join("usual"));
    for (store, files) in [(&few, "48"), (&usual, "1024")] {
        let output = run(store, files);
        assert!(output.status.success(), "{files}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_same_content(&content(&few), &content(&usual));
    // Too few for any run.
    let output = run(&folder.path().join("none"), "12");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(3 | 4)) && stderr.contains("Too many open files"), "{stderr}");
}
