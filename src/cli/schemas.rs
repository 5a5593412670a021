//! What is generated from the types: `pairloom schema` and `pairloom completions SHELL`.

use clap::CommandFactory;

use super::args::{Cli, CompletionsArgs};
use super::console::Console;
use pairloom_base::error::Result;
use pairloom_registry::AnyStage;

/// JSON Schema of pipeline files.
pub(super) fn pipeline_schema() -> String {
    format!("{:#}\n", pairloom_pipeline::schema::<AnyStage>())
}

/// Prints the JSON Schema of pipeline files.
pub(super) fn schema(console: Console) -> Result<()> {
    console.print(&pipeline_schema())
}

/// Prints the completion script of a shell.
pub(super) fn completions(arguments: &CompletionsArgs, console: Console) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "pairloom", &mut script);
    console.print(&String::from_utf8_lossy(&script))
}
