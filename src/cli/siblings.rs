//! Other programs of Pairloom: `pairloom` hands over to them by `exec`, or starts them as children.
//!
//! Loading libtorch takes 0.2 s, and linking DataFusion takes minutes, so `pairloom` is linked without them. It replaces itself
//! by `pairloom-torch` if a stage has to run, and by `pairloom-sql` for commands that query. All programs must be built from
//! the same sources; a hash of the sources is compared when a program starts.

use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::build;

/// Environment variable with the hash of the sources of the program that started this one.
const BUILD_VARIABLE: &str = "PAIRLOOM_HANDED_OVER_BY";

/// Environment variable of the C library, and its setting for pages of 2 MiB in large blocks of memory.
///
/// A search or a training step writes blocks of tens of megabytes, and touching the small pages of a new block for the first
/// time takes a third of a search in SQL. The C library reads the variable when a program starts.
const TUNABLES: &str = "GLIBC_TUNABLES";
const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1";

/// Program in the folder of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sibling {
    /// `pairloom-torch`, which has libtorch and runs stages.
    Torch,
    /// `pairloom-sql`, which has DataFusion and answers queries.
    Sql,
    /// `pairloom-sql` with Flight SQL and the cluster.
    SqlServer,
}

impl Sibling {
    /// File name of the program.
    fn name(self) -> &'static str {
        match self {
            Self::Torch => "pairloom-torch",
            Self::Sql | Self::SqlServer => "pairloom-sql",
        }
    }

    /// Use of the program, after "which".
    fn purpose(self) -> &'static str {
        match self {
            Self::Torch => "runs stages",
            Self::Sql => "answers queries",
            Self::SqlServer => "runs servers",
        }
    }

    /// Command that builds the program as this one was built.
    fn build_command(self) -> String {
        let release = if cfg!(debug_assertions) { "" } else { " --release" };
        let features = if self == Self::SqlServer { " --features flight,cluster" } else { "" };
        format!("cargo build{release} --package {}{features}", self.name())
    }

    /// Path of the program.
    pub(super) fn path(self) -> Result<PathBuf> {
        let here = std::env::current_exe();
        let here = here.map_err(|error| {
            Error::stage(format!("cannot find the path of this program: {error}"))
                .hint(format!("`{}` is in the same folder; mount `/proc`, which names it", self.name()))
        })?;
        let path = here.with_file_name(self.name());
        if path.is_file() {
            return Ok(path);
        }
        Err(Error::usage(format!("there is no `{}`, which {}", path.display(), self.purpose()))
            .hint(format!("build it: `{}`", self.build_command())))
    }

    /// Command that starts the program, with the environment variables that must be set before.
    pub(super) fn command(self) -> Result<Command> {
        let mut program = Command::new(self.path()?);
        program.env(BUILD_VARIABLE, build());
        let mut set = |name: &str, value: &str| {
            if std::env::var_os(name).is_none() {
                program.env(name, value);
            }
        };
        set(TUNABLES, HUGE_PAGES);
        if self == Self::Torch {
            // Idle OpenMP threads would otherwise spin on cores that other stages use. The variable is read when the library
            // loads.
            set("OMP_WAIT_POLICY", "PASSIVE");
            // Each of glibc's arenas keeps what its threads have freed, and by default there are eight for each processor.
            let arenas = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
            set("MALLOC_ARENA_MAX", &arenas.to_string());
            // One of the two workspaces with which cuBLAS gives the same bits each time. It reads the variable when it starts.
            set("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
        }
        Ok(program)
    }

    /// Replaces this process by the program with the same arguments. Returns only on failure.
    pub(super) fn hand_over(self) -> Error {
        match self.command() {
            Ok(mut program) => {
                let error = program.args(std::env::args_os().skip(1)).exec();
                let shown = program.get_program().display();
                Error::usage(format!("cannot start `{shown}`, which {}: {error}", self.purpose()))
                    .hint(format!("build it: `{}`", self.build_command()))
            }
            Err(error) => error,
        }
    }
}

/// Program that reads tables of users: `pairloom`, which loads no large library, or else this one.
pub(super) fn table_reader() -> std::io::Result<PathBuf> {
    let here = std::env::current_exe()?;
    let light = here.with_file_name("pairloom");
    Ok(if light.is_file() { light } else { here })
}

/// Error of a `pairloom-sql` that is built without the feature of a command.
#[must_use]
pub fn not_built(command: &str) -> Error {
    Error::usage(format!("this `pairloom-sql` is built without `{command}`"))
        .hint(format!("build it: `{}`", Sibling::SqlServer.build_command()))
}

/// Replaces this process by the same program with pages of 2 MiB. Returns if their variable is set already, or if the program
/// cannot be started again.
pub(super) fn restart_with_huge_pages() {
    if std::env::var_os(TUNABLES).is_none()
        && let Ok(here) = std::env::current_exe()
    {
        let mut program = Command::new(here);
        program.args(std::env::args_os().skip(1)).env(TUNABLES, HUGE_PAGES);
        // Without them the program is slower, and right.
        let _ = program.exec();
    }
}

/// Checks that a program that started this one was built from the same sources.
///
/// # Errors
/// The builds differ.
pub fn check_build() -> Result<()> {
    let own = build();
    match std::env::var(BUILD_VARIABLE) {
        Ok(other) if other != own => {
            let here = std::env::current_exe().ok();
            let name = here.as_deref().and_then(|path| path.file_name()?.to_str()).unwrap_or("this program").to_owned();
            let release = if cfg!(debug_assertions) { "" } else { " --release" };
            Err(Error::usage(format!(
                "`{name}` and the program that started it come from different builds: {own} and {other}"
            ))
            .hint(format!("build all programs: `cargo build{release} --workspace --bins`")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_answered_with_the_command_that_builds_it() {
        let release = if cfg!(debug_assertions) { "" } else { " --release" };
        for (sibling, hint) in [
            (Sibling::Torch, "--package pairloom-torch"),
            (Sibling::Sql, "--package pairloom-sql"),
            (Sibling::SqlServer, "--package pairloom-sql --features flight,cluster"),
        ] {
            // Tests are programs of a folder of their own.
            let error = sibling.path().unwrap_err();
            assert_eq!(error.category().exit_code(), 2);
            assert_eq!(error.hint_text(), Some(format!("build it: `cargo build{release} {hint}`").as_str()));
        }
    }
}
