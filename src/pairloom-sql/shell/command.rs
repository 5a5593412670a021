//! Commands of the shell that are no SQL: `\d`, `\run`, `\q`, and their names in other programs: `.tables`, `\dt`.

use pairloom_query::{OutputFormat, quote_identifier};

/// Help text of the shell.
pub(crate) const HELP: &str = "\
SQL statements end with `;`. Tables are `stage.table` and `store.table`.

  \\d               list the tables (SHOW TABLES)
  \\d stage         list the tables of a stage
  \\d stage.table   list the columns of a table (DESCRIBE stage.table)
  \\df PATTERN      list functions: `\\df array%`
  \\run RUN         ask this run: its name, the last four digits of it, a tag, a pipeline, `latest`, `latest~1`
  \\pipeline NAME   ask the last finished run of a pipeline
  \\format NAME     output format: auto, table, vertical, json, jsonl, csv
  \\x               switch between the formats vertical and auto
  \\pager on|off    show long results in `less`, or in what PAIRLOOM_PAGER or PAGER names
  \\?               this help
  \\q               quit; also quit, exit, Ctrl-D

Tab completes keywords, tables, columns and runs; the arrow keys go through the history, Ctrl-R searches it.
Ctrl-C cancels the line or the running statement.
";

/// Command of the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShellCommand {
    Help,
    Quit,
    /// Lists the tables.
    Tables,
    /// Lists the tables of a stage, or the columns of a table.
    Describe(String),
    /// Lists schemas.
    Schemas,
    /// Lists the functions whose names match a pattern.
    Functions(String),
    /// Asks another run; without a name, the run and its pipeline are shown.
    Run(Option<String>),
    /// Asks the last finished run of a pipeline.
    Pipeline(String),
    /// Turns the pager on or off.
    Pager(bool),
    /// Sets the output format; `None` is a table that fits the terminal.
    Format(Option<OutputFormat>),
    /// Switches between the vertical form and the default.
    ToggleVertical,
}

/// Returns true if a line is a command instead of the start of a statement.
pub(crate) fn is_command(line: &str) -> bool {
    let line = line.trim();
    line.starts_with(['\\', '.']) || matches!(word(line), "help" | "quit" | "exit")
}

/// Parses a line that [is a command](is_command).
///
/// # Errors
/// There is no such command, or its argument is wrong.
pub(crate) fn parse(line: &str) -> Result<ShellCommand, String> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    match (name.trim_start_matches(['\\', '.']), argument) {
        ("?" | "h" | "help", "") => Ok(ShellCommand::Help),
        ("q" | "quit" | "exit", "") => Ok(ShellCommand::Quit),
        ("d" | "d+" | "dt" | "dt+" | "dv" | "tables" | "schema", "") => Ok(ShellCommand::Tables),
        ("d" | "d+" | "dt" | "dt+" | "describe" | "schema" | "tables", name) if !name.is_empty() => {
            Ok(ShellCommand::Describe(name.trim_end_matches(".*").to_owned()))
        }
        ("dn" | "l" | "databases" | "schemas", "") => Ok(ShellCommand::Schemas),
        ("df" | "functions", "") => Ok(ShellCommand::Functions("%".to_owned())),
        ("df" | "functions", pattern) => Ok(ShellCommand::Functions(pattern.replace('*', "%"))),
        ("run", name) => Ok(ShellCommand::Run((!name.is_empty()).then(|| name.to_owned()))),
        ("pipeline", "") => Ok(ShellCommand::Run(None)),
        ("pipeline", name) => Ok(ShellCommand::Pipeline(name.to_owned())),
        ("pager", "on") | ("pset", "pager on") => Ok(ShellCommand::Pager(true)),
        ("pager", "off") | ("pset", "pager off") => Ok(ShellCommand::Pager(false)),
        ("x", "") => Ok(ShellCommand::ToggleVertical),
        ("format" | "mode", "auto") => Ok(ShellCommand::Format(None)),
        ("format" | "mode", format) if !format.is_empty() => match format.parse()? {
            OutputFormat::Parquet => Err("parquet is for files: `pairloom sql QUERY --output FILE`".to_owned()),
            format => Ok(ShellCommand::Format(Some(format))),
        },
        _ => Err(format!("unknown command `{line}`; `\\?` lists the commands")),
    }
}

/// Statement that a command stands for; `None` if it is another kind of command.
pub(crate) fn statement(command: &ShellCommand) -> Option<String> {
    match command {
        ShellCommand::Tables => Some("SHOW TABLES".to_owned()),
        ShellCommand::Describe(name) => {
            let parts = quoted_parts(name);
            let what = if parts.len() == 1 { "SHOW TABLES FROM" } else { "DESCRIBE" };
            Some(format!("{what} {}", parts.join(".")))
        }
        ShellCommand::Schemas => Some("SHOW SCHEMAS".to_owned()),
        ShellCommand::Functions(pattern) => Some(format!("SHOW FUNCTIONS LIKE '{}'", pattern.replace('\'', "''"))),
        _ => None,
    }
}

