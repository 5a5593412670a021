//! `pairloom completions SHELL`: shell completions.

use clap::CommandFactory;

use super::args::{Cli, CompletionsArgs};
use super::console::Console;
use pairloom_base::error::Result;

/// Prints the completion script of a shell.
///
/// # Errors
/// stdout cannot be written.
pub(super) fn completions(arguments: &CompletionsArgs, console: Console) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "pairloom", &mut script);
    console.print(&String::from_utf8_lossy(&script))
}
