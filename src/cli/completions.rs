//! `pairloom completions SHELL`.

use clap::CommandFactory;

use super::args::{Arguments, Completions};
use super::output::Output;
use crate::error::Result;

/// Prints completions for a shell.
///
/// # Errors
/// stdout cannot be written.
pub(super) fn completions(arguments: &Completions, output: Output) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "pairloom", &mut script);
    output.data(&String::from_utf8_lossy(&script))
}
