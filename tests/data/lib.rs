//! Data of tests: golden files and programs of this repository, and public data outside of it.
//!
//! A test whose data is absent prints `skipped: …` and passes. If [`DEMAND`] is set, as in CI, it fails.

#![expect(clippy::print_stdout, reason = "a skipped test prints a message")]

use std::ffi::OsStr;
use std::fmt::Display;
use std::path::{Path, PathBuf};

pub mod hubness;

/// Environment variable that makes absent data a failure.
pub const DEMAND: &str = "PAIRLOOM_REQUIRE_DATA";

/// Root folder of the checkout.
///
/// # Panics
/// If the package is not in a checkout.
pub fn root() -> &'static Path {
    static ROOT: std::sync::LazyLock<PathBuf> = std::sync::LazyLock::new(|| {
        // Read at run time, as several checkouts may share a target folder.
        let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&package).ancestors().find(|folder| folder.join("Cargo.lock").is_file());
        root.expect("the package is in a checkout").to_owned()
    });
    &ROOT
}

/// Path of a program of this workspace, in the build to which the running test or benchmark belongs.
///
/// # Panics
/// The program is not built.
pub fn program(name: &str) -> PathBuf {
    let running = std::env::current_exe().expect("a test is a program");
    // Tests and benchmarks are in the folder `deps` beside the programs.
    let folder = running.ancestors().nth(2).expect("a test is in a folder of the build");
    let program = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        program.is_file(),
        "no program `{}`: build it with `cargo build --workspace --bins`, and `--release` for a benchmark",
        program.display()
    );
    program
}

/// Path of a golden file.
pub fn golden(name: &str) -> PathBuf {
    root().join("tests/golden").join(name)
}

/// Content of a golden JSON file.
///
/// # Panics
/// If there is no such file.
pub fn golden_json(name: &str) -> serde_json::Value {
    let text = std::fs::read(golden(name)).expect("golden files are committed");
    serde_json::from_slice(&text).expect("the file is JSON")
}

/// Path of a file or folder of public data, in `PAIRLOOM_DATA` or else in `../shared/data` beside the checkout.
///
/// # Panics
/// If it is absent and [`DEMAND`] is set.
pub fn public(name: &str) -> Option<PathBuf> {
    let beside = || root().join("../shared/data");
    let path = std::env::var_os("PAIRLOOM_DATA").map_or_else(beside, PathBuf::from).join(name);
    let found = path.exists();
    if !found {
        absent(format!("no `{}` (set PAIRLOOM_DATA)", path.display()));
    }
    found.then_some(path)
}

/// Text of a file of public data.
///
/// # Panics
/// If it is absent and [`DEMAND`] is set.
pub fn public_text(name: &str) -> Option<String> {
    public(name).map(|path| std::fs::read_to_string(path).expect("public data are readable"))
}

/// Reports that a test is skipped because something that can be installed is absent.
///
/// # Panics
/// If [`DEMAND`] is set.
pub fn absent(what: impl Display) {
    let demanded = std::env::var_os(DEMAND).is_some_and(|value| value != OsStr::new("0") && !value.is_empty());
    assert!(!demanded, "{what}, and {DEMAND} is set");
    println!("skipped: {what}");
}

/// Number of random cases of a test that compares with a model: `cases`, or what `PAIRLOOM_MODEL_CASES` says.
///
/// # Panics
/// The variable is no number.
pub fn model_cases(cases: u32) -> u32 {
    let asked = std::env::var("PAIRLOOM_MODEL_CASES").ok();
    asked.map_or(cases, |cases| cases.parse().expect("`PAIRLOOM_MODEL_CASES` is a number"))
}

/// Reports that a test is skipped because this machine cannot run it, for example without a GPU, instructions or
/// permissions.
pub fn impossible(why: impl Display) {
    println!("skipped: {why}");
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// Child process of the other test, with its own environment.
    #[test]
    #[ignore = "another test runs it"]
    fn child() {
        let Some(path) = super::public("beside") else { return };
        println!("found {}", path.display());
    }

    #[test]
    fn absent_data_is_a_failure_if_demanded() {
        let child = |folder: &str, demand: Option<&str>| {
            let mut program = Command::new(std::env::current_exe().expect("this is a program"));
            program.args(["--ignored", "--exact", "tests::child", "--show-output"]).env("PAIRLOOM_DATA", folder);
            program.env_remove(super::DEMAND).envs(demand.map(|value| (super::DEMAND, value)));
            let output = program.output().expect("it can be started");
            (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        for demand in [None, Some(""), Some("0")] {
            let (passed, said) = child("nowhere", demand);
            assert!(passed && said.contains("skipped: no `nowhere/beside` (set PAIRLOOM_DATA)"), "{demand:?}: {said}");
        }
        let (passed, said) = child("nowhere", Some("1"));
        assert!(
            !passed && said.contains("no `nowhere/beside` (set PAIRLOOM_DATA), and PAIRLOOM_REQUIRE_DATA"),
            "{said}"
        );

        let folder = std::env::temp_dir().join(format!("test-data-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("beside")).expect("the temporary folder can be written");
        let (passed, said) = child(folder.to_str().expect("a plain name"), Some("1"));
        std::fs::remove_dir_all(&folder).expect("it can be removed");
        assert!(passed && said.contains("found "), "{said}");
    }
}
