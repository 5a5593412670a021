//! Check of the dependencies by cargo-deny: licences, sources, crates in several versions, and known vulnerabilities.
//! `deny.toml` has the rules.

use std::process::Command;

use crate::programs;
use crate::shell::{self, TaskResult, print_message};

/// Version of cargo-deny to build.
const VERSION: &str = "0.20.2";

/// Builds cargo-deny in the cache if necessary, and runs it.
///
/// The database of known vulnerabilities is that of `RustSec` on GitHub. Where it cannot be fetched, a message says that
/// they are not checked.
pub(crate) fn check() -> TaskResult {
    let program = programs::provide("cargo-deny", VERSION, &[])?;
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
