//! Helpers of all commands: starting programs, messages, errors.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Error of a command: message, hint, and exit code.
#[derive(Debug)]
pub(crate) struct TaskError {
    message: String,
    hint: Option<String>,
    code: u8,
}

/// Result of a command or of a step of it.
pub(crate) type TaskResult<T = ()> = Result<T, TaskError>;

impl TaskError {
    /// Error with exit code 1.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 1 }
    }

    /// Invalid command line, with exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, ..Self::new(message) }
    }

    /// Failed file operation, for use in `map_err`.
    pub(crate) fn io<'p>(doing: &'p str, path: &'p Path) -> impl FnOnce(std::io::Error) -> Self + 'p {
        move |error| {
            let this = Self::new(format!("cannot {doing} `{}`: {error}", path.display()));
            match error.kind() {
                std::io::ErrorKind::StorageFull => this.hint("free some space and run the same command again"),
                _ => this,
            }
        }
    }

    /// Adds a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Exit code of the process.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Prints a progress message on stderr. stdout is for the programs that are started.
pub(crate) fn print_message(text: impl Display) {
    eprintln!("xtask: {text}");
}

/// Root folder of the checkout.
pub(crate) fn root() -> TaskResult<PathBuf> {
    // Read from the environment at run time, as several checkouts may share a target folder.
    std::env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|xtask| Path::new(&xtask).parent().map(Path::to_owned))
        .ok_or_else(|| TaskError::new("start this as `cargo xtask`"))
}

/// Command for the cargo that started this program, in the root of the checkout, without the variables that cargo
/// added.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> TaskResult<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root()?);
    // Cargo sets variables that describe this package. Build scripts that depend on them, such as that of `ring`, would
    // run again whenever cargo is used directly and through this program in turn, and their dependents would be
    // compiled again.
    let names = std::env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| name.to_str().is_some_and(describes_a_package)) {
        command.env_remove(name);
    }
    Ok(command)
}

/// Returns true if a variable of cargo describes the package that is built or run.
fn describes_a_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Runs a program to its end.
///
/// # Errors
/// The program cannot be started or fails. The message contains the command.
pub(crate) fn execute(command: &mut Command) -> TaskResult {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(TaskError::new(format!("{status}: {}", display(command)))),
        Err(error) => Err(TaskError::new(format!("cannot start {}: {error}", display(command)))),
    }
}

/// Returns true if a program can be started and succeeds, without input and with its output discarded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Formats a command as typed in a shell, without the folder of the program.
pub(crate) fn display(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_program_contains_its_arguments() {
        let failure = execute(Command::new("/bin/sh").args(["-c", "exit 7"])).expect_err("it exits with 7");
        assert_eq!(failure.to_string(), "exit status: 7: sh -c exit 7");
    }

    #[test]
    fn variables_of_this_package_are_removed_for_cargo() {
        let cargo = cargo(["build"]).expect("this is a checkout");
        let removed: Vec<_> = cargo.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR"] {
            assert!(removed.contains(&name.as_ref()), "{name}");
        }
        assert!(!removed.contains(&"CARGO_HOME".as_ref()) && !removed.contains(&"CARGO".as_ref()));
    }

    #[test]
    fn a_missing_program_does_not_succeed() {
        assert!(succeeds(&mut Command::new("true")));
        assert!(!succeeds(&mut Command::new("false")));
        assert!(!succeeds(&mut Command::new("a-program-that-nobody-has")));
    }
}
