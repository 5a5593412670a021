//! `cargo xtask test`: everything that CI checks, the quickest first.

use std::time::Instant;

use crate::server;
use crate::setup;
use crate::shell::{self, Failure, Outcome, say};

/// A check: what it is called, the command of cargo, and a variable that it needs.
struct Check {
    name: &'static str,
    command: &'static [&'static str],
    variable: Option<(&'static str, &'static str)>,
}

/// The checks in order. The first three share what they compile; the tests compile code as well.
const CHECKS: [Check; 4] = [
    Check { name: "format", command: &["fmt", "--all", "--check"], variable: None },
    Check {
        name: "lints",
        command: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        variable: None,
    },
    Check {
        name: "documentation",
        command: &["doc", "--workspace", "--no-deps"],
        variable: Some(("RUSTDOCFLAGS", "-D warnings")),
    },
    Check { name: "tests", command: &["test", "--workspace"], variable: None },
];

/// Sets up and runs every check; stops at the first that fails.
pub(crate) fn test() -> Outcome {
    let start = Instant::now();
    setup::setup()?;
    let server = server::provide();
    for Check { name, command, variable } in CHECKS {
        let mut cargo = shell::cargo(command.iter().copied())?;
        cargo.envs(variable);
        cargo.envs(server.iter().map(|folder| (server::VARIABLE, folder)));
        say(format!("{name}: {}", shell::display(&cargo)));
        let begin = Instant::now();
        shell::execute(&mut cargo)
            .map_err(|failure| Failure::new(format!("{name} failed after {}: {failure}", time(begin))))?;
        say(format!("{name}: fine in {}", time(begin)));
    }
    say(format!("all checks passed in {}", time(start)));
    Ok(())
}

fn time(since: Instant) -> String {
    let seconds = since.elapsed().as_secs();
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {} s", seconds / 60, seconds % 60) }
}
