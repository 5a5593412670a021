//! `cargo xtask wheel`: the Python package as a wheel, by maturin; and its check in an empty environment.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cached_folder::{cache, provide_with};
use crate::shell::{self, TaskError, TaskResult, print_message};

/// maturin with the hash of its wheel, which pip verifies.
const MATURIN: &str =
    "maturin==1.16.0 --hash=sha256:837db2f4d93d4899c3ac393fb3cc9eebf35b6002336e5d574f4a4fb6c49fe283\n";

/// Builds the wheel into `target/wheels/`, with all optimisations unless `debug`. Returns its path.
pub(crate) fn build(debug: bool) -> TaskResult<PathBuf> {
    let root = shell::root()?;
    let maturin = maturin()?;
    let wheels = root.join("target").join(if debug { "wheels-debug" } else { "wheels" });
    // A wheel of an earlier version would be another file in the folder.
    let _ = fs::remove_dir_all(&wheels);
    let mut command = Command::new(maturin.join("bin").join("maturin"));
    command.args(["build", "--locked", "--manifest-path", "src/python/Cargo.toml"]);
    command.args(["--profile", if debug { "dev" } else { "release" }]).arg("--out").arg(&wheels);
    shell::execute(command.current_dir(&root))?;
    let files = fs::read_dir(&wheels).map_err(TaskError::io("read", &wheels))?;
    let wheel =
        files.filter_map(|entry| Some(entry.ok()?.path())).find(|path| path.extension() == Some(OsStr::new("whl")));
    let wheel = wheel.ok_or_else(|| TaskError::new(format!("maturin wrote no wheel into `{}`", wheels.display())))?;
    let bytes = fs::metadata(&wheel).map_err(TaskError::io("read", &wheel))?.len();
    print_message(format!("{}: {} MB", wheel.display(), bytes / 1_000_000));
    Ok(wheel)
}

/// Builds the wheel without optimisations, installs it into an empty environment, and runs its tests there.
pub(crate) fn check() -> TaskResult {
    let wheel = build(true)?;
    let root = shell::root()?;
    let environment = root.join("target/wheel-environment");
    shell::execute(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    let python = environment.join("bin/python");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]);
    shell::execute(pip.arg(&wheel).args(["--requirement", "src/python/tests/requirements.txt"]).current_dir(&root))?;
    // Not from the root, where a folder could shadow the package.
    let tests = root.join("src/python/tests");
    shell::execute(Command::new(&python).args(["-m", "pytest", "--quiet"]).arg(&tests).current_dir(&environment))
}

fn maturin() -> TaskResult<PathBuf> {
    let folder = cache()?.join("maturin-1.16.0");
    provide_with(&folder, MATURIN, install)?;
    Ok(folder)
}

fn install(into: &Path) -> TaskResult {
    fs::create_dir_all(into).map_err(TaskError::io("create", into))?;
    let list = into.join("requirements.txt");
    fs::write(&list, MATURIN).map_err(TaskError::io("write", &list))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]);
    pip.args(["--require-hashes", "--no-warn-script-location", "--root-user-action=ignore"]);
    shell::execute(pip.arg("--target").arg(into).arg("--requirement").arg(&list))
}
