//! What is generated from the types: `pairloom schema`, `pairloom completions SHELL`, and the reference files in `schemas/`:
//! pipeline files, tables, command line.

use std::fmt::Write as _;

use clap::CommandFactory;
use clap_markdown::MarkdownOptions;

use super::args::{Cli, CompletionsArgs};
use super::console::Console;
use pairloom_base::error::Result;
use pairloom_registry::AnyStage;
use pairloom_tables::{self as tables, Table};

/// Name and content of every file in `schemas/`.
#[must_use]
pub fn schema_files() -> Vec<(String, String)> {
    let mut files =
        vec![("pipeline.schema.json".to_owned(), pipeline_schema()), ("cli.md".to_owned(), command_line_reference())];
    files.extend(
        tables::all().iter().map(|described| (format!("{}.txt", described.name), table_description(described))),
    );
    files
}

/// JSON Schema of pipeline files.
pub(super) fn pipeline_schema() -> String {
    format!("{:#}\n", pairloom_pipeline::schema::<AnyStage>())
}

/// Reference of the command line in Markdown.
fn command_line_reference() -> String {
    let options = MarkdownOptions::new().title("Command line".to_owned()).show_footer(false);
    // The text must not depend on the width of the terminal or on environment variables.
    let command = Cli::command().term_width(0).mut_args(|argument| argument.hide_env_values(true));
    let text = clap_markdown::help_markdown_command_custom(&command, &options);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    format!("{}\n", lines.join("\n").trim_end())
}

/// Name, description and columns of a table.
fn table_description(table: &Table) -> String {
    let rows: Vec<[String; 4]> = table
        .columns
        .iter()
        .map(|column| {
            let missing = if column.nullable { "may be missing" } else { "" };
            [
                column.name.to_string(),
                tables::column_type(&column.data_type),
                missing.to_owned(),
                column.description.to_string(),
            ]
        })
        .collect();
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let mut text = format!("{}\n\n{}\n\n", table.name, table.description);
    for [name, data_type, missing, about] in &rows {
        let mut line = format!("{name:0$}  {data_type:1$}  ", widths[0], widths[1]);
        if widths[2] > 0 {
            let _ = write!(line, "{missing:0$}  ", widths[2]);
        }
        let _ = writeln!(text, "{line}{about}");
    }
    text
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

#[cfg(test)]
mod tests {
    /// The committed files equal the generated ones.
    #[test]
    fn generated_files_are_up_to_date() {
        let folder = test_data::root().join("schemas");
        let update = std::env::var_os("UPDATE_GENERATED").is_some();
        let mut stale = Vec::new();
        let files = super::schema_files();
        for (name, content) in &files {
            let path = folder.join(name);
            if update {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&path, content).unwrap();
            } else if std::fs::read_to_string(&path).ok().as_ref() != Some(content) {
                stale.push(name.clone());
            }
        }
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if files.iter().any(|(known, _)| *known == name) {
                continue;
            }
            if update {
                std::fs::remove_file(entry.path()).unwrap();
            } else {
                stale.push(format!("{name} (no longer generated)"));
            }
        }
        assert!(
            stale.is_empty(),
            "schemas/ is out of date: {stale:?}; update it with `UPDATE_GENERATED=1 cargo test --package pairloom-cli generated`"
        );
    }
}
