//! Tests of runs whose calls of the file system fail: `faults.c`, a library under the process, lets them fail by a seed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regex::Regex;

use crate::support::{assert_same_content, content, number_of, pairloom, tiny_pipeline};

/// Seeds of a test; `PAIRLOOM_FAULT_SEEDS` asks for more.
const SEEDS: u64 = 2;

/// Exit codes of errors: the command line or a file that it names, data, a stage or the store.
const ERRORS: [i32; 3] = [2, 3, 4];

/// Compiles the library.
fn library(folder: &Path) -> PathBuf {
    let library = folder.join("faults.so");
    let source = test_data::root().join("tests/it/faults.c");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler).args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).output();
    let output = output.expect("the C compiler of the build is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// Run of a pipeline file in a folder of its own, in which some calls fail.
struct FaultyRun {
    folder: PathBuf,
    file: PathBuf,
}

impl FaultyRun {
    fn new(folder: PathBuf) -> Self {
        std::fs::create_dir_all(&folder).unwrap();
        let file = tiny_pipeline(&folder);
        Self { folder, file }
    }

    fn command(&self) -> Command {
        let mut command = pairloom();
        command.args(["run", "--no-progress", "--threads", "2", "--store"]).arg(self.store()).arg(&self.file);
        command.env("PAIRLOOM_CACHE", self.folder.join("shards"));
        command
    }

    fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// Runs with the faults of a seed: `hard` of a million calls fail, and 20,000 are only slow, short or interrupted. Returns
    /// the log.
    fn with_faults(&self, library: &Path, seed: u64, hard: u64) -> (Output, Vec<String>) {
        let log = self.folder.with_extension("log");
        let mut command = self.command();
        command.env("LD_PRELOAD", library).env("FAULTS_FOLDER", &self.folder).env("FAULTS_LOG", &log);
        command.env("FAULTS_SEED", seed.to_string()).env("FAULTS_HARD", hard.to_string()).env("FAULTS_SOFT", "20000");
        let output = command.output().unwrap();
        let log = std::fs::read_to_string(log).unwrap_or_default();
        (output, log.lines().map(str::to_owned).collect())
    }
}

/// Kind of a fault and how it shows, of a line of the log.
fn kind(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    format!("{} {}", words[0], words[words.len() - 1])
}

/// A run ends with an error that says what failed, or with the right result; and the next run gives the same bytes as an
/// undisturbed one.
#[test]
fn a_run_whose_file_calls_fail_ends_with_an_error_and_the_next_run_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    let whole = FaultyRun::new(folder.path().join("whole"));
    let output = whole.command().output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let wanted = content(&whole.store());
    let (mut faults, mut codes) = (BTreeMap::<String, usize>::new(), BTreeMap::<i32, usize>::new());
    let seeds = number_of("PAIRLOOM_FAULT_SEEDS").unwrap_or(SEEDS);
    for seed in 0..seeds {
        let run = FaultyRun::new(folder.path().join(seed.to_string()));
        // Few faults reach the last stages, many show what follows from several.
        let (output, log) = run.with_faults(&library, seed, [50, 150, 400][usize::try_from(seed % 3).unwrap()]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let place = format!("seed {seed}, {log:?}\n{stderr}");
        let code = output.status.code().unwrap_or_else(|| panic!("a signal ended {place}"));
        let failed = log.iter().any(|line| line.split(' ').next_back().is_some_and(|what| what.starts_with('E')));
        assert!(code == 0 || (failed && ERRORS.contains(&code)), "exit code {code}, {place}");
        let said = stderr.lines().any(|line| line.starts_with("error: ") && line.len() > 20);
        assert!((code == 0 || said) && !stderr.contains("panicked"), "{place}");
        if code == 0 {
            assert_same_content(&content(&run.store()), &wanted);
        }
        let output = run.command().output().unwrap();
        assert!(output.status.success(), "{}\nafter {place}", String::from_utf8_lossy(&output.stderr));
        assert_same_content(&content(&run.store()), &wanted);
        for line in &log {
            *faults.entry(kind(line)).or_default() += 1;
        }
        *codes.entry(code).or_default() += 1;
        std::fs::remove_dir_all(&run.folder).unwrap();
    }
    println!("{} faults in {seeds} runs: {faults:?}; exit codes {codes:?}", faults.values().sum::<usize>());
    assert!(!faults.is_empty(), "no call failed");
}

/// Pipeline file of a session, which stands for its path in a command.
const FILE: &str = "one.toml";

/// Commands of a session over one store. Each has one thread that calls the file system: a stage at a time, without sources,
/// whose age would matter. The second run has another result, which makes that of the first one garbage.
const SESSION: [&[&str]; 6] = [
    &["run", "--quiet", FILE],
    &["run", "--quiet", "--set", "stage.pairs.ingest.synthetic.seed=8", FILE],
    &["verify", "--all"],
    &["sql", "--format", "csv", "SELECT * FROM pairs.captions ORDER BY caption_id"],
    &["tag", "latest", "paper"],
    &["gc", "--quiet", "--delete", "--keep-runs", "1"],
];

/// Result of a command of a session.
#[derive(Debug, PartialEq)]
struct CommandResult {
    code: Option<i32>,
    /// Empty for a list of results with their ages.
    stdout: String,
    /// Messages, without the names of runs, which have times and random digits in them.
    stderr: String,
    /// Log of the faults.
    faults: String,
}

/// Names of the parts of a store that are not wanted, or not with these bytes.
fn other_parts<'c>(got: &'c BTreeMap<String, Vec<u8>>, wanted: &BTreeMap<String, Vec<u8>>) -> Vec<&'c String> {
    let other = got.iter().filter(|(name, bytes)| wanted.get(*name) != Some(*bytes));
    other.map(|(name, _)| name).collect()
}

