//! Tests of the command line, run as a process.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Program that people type.
pub(crate) fn program() -> PathBuf {
    test_data::program("pairloom")
}

/// Program that runs stages with tensors.
fn torch_program() -> PathBuf {
    test_data::program("pairloom-torch")
}

/// Program for SQL, its server, and clusters.
fn sql_program() -> PathBuf {
    test_data::program("pairloom-sql")
}

/// Pipeline of synthetic images only, without sources.
pub(crate) const SYNTHETIC: &str = "[stage.pairs.ingest]\nsynthetic = { train = 4, val = 2, test = 2, pixels = 32 }\n";

/// Command in `folder`, with an empty environment.
pub(crate) fn command(program: &Path, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(folder).args(arguments).stdin(Stdio::null());
    command
}

pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(&program(), folder, arguments).output().expect("the program starts")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("stdout is text")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("stderr is text")
}

pub(crate) fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "stdout: {}\nstderr: {}", stdout(output), stderr(output));
}

/// Creates a folder with the pipeline file `p.toml`.
pub(crate) fn folder(pipeline: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("p.toml"), pipeline).expect("a file");
    folder
}

pub(crate) fn json_lines(output: &Output) -> Vec<serde_json::Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn only_a_run_of_stages_with_tensors_hands_over_to_pairloom_torch() {
    let folder = folder(&format!("{SYNTHETIC}\n[[expect]]\nsql = \"SELECT count(*) FROM pairs.images\"\nequals = 8\n"));
    let first = run(folder.path(), &["run", "p.toml"]);
    assert_code(&first, 0);
    assert!(stderr(&first).contains("expectation held: 8, expected exactly 8"), "{}", stderr(&first));
    assert_eq!(stdout(&first), "", "stdout is for data");
    // In a folder without `pairloom-torch`.
    let alone = folder.path().join("alone");
    fs::copy(program(), &alone).expect("a copy");
    let without_sql = command(&alone, folder.path(), &["run", "p.toml"]).output().expect("starts");
    assert_code(&without_sql, 2);
    assert!(stderr(&without_sql).contains("--package pairloom-sql`"), "{}", stderr(&without_sql));
    fs::copy(sql_program(), folder.path().join("pairloom-sql")).expect("a copy");
    let second = command(&alone, folder.path(), &["run", "p.toml"]).output().expect("starts");
    assert_code(&second, 0);
    assert!(stderr(&second).contains("0 of 1 stage ran"), "{}", stderr(&second));
    let other = command(&alone, folder.path(), &["run", "p.toml", "--set", "seed=5"]).output();
    let other = other.expect("starts");
    assert_code(&other, 0);
    assert!(stderr(&other).contains("1 of 1 stage ran"), "{}", stderr(&other));
    let extract = "[stage.cnn.extract]\nimages = \"pairs.images\"\nnetwork = \"squeezenet1_0\"\nweights = \"random\"\n";
    fs::write(folder.path().join("tensors.toml"), format!("{SYNTHETIC}\n{extract}")).expect("a pipeline");
    let tensors = command(&alone, folder.path(), &["run", "tensors.toml"]).output();
    let tensors = tensors.expect("starts");
    assert_code(&tensors, 2);
    assert!(stderr(&tensors).contains("--package pairloom-torch`"), "{}", stderr(&tensors));
}

#[test]
fn programs_of_different_builds_are_refused() {
    let folder = folder(SYNTHETIC);
    for (program, arguments) in [(torch_program(), &["run", "p.toml"][..]), (sql_program(), &["sql", "SELECT 1"])] {
        let mut stale = command(&program, folder.path(), arguments);
        let output = stale.env("PAIRLOOM_HANDED_OVER_BY", "0123456789abcdef").output().expect("starts");
        assert_code(&output, 2);
        assert!(stderr(&output).contains("different builds"), "{}", stderr(&output));
    }
}

