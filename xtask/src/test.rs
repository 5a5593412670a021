//! `cargo xtask test`: the checks of CI, the quickest first, and those of Python at the end.

use std::path::Path;
use std::time::Instant;

use crate::run::ALL_FEATURES;
use crate::setup;
use crate::shell::{self, TaskError, TaskResult, print_message};
use crate::{book, dependencies, python_packages, wheel};

/// Check by cargo: its name, arguments, and an environment variable.
struct CargoCheck {
    name: &'static str,
    command: &'static [&'static str],
    variable: Option<(&'static str, &'static str)>,
}

/// Check before the dependencies are looked at.
const FORMAT: CargoCheck = CargoCheck { name: "format", command: &["fmt", "--all", "--check"], variable: None };

/// Checks after it, in order.
const CHECKS: [CargoCheck; 4] = [
    CargoCheck {
        name: "lints",
        command: &["clippy", "--workspace", "--all-targets", ALL_FEATURES[0], ALL_FEATURES[1], "--", "-D", "warnings"],
        variable: None,
    },
    CargoCheck {
        name: "documentation",
        command: &["doc", "--workspace", "--no-deps"],
        variable: Some(("RUSTDOCFLAGS", "-D warnings")),
    },
    CargoCheck {
        // With the tests, so that both have the same features and share what they are made of.
        name: "programs and tests",
        command: &["build", "--workspace", "--bins", "--tests", ALL_FEATURES[0], ALL_FEATURES[1]],
        variable: None,
    },
    CargoCheck { name: "tests", command: &["test", "--workspace", ALL_FEATURES[0], ALL_FEATURES[1]], variable: None },
];

/// Sets up and runs all checks, up to the first failure.
pub(crate) fn test() -> TaskResult {
    let start = Instant::now();
    setup::setup()?;
    run_cargo(&FORMAT, None)?;
    timed("dependencies", dependencies::check)?;
    timed("book", book::build)?;
    let packages = python_packages::provide();
    for check in &CHECKS {
        run_cargo(check, packages.as_deref())?;
    }
    timed("wheel", wheel::check)?;
    print_message(format!("all checks passed in {}", format_duration(start)));
    Ok(())
}

fn run_cargo(check: &CargoCheck, packages: Option<&Path>) -> TaskResult {
    let mut cargo = shell::cargo(check.command.iter().copied())?;
    cargo.envs(check.variable);
    cargo.envs(packages.map(|folder| (python_packages::VARIABLE, folder)));
    print_message(format!("{}: {}", check.name, shell::display(&cargo)));
    timed(check.name, || shell::execute(&mut cargo))
}

/// Runs a check, and prints its time.
fn timed(name: &str, check: impl FnOnce() -> TaskResult) -> TaskResult {
    let begin = Instant::now();
    check().map_err(|failure| TaskError::new(format!("{name} failed after {}: {failure}", format_duration(begin))))?;
    print_message(format!("{name}: passed in {}", format_duration(begin)));
    Ok(())
}

fn format_duration(since: Instant) -> String {
    let seconds = since.elapsed().as_secs();
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {} s", seconds / 60, seconds % 60) }
}