/// Writes a pipeline file with one stage.
fn one_stage(file: &Path) {
    let stage = "[stage.pairs.ingest]\nsynthetic = { train = 8, val = 2, test = 2, pixels = 32 }\n";
    std::fs::write(file, stage).unwrap();
}

/// Runs the first `commands` commands of the session in `folder`, with the faults of a seed if there is one. Returns each
/// result with the content of the store after it.
fn session(
    folder: &Path,
    commands: usize,
    faults: Option<(&Path, u64)>,
) -> Vec<(CommandResult, BTreeMap<String, Vec<u8>>)> {
    let name_of_run = Regex::new(r"20\d{6}T\d{6}\.\d{3}Z-[0-9a-f]{4}|`[0-9a-f]{4}`").unwrap();
    let (file, store, log) = (folder.join(FILE), folder.join("store"), folder.with_extension("log"));
    std::fs::create_dir_all(folder).unwrap();
    one_stage(&file);
    let run = |number: usize, arguments: &[&str]| {
        let mut command = pairloom();
        for argument in arguments {
            command.arg(if *argument == FILE { file.as_os_str() } else { OsStr::new(argument) });
        }
        command.args(["--threads", "1", "--store"]).arg(&store).env("PAIRLOOM_CACHE", folder.join("shards"));
        if let Some((library, seed)) = faults {
            let hard: u64 = [1000, 3000, 300][usize::try_from(seed % 3).unwrap()];
            command.env("LD_PRELOAD", library).env("FAULTS_FOLDER", folder).env("FAULTS_LOG", &log);
            command.env("FAULTS_SEED", (10 * seed + number as u64).to_string());
            command.env("FAULTS_HARD", hard.to_string()).env("FAULTS_SOFT", "20000");
        }
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| name_of_run.replace_all(&String::from_utf8_lossy(bytes), "RUN").into_owned();
        let faults = std::fs::read_to_string(&log).unwrap_or_default();
        if log.exists() {
            std::fs::remove_file(&log).unwrap();
        }
        let stdout = if arguments[0] == "gc" { String::new() } else { text(&output.stdout) };
        let result = CommandResult { code: output.status.code(), stdout, stderr: text(&output.stderr), faults };
        let tables = if store.exists() { content(&store) } else { BTreeMap::new() };
        (result, tables)
    };
    SESSION.iter().take(commands).enumerate().map(|(number, &arguments)| run(number, arguments)).collect()
}