#[test]
fn values_of_tables_are_expected_without_queries() {
    let expect = "[[expect]]\ntable = \"pairs.captions\"\ncolumn = \"image_id\"\n";
    // In a folder without the other programs: no query needs them.
    let folder = folder(&format!("{SYNTHETIC}\n{expect}where = {{ caption_id = 5 }}\nequals = 1\n"));
    let alone = folder.path().join("alone");
    fs::copy(program(), &alone).expect("a copy");
    let checked = command(&alone, folder.path(), &["check", "p.toml"]).output().expect("starts");
    assert_code(&checked, 0);
    assert!(!stderr(&checked).contains("not checked"), "{}", stderr(&checked));
    let first = run(folder.path(), &["run", "p.toml"]);
    assert_code(&first, 0);
    assert!(stderr(&first).contains("expectation held: 1, expected exactly 1"), "{}", stderr(&first));
    for (conditions, message) in [
        ("where = { caption_id = 5000 }\n", "no row of `pairs.captions` has these values, expected exactly one"),
        ("where = { image_id = 1 }\n", "rows of `pairs.captions` have these values, expected exactly one"),
    ] {
        let text = format!("{SYNTHETIC}\n{expect}{conditions}equals = 1\n");
        fs::write(folder.path().join("p.toml"), text).expect("a file");
        let wrong = run(folder.path(), &["run", "p.toml"]);
        assert_code(&wrong, 2);
        assert!(stderr(&wrong).contains(message), "{}", stderr(&wrong));
    }
}

#[test]
fn queries_that_cannot_be_checked_are_noted() {
    let folder = folder(&format!("{SYNTHETIC}\n[[expect]]\nsql = \"SELECT count(*) FROM pairs.image\"\nequals = 8\n"));
    let alone = folder.path().join("alone");
    fs::copy(program(), &alone).expect("a copy");
    let checked = command(&alone, folder.path(), &["check", "p.toml"]).output().expect("starts");
    assert_code(&checked, 0);
    let text = stderr(&checked);
    assert!(
        text.contains("queries of `[[expect]]` were not checked") && text.contains("--package pairloom-sql`"),
        "{text}"
    );
    for (arguments, package) in [
        (&["sql", "SELECT 1"][..], "pairloom-sql`"),
        (&["cluster", "scheduler"], "pairloom-sql --features flight,cluster`"),
    ] {
        let output = command(&alone, folder.path(), arguments).output().expect("starts");
        assert_code(&output, 2);
        assert!(stderr(&output).contains(&format!("--package {package}")), "{}", stderr(&output));
    }
}

#[test]
fn a_failed_expectation_has_exit_code_1() {
    let folder =
        folder(&format!("{SYNTHETIC}\n[[expect]]\nsql = \"SELECT count(*) FROM pairs.images\"\nat_least = 9\n"));
    let output = run(folder.path(), &["run", "p.toml"]);
    assert_code(&output, 1);
    assert!(stderr(&output).contains("expectation did not hold: 8, expected at least 9"), "{}", stderr(&output));
    assert!(stderr(&output).contains("error: 1 of 1 expectation did not hold"));
}

#[test]
fn an_expectation_with_an_invalid_query_is_a_mistake_of_the_file() {
    let folder =
        folder(&format!("{SYNTHETIC}\n[[expect]]\nsql = \"SELECT count(*) FROM pairs.image\"\nat_least = 9\n"));
    for verb in ["run", "plan", "check"] {
        let output = run(folder.path(), &[verb, "p.toml", "--json"]);
        assert_code(&output, 2);
        assert!(stderr(&output).contains("p.toml:5:7"), "{}", stderr(&output));
        let fault = &json_lines(&output)[0];
        assert_eq!((&fault["line"], &fault["column"]), (&5.into(), &7.into()));
        assert_eq!(fault["hint"], "did you mean `pairs.images`?");
    }
    assert!(!folder.path().join("store").exists(), "no store is created for a file with mistakes");
}

