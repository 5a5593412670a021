//! Check of the dependencies by cargo-deny: licences, sources, crates in several versions, and known vulnerabilities.
//! `deny.toml` has the rules.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cached_folder::{cache, provide_with};
use crate::shell::{self, TaskError, TaskResult, print_message};

/// Version of cargo-deny to build.
const VERSION: &str = "0.20.2";

/// Builds cargo-deny in the cache if necessary, and runs it.
///
/// The database of known vulnerabilities is that of `RustSec` on GitHub. Where it cannot be fetched, a message says that
/// they are not checked.
pub(crate) fn check() -> TaskResult {
    let folder = cache()?.join(format!("cargo-deny-{VERSION}"));
    provide_with(&folder, &format!("cargo-deny {VERSION}\n"), build)?;
    let program = folder.join("bin/cargo-deny");
    let deny = |arguments: &[&str]| -> TaskResult<Command> {
        let mut command = Command::new(&program);
        command.args(["--log-level", "error"]).args(arguments).current_dir(shell::root()?);
        Ok(command)
    };
    // An exception that is not needed any more is a mistake.
    let exceptions = ["-D", "unmatched-skip", "-D", "unnecessary-skip"];
    shell::execute(deny(&["check"])?.args(exceptions).args(["licenses", "bans", "sources"]))?;
    match shell::execute(&mut deny(&["fetch", "db"])?) {
        Ok(()) => shell::execute(&mut deny(&["check", "advisories"])?),
        Err(_) => {
            print_message("known vulnerabilities are not checked, since their database cannot be fetched");
            Ok(())
        }
    }
}

/// Builds cargo-deny from the registry, without optimisation: it runs for seconds.
fn build(into: &Path) -> TaskResult {
    print_message("building cargo-deny: some two minutes once");
    let products = into.join("target");
    let mut cargo = shell::cargo(["install", "cargo-deny", "--version", VERSION, "--locked", "--debug", "--quiet"])?;
    cargo.arg("--root").arg(into).arg("--target-dir").arg(&products);
    shell::execute(&mut cargo)?;
    fs::remove_dir_all(&products).map_err(TaskError::io("remove", &products))
}
