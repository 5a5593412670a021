//! Python packages for tests, installed with pip into the cache: moto, an S3 server that supports conditional writes; ADBC,
//! a client of Flight SQL; the schemas of Kubernetes; DuckDB. Without them, the tests that need them are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cached_folder::{cache, provide_with};
use crate::shell::{self, TaskError, TaskResult, print_message};

/// Environment variable with the folder of the packages, for tests.
pub(crate) const VARIABLE: &str = "PAIRLOOM_PYTHON_PACKAGES";

/// Packages to install, with their versions and the hashes of their wheels for Python 3.11 to 3.14 on Linux x86-64, which
/// pip verifies.
const REQUIREMENTS: &str = include_str!("python_packages.txt");

/// Installs the packages if necessary. Returns their folder; `None`, after a message, if it cannot be installed.
pub(crate) fn provide() -> Option<PathBuf> {
    match folder().and_then(|folder| provide_with(&folder, REQUIREMENTS, install).map(|()| folder)) {
        Ok(folder) => Some(folder),
        Err(failure) => {
            print_message(format!(
                "no Python packages, so tests of stores at URLs, of Flight SQL clients, of Kubernetes manifests and of DuckDB are skipped: {failure}"
            ));
            None
        }
    }
}

fn folder() -> TaskResult<PathBuf> {
    Ok(cache()?.join("python-packages"))
}

fn install(into: &Path) -> TaskResult {
    print_message("installing Python packages for tests with pip: 140 MB to download once, 520 MB to stay");
    fs::create_dir_all(into).map_err(TaskError::io("create", into))?;
    let list = into.join("requirements.txt");
    fs::write(&list, REQUIREMENTS).map_err(TaskError::io("write", &list))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"]);
    pip.args(["--disable-pip-version-check", "--no-warn-script-location", "--root-user-action=ignore"]);
    pip.arg("--require-hashes");
    pip.arg("--target").arg(into.join("packages")).arg("--requirement").arg(&list);
    shell::execute(pip.env("PIP_REQUIRE_VIRTUALENV", "0").env("PIP_USER", "0"))
}