#[test]
fn all_mistakes_of_the_file_are_reported_with_exit_code_2() {
    let folder = folder("sead = 1\n\n[stage.pairs.ingest]\nsynthetic = { train = \"x\", val = 2, test = 2 }\n");
    for verb in ["run", "plan", "check"] {
        let output = run(folder.path(), &[verb, "p.toml"]);
        assert_code(&output, 2);
        let text = stderr(&output);
        assert!(text.contains("p.toml:1:1") && text.contains("p.toml:4:23"), "{text}");
        assert!(text.contains("did you mean `seed`?") && text.contains("2 mistakes in `p.toml`"), "{text}");
        assert!(!text.contains('\u{1b}'), "no colours without a terminal: {text:?}");
    }
    let coloured = run(folder.path(), &["check", "p.toml", "--color", "always"]);
    assert!(stderr(&coloured).contains("\u{1b}[1;31merror\u{1b}[0m"));
    let json = json_lines(&run(folder.path(), &["check", "p.toml", "--json"]));
    assert_eq!((&json[0]["line"], &json[0]["column"], &json[0]["event"]), (&1.into(), &1.into(), &"fault".into()));
    assert_eq!((&json[1]["line"], &json[1]["column"]), (&4.into(), &23.into()));
}

#[test]
fn usage_errors_and_missing_files_have_exit_code_2() {
    let folder = folder(SYNTHETIC);
    assert_code(&run(folder.path(), &["run"]), 2);
    assert_code(&run(folder.path(), &["fly"]), 2);
    assert_code(&run(folder.path(), &["run", "p.toml", "--device", "abacus"]), 2);
    assert_code(&run(folder.path(), &["run", "p.toml", "--memory", "lots"]), 2);
    assert_code(&run(folder.path(), &["run", "gone.toml"]), 2);
    let swapped = run(folder.path(), &["plan", "p.toml", "--store", "p.toml"]);
    assert_code(&swapped, 2);
    assert!(stderr(&swapped).contains("`--store` is `p.toml`, which is a file"), "{}", stderr(&swapped));
    assert_code(&run(folder.path(), &["run", "p.toml", "--set", "stage.pears.ingest.x=1"]), 2);
}

#[test]
fn check_does_not_need_the_sources_and_plan_does() {
    let folder = folder("[stage.pairs.ingest]\nkarpathy = { json = \"${NOT_SET}/x.json\", images = \"gone\" }\n");
    let checked = run(folder.path(), &["check", "p.toml"]);
    assert_code(&checked, 0);
    assert_eq!(stderr(&checked), "`p.toml` is valid: 1 stage\n");
    let planned = run(folder.path(), &["plan", "p.toml"]);
    assert_code(&planned, 2);
    assert!(
        stderr(&planned).contains("p.toml:2:21") && stderr(&planned).contains("p.toml:2:51"),
        "{}",
        stderr(&planned)
    );
}

#[test]
fn plan_reports_the_changed_setting() {
    let folder = folder(SYNTHETIC);
    let before = run(folder.path(), &["plan", "p.toml"]);
    assert_code(&before, 0);
    assert!(stdout(&before).contains("there is no earlier result"), "{}", stdout(&before));
    assert!(stderr(&before).starts_with("there is no store at `store` yet\n"), "{}", stderr(&before));
    assert!(!folder.path().join("store").exists(), "a plan writes nothing");
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    let reused = json_lines(&run(folder.path(), &["plan", "p.toml", "--json"]));
    assert_eq!(reused[0]["verdict"], "reused");
    let changed =
        json_lines(&run(folder.path(), &["plan", "p.toml", "--json", "--set", "stage.pairs.ingest.synthetic.train=5"]));
    assert_eq!(changed[0]["verdict"], "run");
    assert_eq!(changed[0]["reasons"], serde_json::json!(["synthetic.train: 4 → 5"]));
}

