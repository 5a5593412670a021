//! S3 server for tests: moto, a mock of AWS services that supports conditional writes, installed with pip into the
//! cache. Without it, the tests that need it are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::libtorch::{self, provide_with};
use crate::shell::{self, TaskError, TaskResult, print_message};

/// Environment variable with the folder of the server, for tests.
pub(crate) const VARIABLE: &str = "PAIRLOOM_S3_SERVER";

/// Packages to install, with their versions.
const REQUIREMENTS: &str = include_str!("server.txt");

/// Installs the server if necessary. Returns its folder; `None`, after a message, if it cannot be installed.
pub(crate) fn provide() -> Option<PathBuf> {
    match folder().and_then(|folder| provide_with(&folder, REQUIREMENTS, install).map(|()| folder)) {
        Ok(folder) => Some(folder),
        Err(failure) => {
            print_message(format!("no S3 server, so tests of stores at URLs are skipped: {failure}"));
            None
        }
    }
}

fn folder() -> TaskResult<PathBuf> {
    let version = REQUIREMENTS.lines().find_map(|line| line.strip_prefix("moto=="));
    let version = version.ok_or_else(|| TaskError::new("`server.txt` names no version of moto"))?;
    Ok(libtorch::folder()?.with_file_name(format!("moto-{version}")))
}

fn install(into: &Path) -> TaskResult {
    print_message("installing an S3 server for tests with pip: 20 MB to download once, 115 MB to stay");
    fs::create_dir_all(into).map_err(TaskError::io("create", into))?;
    let list = into.join("requirements.txt");
    fs::write(&list, REQUIREMENTS).map_err(TaskError::io("write", &list))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"]);
    pip.args(["--disable-pip-version-check", "--no-warn-script-location", "--root-user-action=ignore"]);
    pip.arg("--target").arg(into.join("packages")).arg("--requirement").arg(&list);
    shell::execute(pip.env("PIP_REQUIRE_VIRTUALENV", "0").env("PIP_USER", "0"))
}
