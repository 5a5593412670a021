//! Tests of runs whose calls of the file system fail: `faults.c`, a library under the process, lets them fail by a seed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{assert_same_content, content, number_of, pairloom, tiny_pipeline};

/// Seeds of a test; `PAIRLOOM_FAULT_SEEDS` asks for more.
const SEEDS: u64 = 2;

/// Exit codes of errors: the command line or a file that it names, data, a stage or the store.
const ERRORS: [i32; 3] = [2, 3, 4];

/// Compiles the library.
fn library(folder: &Path) -> PathBuf {
    let library = folder.join("faults.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/faults.c");
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

/// A command without threads meets the same faults each time. A run has threads and names with times and random numbers in
/// them: each of its calls has the same fate each time, but what it does after an error depends on its threads.
#[test]
fn the_same_seed_gives_the_same_faults() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    let of = |name: &str| {
        let run = FaultyRun::new(folder.path().join(name).join("run"));
        let mut log = run.with_faults(&library, 5, 0).1;
        log.retain(|line| !line.starts_with("create") && !line.starts_with("link"));
        log.sort();
        log
    };
    let (one, two) = (of("one"), of("two"));
    let equal = one.iter().filter(|line| two.binary_search(line).is_ok()).count();
    assert!(one.len() > 50 && 10 * equal >= 9 * one.len().max(two.len()), "{equal} of {} and {}", one.len(), two.len());
}