#[test]
fn events_are_json_lines() {
    let folder = folder(SYNTHETIC);
    let events = json_lines(&run(folder.path(), &["run", "p.toml", "--json"]));
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str().expect("a name")).collect();
    assert_eq!(names.first(), Some(&"run_started"));
    assert_eq!(events[0]["stages"], serde_json::json!(["pairs"]));
    let started = events.iter().find(|event| event["event"] == "stage_started").expect("a stage ran");
    assert_eq!(started["reasons"], serde_json::json!(["there is no earlier result"]));
    assert!(names.contains(&"stage_started") && names.contains(&"part_committed"), "{names:?}");
    assert_eq!(names.last(), Some(&"run_finished"));
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let folder = folder(SYNTHETIC);
    let to_full_disk = |arguments: &[&str]| {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device that is always full");
        command(&program(), folder.path(), arguments).stdout(full).output().expect("starts")
    };
    let first = to_full_disk(&["run", "p.toml", "--json"]);
    assert_code(&first, 4);
    let message = "of its events are lost: cannot write to stdout: No space left on device";
    assert!(stderr(&first).contains(message), "{}", stderr(&first));
    // The run came to its end all the same.
    let shown = run(folder.path(), &["show", "latest"]);
    assert!(stdout(&shown).contains("outcome   finished"), "{}", stdout(&shown));
    for arguments in [
        &["run", "p.toml", "--json"][..],
        &["runs"],
        &["plan", "p.toml"],
        &["verify", "--json"],
        &["completions", "bash"],
    ] {
        assert_code(&to_full_disk(arguments), 4);
    }
    // The first error counts.
    let failed = to_full_disk(&["run", "p.toml", "--json", "--set", "stage.pairs.ingest.synthetic.pixels=0"]);
    assert_code(&failed, 2);
}

#[test]
fn a_run_that_only_reuses_results_needs_no_store_that_can_be_written() {
    let folder = folder(SYNTHETIC);
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    let alone = folder.path().join("alone");
    fs::copy(program(), &alone).expect("a copy");
    for entry in walkdir::WalkDir::new(folder.path()) {
        let entry = entry.expect("an entry");
        let is_open = entry.file_type().is_dir() || entry.path() == alone;
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(if is_open { 0o555 } else { 0o444 }))
            .expect("set");
    }
    let as_reader = |arguments: &[&str]| {
        let mut reader = command(&alone, folder.path(), arguments);
        // Root writes everywhere, so it becomes nobody.
        if fs::metadata("/proc/self").expect("a process").uid() == 0 {
            reader.uid(65_534).gid(65_534);
        }
        reader.output().expect("starts")
    };
    let runs = || fs::read_dir(folder.path().join("store/v1/runs")).expect("a folder").count();
    let reused = as_reader(&["run", "p.toml"]);
    assert_code(&reused, 0);
    let text = stderr(&reused);
    assert!(text.contains("all results are there, but the run is not recorded: cannot open the lock"), "{text}");
    assert!(text.ends_with("0 of 1 stage ran, 1 reused\n"), "{text}");
    assert_eq!(runs(), 1);
    let other = as_reader(&["run", "p.toml", "--set", "seed=3"]);
    assert_code(&other, 3);
    assert!(stderr(&other).contains("cannot open the lock"), "{}", stderr(&other));
    for entry in walkdir::WalkDir::new(folder.path()).into_iter().flatten().filter(|entry| entry.file_type().is_dir()) {
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o755)).expect("set");
    }
}

#[test]
fn a_device_that_does_not_exist_is_an_error_before_the_first_stage() {
    let extract = "[stage.cnn.extract]\nimages = \"pairs.images\"\nnetwork = \"squeezenet1_0\"\nweights = \"random\"\n";
    let folder = folder(&format!("{SYNTHETIC}\n{extract}"));
    let on_device = || {
        let output = run(folder.path(), &["run", "p.toml", "--device", "cuda:99"]);
        assert_code(&output, 2);
        assert!(stderr(&output).starts_with("error: device `cuda:99` does not exist: "), "{}", stderr(&output));
    };
    on_device();
    assert!(!folder.path().join("store/v1/ingest").exists(), "no stage has run");
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    on_device();
}