/// A process with one thread makes the same calls each time, so the same seed gives it the same faults in the same order,
/// and the same end. A run with threads meets the same faults only up to its first error.
#[test]
fn a_session_meets_the_same_faults_twice_and_what_survives_them_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    let place = folder.path().join("session");
    let whole = session(&place, SESSION.len(), None);
    for (result, _) in &whole {
        assert_eq!(result.code, Some(0), "{}", result.stderr);
    }
    std::fs::remove_dir_all(&place).unwrap();
    let (first, both) = (&whole[0].1, &whole[1].1);
    let second: Vec<&String> = both.keys().filter(|name| !first.contains_key(*name)).collect();
    assert!(!first.is_empty() && second.len() == first.len(), "{:?}", both.keys());
    let (mut faults, mut codes) = (BTreeMap::<String, usize>::new(), BTreeMap::<Option<i32>, usize>::new());
    let seeds = number_of("PAIRLOOM_FAULT_SEEDS").unwrap_or(SEEDS);
    for seed in 0..seeds {
        let one = session(&place, SESSION.len(), Some((library.as_path(), seed)));
        std::fs::remove_dir_all(&place).unwrap();
        let two = session(&place, SESSION.len(), Some((library.as_path(), seed)));
        let has_both = one[..2].iter().all(|(result, _)| result.code == Some(0));
        for (number, ((result, got), (again, got_again))) in one.iter().zip(&two).enumerate() {
            let command = format!("seed {seed}, {}", SESSION[number].join(" "));
            assert_eq!(result, again, "{command}");
            assert_same_content(got_again, got);
            let has_ended = result.code.is_some_and(|code| code == 0 || ERRORS.contains(&code));
            assert!(has_ended && !result.stderr.contains("panicked"), "{command}: {result:?}");
            let failed = result.faults.lines().any(|line| kind(line).contains(" E"));
            let said = result.stderr.lines().any(|line| line.starts_with("error: ") && line.len() > 20);
            // Without an error of the disk, a command fails only for what an earlier one left.
            assert!(result.code == Some(0) || (said && (failed || number > 1)), "{command}: {result:?}");
            // Also what a failed run has published is right.
            assert_eq!(other_parts(got, both), [""; 0], "{command}");
            let is_there = match number {
                0 => first.keys().all(|name| got.contains_key(name)),
                1 => second.iter().all(|name| got.contains_key(*name)),
                // The latest run keeps its result, and so does its tag.
                5 if has_both => second.iter().all(|name| got.contains_key(*name)),
                _ => true,
            };
            assert!(result.code != Some(0) || is_there, "{command}: {:?}", got.keys());
            // A record that cannot be read is an error.
            if number == 3 && has_both && result.code == Some(0) {
                assert_eq!(result.stdout, whole[3].0.stdout, "{command}: {result:?}");
            }
            for line in result.faults.lines() {
                *faults.entry(kind(line)).or_default() += 1;
            }
            *codes.entry(result.code).or_default() += 1;
        }
        // Without faults, the runs go on from whatever is left.
        for (result, got) in session(&place, 2, None) {
            assert_eq!(result.code, Some(0), "after seed {seed}: {}", result.stderr);
            assert_eq!(other_parts(&got, both), [""; 0], "after seed {seed}");
        }
        assert_same_content(&content(&place.join("store")), both);
        std::fs::remove_dir_all(&place).unwrap();
    }
    println!("{} faults in {seeds} sessions: {faults:?}; exit codes {codes:?}", faults.values().sum::<usize>());
    assert!(faults.keys().any(|kind| kind.contains(" E")), "no call failed: {faults:?}");
}

/// The file system may refuse to say whether there is a store. Then nothing is said about its runs.
#[test]
fn a_store_that_cannot_be_looked_at_is_an_error_and_not_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(FILE);
    one_stage(&file);
    let store = folder.path().join("store");
    std::fs::create_dir(&store).unwrap();
    // A link to itself.
    std::os::unix::fs::symlink("v1", store.join("v1")).unwrap();
    for (command, file) in [("plan", Some(&file)), ("runs", None)] {
        let output = pairloom().arg(command).args(file).arg("--store").arg(&store).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{stderr}");
        assert!(stderr.contains("cannot look at `") && stderr.contains("store/v1`: "), "{stderr}");
    }
}
