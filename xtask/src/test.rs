//! `cargo xtask test`: the checks of CI, the quickest first.

use std::time::Instant;

use crate::python_packages;
use crate::setup;
use crate::shell::{self, TaskError, TaskResult, print_message};

/// Check: its name, arguments of cargo, and an environment variable.
struct CiCheck {
    name: &'static str,
    command: &'static [&'static str],
    variable: Option<(&'static str, &'static str)>,
}

/// Checks in order.
const CHECKS: [CiCheck; 4] = [
    CiCheck { name: "format", command: &["fmt", "--all", "--check"], variable: None },
    CiCheck {
        name: "lints",
        command: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        variable: None,
    },
    CiCheck {
        name: "documentation",
        command: &["doc", "--workspace", "--no-deps"],
        variable: Some(("RUSTDOCFLAGS", "-D warnings")),
    },
    CiCheck { name: "tests", command: &["test", "--workspace"], variable: None },
];

/// Sets up and runs all checks, up to the first failure.
pub(crate) fn test() -> TaskResult {
    let start = Instant::now();
    setup::setup()?;
    let packages = python_packages::provide();
    for CiCheck { name, command, variable } in CHECKS {
        let mut cargo = shell::cargo(command.iter().copied())?;
        cargo.envs(variable);
        cargo.envs(packages.iter().map(|folder| (python_packages::VARIABLE, folder)));
        print_message(format!("{name}: {}", shell::display(&cargo)));
        let begin = Instant::now();
        shell::execute(&mut cargo)
            .map_err(|failure| TaskError::new(format!("{name} failed after {}: {failure}", format_duration(begin))))?;
        print_message(format!("{name}: passed in {}", format_duration(begin)));
    }
    print_message(format!("all checks passed in {}", format_duration(start)));
    Ok(())
}

fn format_duration(since: Instant) -> String {
    let seconds = since.elapsed().as_secs();
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {} s", seconds / 60, seconds % 60) }
}