#[test]
fn a_stage_that_only_waits_for_one_that_fails_has_no_lines() {
    let ingest = "[stage.pairs.ingest.image_folder]\nimages = \".\"\ncaptions = \"c.csv\"\nsplit = \"train\"\n";
    let folder = folder(&format!("{ingest}[stage.words.build_concepts]\ncaptions = \"pairs.captions\"\n"));
    fs::write(folder.path().join("c.csv"), "file_name,caption\na.jpg,\n").expect("a table");
    let failed = run(folder.path(), &["run", "p.toml"]);
    assert_code(&failed, 3);
    let text = stderr(&failed);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("0 of 2 stages ran in ") && lines[2].starts_with("error: stage `pairs`: "), "{text}");
}

#[test]
fn an_expectation_about_a_changed_setting_is_not_checked() {
    let folder = folder(&format!("{SYNTHETIC}\n[[expect]]\nsql = \"SELECT count(*) FROM pairs.images\"\nequals = 8\n"));
    let changed = "stage.pairs.ingest.synthetic.train=2";
    let output = run(folder.path(), &["run", "p.toml", "--set", changed]);
    assert_code(&output, 0);
    let note =
        format!("expectation not checked, as `--set {changed}` changes what it is about: exactly 8: SELECT count(*)");
    assert!(stderr(&output).contains(&note), "{}", stderr(&output));
    let json = run(folder.path(), &["run", "p.toml", "--set", changed, "--json"]);
    assert_code(&json, 0);
    let last = json_lines(&json).pop().expect("an event");
    assert_eq!((&last["event"], &last["held"]), (&"expectation".into(), &serde_json::Value::Null));
    assert_eq!(last["skipped_because"], format!("--set {changed}"));
    assert_code(&run(folder.path(), &["run", "p.toml", "--set", changed, "--set", "expect.0.equals=7"]), 1);
    assert_code(&run(folder.path(), &["run", "p.toml", "--set", changed, "--set", "expect.0.equals=6"]), 0);
}

#[test]
fn options_can_be_environment_variables() {
    let folder = folder(SYNTHETIC);
    let mut quiet = command(&program(), folder.path(), &["run", "p.toml"]);
    let output = quiet.env("PAIRLOOM_QUIET", "1").env("PAIRLOOM_STORE", "elsewhere").output().expect("starts");
    assert_code(&output, 0);
    assert_eq!((stdout(&output), stderr(&output)), (String::new(), String::new()));
    assert!(folder.path().join("elsewhere/v1/runs").is_dir() && !folder.path().join("store").exists());
}