/// Names of the commands, as the help lists them.
const COMMANDS: [&str; 9] = ["\\d", "\\df", "\\format", "\\pager", "\\pipeline", "\\q", "\\run", "\\x", "\\?"];

/// Byte offset at which the word before `cursor` starts, and its completions, if it is the name of a command or of the
/// run or pipeline after it; `None` elsewhere.
pub(super) fn complete_command(
    line: &str,
    cursor: usize,
    runs: &[String],
    pipelines: &[String],
) -> Option<(usize, Vec<String>)> {
    let before = line.get(..cursor)?;
    let beginning = |start: usize, words: &mut dyn Iterator<Item = &str>| {
        let typed = &before[start..];
        (start, words.filter(|word| word.starts_with(typed)).map(str::to_owned).collect())
    };
    let start = before.len() - before.trim_start().len();
    let Some(space) = before[start..].find(char::is_whitespace) else {
        return before[start..].starts_with('\\').then(|| beginning(start, &mut COMMANDS.into_iter()));
    };
    let argument = before.rfind(char::is_whitespace).map_or(cursor, |at| at + 1);
    let of_formats = || std::iter::once("auto").chain(OutputFormat::ALL.map(|(name, _)| name));
    match &before[start..start + space] {
        "\\run" => Some(beginning(argument, &mut runs.iter().map(String::as_str).chain(["latest"]))),
        "\\pipeline" => Some(beginning(argument, &mut pipelines.iter().map(String::as_str))),
        "\\pager" => Some(beginning(argument, &mut ["on", "off"].into_iter())),
        "\\format" => Some(beginning(argument, &mut of_formats().filter(|name| *name != "parquet"))),
        _ => None,
    }
}

/// Parts of a name between dots, with the quotes that SQL needs: a person may write `\d hal-bank.summary`.
fn quoted_parts(name: &str) -> Vec<String> {
    let mut is_quoted = false;
    let parts = name.split(|c| {
        is_quoted ^= c == '"';
        c == '.' && !is_quoted
    });
    parts.map(|part| if part.starts_with('"') { part.to_owned() } else { quote_identifier(part) }).collect()
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
    fn commands_and_the_names_of_runs_are_completed() {
        let runs = ["20260101T000000-a1b2", "20260102T000000-c3d4"].map(str::to_owned);
        let pipelines = ["pipelines/quickstart.toml".to_owned()];
        let complete = |line: &str| complete_command(line, line.len(), &runs, &pipelines);
        for (line, start, words) in [
            ("\\p", 0, vec!["\\pager", "\\pipeline"]),
            ("\\run 20260102", 5, vec!["20260102T000000-c3d4"]),
            (" \\pipeline pipe", 11, vec!["pipelines/quickstart.toml"]),
            ("\\pager o", 7, vec!["on", "off"]),
            ("\\format j", 8, vec!["json", "jsonl"]),
        ] {
            assert_eq!(complete(line), Some((start, words.iter().map(|word| (*word).to_owned()).collect())), "{line}");
        }
        assert_eq!(complete("\\d te"), None);
        assert_eq!(complete("SELECT \\p"), None);
    }

    #[test]
    fn commands_are_parsed() {
        for (line, command) in [
            ("\\?", ShellCommand::Help),
            ("exit;", ShellCommand::Quit),
            (".quit", ShellCommand::Quit),
            ("\\d", ShellCommand::Tables),
            (".schema", ShellCommand::Tables),
            ("\\d test.summary;", ShellCommand::Describe("test.summary".to_owned())),
            ("\\dt test.*", ShellCommand::Describe("test".to_owned())),
            ("\\run", ShellCommand::Run(None)),
            ("\\run latest~1", ShellCommand::Run(Some("latest~1".to_owned()))),
            ("\\pipeline quickstart", ShellCommand::Pipeline("quickstart".to_owned())),
            ("\\pset pager off", ShellCommand::Pager(false)),
            ("\\format csv", ShellCommand::Format(Some(OutputFormat::Csv))),
            (".mode auto", ShellCommand::Format(None)),
            ("\\x", ShellCommand::ToggleVertical),
        ] {
            assert_eq!(parse(line), Ok(command), "{line}");
        }
        for (line, sql) in [
            (".tables", Some("SHOW TABLES")),
            ("\\d test.summary", Some("DESCRIBE test.summary")),
            ("\\d \"a.b\"", Some("SHOW TABLES FROM \"a.b\"")),
            ("\\d hal-bank.summary", Some("DESCRIBE \"hal-bank\".summary")),
            ("\\df array*", Some("SHOW FUNCTIONS LIKE 'array%'")),
            ("\\x", None),
        ] {
            assert_eq!(statement(&parse(line).unwrap()).as_deref(), sql, "{line}");
        }
        for (line, message) in [
            ("\\pager", "unknown command `\\pager`"),
            ("\\foo", "unknown command `\\foo`"),
            ("\\format", "unknown command"),
            ("\\format xml", "unknown format `xml`"),
            ("\\format parquet", "for files"),
        ] {
            assert!(parse(line).is_err_and(|error| error.contains(message)), "{line}");
        }
    }
}
