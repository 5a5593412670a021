//! Commands of the shell that are no SQL: `\d`, `\format`, `\q`.

use crate::sql::OutputFormat;

/// Help text of the shell.
pub(super) const HELP: &str = "\
SQL statements end with `;`. Tables are `stage.table` and `store.table`.

  \\d               list the tables (SHOW TABLES)
  \\d stage.table   list the columns of a table (DESCRIBE stage.table)
  \\format NAME     output format: auto, table, vertical, json, jsonl, csv
  \\x               switch between the formats vertical and auto
  \\?               this help
  \\q               quit; also quit, exit, Ctrl-D

Tab completes keywords, tables and columns; the arrow keys go through the history, Ctrl-R searches it.
Ctrl-C cancels the line or the running statement.
";

/// Command of the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ShellCommand {
    Help,
    Quit,
    /// Lists the tables, or the columns of the named one.
    Describe(Option<String>),
    /// Sets the output format; `None` is a table that fits the terminal.
    Format(Option<OutputFormat>),
    /// Switches between the vertical form and the default.
    ToggleVertical,
}

/// Returns true if a line is a command instead of the start of a statement.
pub(super) fn is_command(line: &str) -> bool {
    let line = line.trim();
    line.starts_with(['\\', '.']) || matches!(word(line), "help" | "quit" | "exit")
}

/// Parses a line that [is a command](is_command).
///
/// # Errors
/// There is no such command, or its argument is wrong.
pub(super) fn parse(line: &str) -> Result<ShellCommand, String> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    match (name.trim_start_matches(['\\', '.']), argument) {
        ("?" | "h" | "help", "") => Ok(ShellCommand::Help),
        ("q" | "quit" | "exit", "") => Ok(ShellCommand::Quit),
        ("d" | "dt" | "tables", "") => Ok(ShellCommand::Describe(None)),
        ("d" | "describe" | "schema", table) if !table.is_empty() => Ok(ShellCommand::Describe(Some(table.to_owned()))),
        ("x", "") => Ok(ShellCommand::ToggleVertical),
        ("format" | "mode", "auto") => Ok(ShellCommand::Format(None)),
        ("format" | "mode", format) if !format.is_empty() => match format.parse()? {
            OutputFormat::Parquet => Err("parquet is for files: `pairloom sql QUERY --output FILE`".to_owned()),
            format => Ok(ShellCommand::Format(Some(format))),
        },
        _ => Err(format!("unknown command `{line}`; `\\?` lists the commands")),
    }
}

/// First word of a line without its semicolon.
fn word(line: &str) -> &str {
    line.trim_end_matches(';').trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_statements_are_told_apart() {
        for line in ["\\q", " \\d test.summary", ".tables", "quit", "exit;", "help"] {
            assert!(is_command(line), "{line}");
        }
        for line in ["SELECT 1", "help me", "", "exit_code"] {
            assert!(!is_command(line), "{line}");
        }
    }

    #[test]
    fn commands_are_parsed() {
        for (line, command) in [
            ("\\?", ShellCommand::Help),
            ("exit;", ShellCommand::Quit),
            (".quit", ShellCommand::Quit),
            ("\\d", ShellCommand::Describe(None)),
            ("\\d test.summary;", ShellCommand::Describe(Some("test.summary".to_owned()))),
            ("\\format csv", ShellCommand::Format(Some(OutputFormat::Csv))),
            (".mode auto", ShellCommand::Format(None)),
            ("\\x", ShellCommand::ToggleVertical),
        ] {
            assert_eq!(parse(line), Ok(command), "{line}");
        }
        for (line, message) in [
            ("\\foo", "unknown command `\\foo`"),
            ("\\format", "unknown command"),
            ("\\format xml", "unknown format `xml`"),
            ("\\format parquet", "for files"),
        ] {
            assert!(parse(line).is_err_and(|error| error.contains(message)), "{line}");
        }
    }
}