#[test]
fn query_results_in_every_format() {
    let folder = folder(SYNTHETIC);
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    let query = "SELECT split, count(*) AS n FROM pairs.images GROUP BY split ORDER BY split";
    let csv = run(folder.path(), &["sql", query, "--format", "csv"]);
    assert_code(&csv, 0);
    assert_eq!(stdout(&csv), "split,n\ntest,2\ntrain,4\nval,2\n");
    assert!(stderr(&csv).starts_with("run 20") && stderr(&csv).ends_with(" of p.toml\n"), "{}", stderr(&csv));
    let named = run(folder.path(), &["sql", query, "--pipeline", "p"]);
    assert_eq!(stderr(&named), "", "the run is named on the command line");
    let json: serde_json::Value =
        serde_json::from_slice(&run(folder.path(), &["sql", query, "--format", "json"]).stdout).expect("JSON");
    assert_eq!(json[1], serde_json::json!({ "split": "train", "n": 4 }));
    assert!(stdout(&run(folder.path(), &["sql", query])).contains("| train | 4 |"));
    assert_code(&run(folder.path(), &["sql", query, "--output", "own.csv"]), 0);
    // The file stays unless it may be replaced, and after a failure.
    assert_code(&run(folder.path(), &["sql", "SELECT 1 AS one", "--output", "own.csv"]), 2);
    let failing = "SELECT 1 / (n - n) AS x FROM (SELECT count(*) AS n FROM pairs.images)";
    assert_ne!(run(folder.path(), &["sql", failing, "--output", "own.csv", "--force"]).status.code(), Some(0));
    assert_eq!(fs::read_to_string(folder.path().join("own.csv")).expect("a file"), "split,n\ntest,2\ntrain,4\nval,2\n");
    let parts = fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    assert!(parts.into_iter().all(|name| !name.to_string_lossy().ends_with(".part")));
    assert_code(&run(folder.path(), &["sql", query, "--output", "own.csv", "--force"]), 0);
    // Commands of the shell are statements in other words.
    assert_eq!(run(folder.path(), &["sql", ".tables"]).stdout, run(folder.path(), &["sql", "SHOW TABLES"]).stdout);
    assert!(stdout(&run(folder.path(), &["sql", "\\d pairs.images"])).contains("image_id"));
    let join = "SELECT o.n + 1 AS more FROM own o WHERE split = 'val'";
    let joined = run(folder.path(), &["sql", join, "--file", "own=own.csv", "--format", "vertical"]);
    assert_eq!(stdout(&joined), "-- row 1\nmore | 3\n");
    assert_code(&run(folder.path(), &["sql", query, "--output", "answer.parquet"]), 0);
    assert!(fs::read(folder.path().join("answer.parquet")).expect("a file").starts_with(b"PAR1"));
    let mut piped = command(&program(), folder.path(), &["sql", "--json"]);
    let mut child = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("stdin"), query.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ends");
    let lines = json_lines(&output);
    assert_eq!(lines[0], serde_json::json!({ "split": "test", "n": 2 }));
    assert_code(&run(folder.path(), &["sql", "SELECT * FROM pairs.image"]), 2);
    assert_code(&run(folder.path(), &["--store", "gone", "sql", query]), 3);
    fs::create_dir(folder.path().join("empty")).expect("a folder");
    assert_code(&run(folder.path(), &["--store", "empty", "sql", query]), 3);
    assert_code(&run(folder.path(), &["--store", "empty", "runs"]), 3);
    assert_eq!(fs::read_dir(folder.path().join("empty")).expect("a folder").count(), 0, "nothing is created");
    assert_code(&run(folder.path(), &["sql", query, "--output", "answer.xyz"]), 2);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = folder(SYNTHETIC);
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    let long = "SELECT a.text FROM pairs.captions a, pairs.captions b, pairs.captions c, pairs.captions d";
    for arguments in
        [vec!["sql", long, "--format", "csv", "--run", "latest"], vec!["schema"], vec!["completions", "bash"]]
    {
        let mut piped = command(&program(), folder.path(), &arguments);
        let mut child = piped.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("ends");
        assert_code(&output, 0);
        assert_eq!(stderr(&output), "", "{arguments:?}");
    }
}

