//! What the commands share: starting programs, telling people, failing.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Why a command ends early: a message, what to try, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
}

/// What a command, or a step of one, ends with.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Something did not work.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 1 }
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, ..Self::new(message) }
    }

    /// A file operation failed. To be used in `map_err`.
    pub(crate) fn io<'p>(doing: &'p str, path: &'p Path) -> impl FnOnce(std::io::Error) -> Self + 'p {
        move |error| {
            let this = Self::new(format!("cannot {doing} `{}`: {error}", path.display()));
            match error.kind() {
                std::io::ErrorKind::StorageFull => this.hint("free some space and run the same command again"),
                _ => this,
            }
        }
    }

    /// Adds what to try.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What the process ends with.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Tells a person what happens. Standard output is left to the programs that are started.
pub(crate) fn say(text: impl Display) {
    eprintln!("xtask: {text}");
}

/// The folder of the checkout.
pub(crate) fn root() -> Outcome<PathBuf> {
    // Asked of the environment, not of the compiler: a target folder may serve several checkouts.
    std::env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|xtask| Path::new(&xtask).parent().map(Path::to_owned))
        .ok_or_else(|| Failure::new("start this as `cargo xtask`"))
}

/// The cargo that started us, in the root of the checkout, with the environment of a cargo that a person starts.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Outcome<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root()?);
    // Cargo tells us which package we are. Build scripts that look at these variables, as `ring`'s does, would run again
    // whenever people use cargo and this program by turns, and all that depends on them would be compiled again.
    let names = std::env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| name.to_str().is_some_and(describes_a_package)) {
        command.env_remove(name);
    }
    Ok(command)
}

/// True if a variable of cargo describes the package that is built or run.
fn describes_a_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Starts a program, waits for it, and fails with what was started if it does.
pub(crate) fn execute(command: &mut Command) -> Outcome {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(format!("{status}: {}", display(command)))),
        Err(error) => Err(Failure::new(format!("cannot start {}: {error}", display(command)))),
    }
}

/// Whether a program can be started and succeeds. It sees no input and its output is dropped.
pub(crate) fn works(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The command as one would type it, without the folder of the program.
pub(crate) fn display(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_named_with_its_arguments() {
        let failure = execute(Command::new("/bin/sh").args(["-c", "exit 7"])).expect_err("it exits with 7");
        assert_eq!(failure.to_string(), "exit status: 7: sh -c exit 7");
    }

    #[test]
    fn cargo_is_not_told_which_package_starts_it() {
        let cargo = cargo(["build"]).expect("this is a checkout");
        let removed: Vec<_> = cargo.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR"] {
            assert!(removed.contains(&name.as_ref()), "{name}");
        }
        assert!(!removed.contains(&"CARGO_HOME".as_ref()) && !removed.contains(&"CARGO".as_ref()));
    }

    #[test]
    fn a_missing_program_does_not_work() {
        assert!(works(&mut Command::new("true")));
        assert!(!works(&mut Command::new("false")));
        assert!(!works(&mut Command::new("a-program-that-nobody-has")));
    }
}
