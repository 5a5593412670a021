//! The S3 server that tests run: moto, a mock of Amazon's services that honours conditional writes, installed with pip
//! into the cache. Without it the tests that want it say so and pass.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::libtorch::{self, provide_with};
use crate::shell::{self, Failure, Outcome, say};

/// The variable that tells tests where the server is.
pub(crate) const VARIABLE: &str = "PAIRLOOM_S3_SERVER";

/// What is installed, each package with its version.
const REQUIREMENTS: &str = include_str!("server.txt");

/// The folder of the server's packages, which are installed if need be; none, with a word about why, if they cannot be.
pub(crate) fn provide() -> Option<PathBuf> {
    match folder().and_then(|folder| provide_with(&folder, REQUIREMENTS, install).map(|()| folder)) {
        Ok(folder) => Some(folder),
        Err(failure) => {
            say(format!("no S3 server, so tests of stores at URLs are skipped: {failure}"));
            None
        }
    }
}

fn folder() -> Outcome<PathBuf> {
    let version = REQUIREMENTS.lines().find_map(|line| line.strip_prefix("moto=="));
    let version = version.ok_or_else(|| Failure::new("`server.txt` names no version of moto"))?;
    Ok(libtorch::folder()?.with_file_name(format!("moto-{version}")))
}

fn install(into: &Path) -> Outcome {
    say("installing an S3 server for tests with pip: 20 MB to download once, 115 MB to stay");
    fs::create_dir_all(into).map_err(Failure::io("create", into))?;
    let list = into.join("requirements.txt");
    fs::write(&list, REQUIREMENTS).map_err(Failure::io("write", &list))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"]);
    pip.args(["--disable-pip-version-check", "--no-warn-script-location", "--root-user-action=ignore"]);
    pip.arg("--target").arg(into.join("packages")).arg("--requirement").arg(&list);
    shell::execute(pip.env("PIP_REQUIRE_VIRTUALENV", "0").env("PIP_USER", "0"))
}