#[test]
fn runs_are_listed_and_gc_removes_with_delete_only() {
    let folder = folder(SYNTHETIC);
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    assert_code(&run(folder.path(), &["run", "p.toml", "--set", "seed=5"]), 0);
    let runs = json_lines(&run(folder.path(), &["runs", "--json"]));
    assert_eq!(runs.len(), 2);
    assert!(runs[0]["started"].as_str() > runs[1]["started"].as_str(), "the latest comes first");
    assert!(stdout(&run(folder.path(), &["runs"])).contains("finished"));
    assert!(stderr(&run(folder.path(), &["gc"])).contains("nothing to remove"));
    let first = runs[1]["run"].as_str().expect("a name");
    assert_code(&run(folder.path(), &["tag", first, "base"]), 0);
    let sources =
        run(folder.path(), &["sql", "--run", "base", "SELECT count(*) AS n FROM pairs.images", "--format", "csv"]);
    assert_eq!(stdout(&sources), "n\n8\n");
    let shown = stdout(&run(folder.path(), &["show", "base"]));
    assert!(shown.contains("pairloom run p.toml") && shown.contains("base"), "{shown}");
    // The same file, named in another way, from another folder.
    fs::create_dir(folder.path().join("below")).expect("a folder");
    let by_path =
        run(&folder.path().join("below"), &["--store", "../store", "runs", "--json", "--pipeline", "../p.toml"]);
    assert_eq!(json_lines(&by_path).len(), 2, "{}", stderr(&by_path));
    let stage = json_lines(&run(folder.path(), &["show", "base", "pairs", "--json"]));
    assert_eq!((&stage[0]["stage"], &stage[0]["run"]), (&"pairs".into(), &runs[1]["run"]));
    for (arguments, message) in [
        (["tag", "base", "pairs"], "cannot be a tag: it is a stage of the run"),
        (["tag", "base", "p"], "cannot be a tag: it is the pipeline"),
        (["runs", "--where", "pairs.synthetic.sed=5"], "did you mean `pairs.synthetic.seed`?"),
        (["show", "base", "pair"], "did you mean `pairs`?"),
    ] {
        let refused = run(folder.path(), &arguments);
        assert_code(&refused, 2);
        assert!(stderr(&refused).contains(message), "{arguments:?}: {}", stderr(&refused));
    }
    let differences = &json_lines(&run(folder.path(), &["diff", "base", "latest", "--json"]))[0]["differences"];
    assert_eq!(differences[0]["subject"], "pairs.synthetic.seed", "{differences}");
    assert!(stderr(&run(folder.path(), &["gc", "--keep-runs", "1"])).contains("base"), "the tag keeps the first run");
    assert_code(&run(folder.path(), &["tag", "--remove", "base"]), 0);
    let would = json_lines(&run(folder.path(), &["gc", "--keep-runs", "1", "--json"]));
    assert_eq!((would.len(), &would[0]["removed"]), (1, &false.into()));
    // No other result has a part of it.
    assert!(would[0]["bytes"].as_u64() > Some(0) && would[0]["freed_bytes"] == would[0]["bytes"], "{}", would[0]);
    let name = would[0]["name"].as_str().expect("a name").to_owned();
    assert!(folder.path().join("store/v1").join(&name).is_dir(), "nothing is removed without `--delete`");
    assert_code(&run(folder.path(), &["gc", "--keep-runs", "1", "--delete"]), 0);
    assert!(!folder.path().join("store/v1").join(&name).exists());
    assert!(stderr(&run(folder.path(), &["gc", "--keep-runs", "1"])).contains("nothing to remove"));
    fs::write(folder.path().join("store/v1/runs/20990101T000000.000Z-abcd.json"), "{\"run\":").expect("a file");
    // The record that cannot be read may be that of the last run.
    for (arguments, code) in [
        (&["runs"][..], 0),
        (&["show", first], 0),
        (&["sql", "--run", first, "SELECT run FROM store.runs"], 0),
        (&["show"], 3),
        // It compares with the last run.
        (&["diff", first], 3),
        (&["sql", "SELECT run FROM store.runs"], 0),
        (&["sql", "SELECT count(*) FROM pairs.images"], 3),
        (&["sql", "--pipeline", "p.toml", "SELECT run FROM store.runs"], 3),
    ] {
        let output = run(folder.path(), arguments);
        assert_code(&output, code);
        assert_eq!(stderr(&output).contains("the last finished run is not known"), code == 3, "{}", stderr(&output));
        let warnings = stderr(&output).matches("warning: the record of a run cannot be read").count();
        assert_eq!((warnings, stderr(&output).contains("-abcd.json")), (1, true), "{}", stderr(&output));
    }
}

#[test]
fn a_report_without_a_run_has_exit_code_3() {
    let folder = folder(SYNTHETIC);
    assert_code(&run(folder.path(), &["report"]), 3);
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    let output = run(folder.path(), &["report"]);
    assert_code(&output, 3);
    assert!(stderr(&output).contains("no finished run has a stage of kind `report`"), "{}", stderr(&output));
}

#[test]
fn the_schema_is_the_committed_one() {
    let output = run(Path::new("."), &["schema"]);
    assert_code(&output, 0);
    let committed = fs::read_to_string(test_data::root().join("schemas/pipeline.schema.json")).expect("committed");
    assert_eq!(stdout(&output), committed);
}
