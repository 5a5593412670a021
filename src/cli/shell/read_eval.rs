//! Loop of the shell: reads statements and commands, and prints results.

use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use super::command::{HELP, ShellCommand, is_command, parse};
use super::line_helper::LineHelper;
use crate::cli::console::Console;
use crate::cli::interrupt::interrupt_on_signal;
use crate::cli::query_output::write_to_stdout;
use crate::error::{Error, Result};
use crate::sql::{OutputFormat, Session, split_statements};

/// Prompt of the shell.
const PROMPT: &str = "pairloom> ";
/// Maximum number of entries in the history.
const HISTORY_ENTRIES: usize = 1000;

/// Runs the shell until it is quit.
///
/// # Errors
/// The terminal cannot be used. An error of a statement is printed and does not end the shell.
pub(in crate::cli) fn run(session: &Session, format: Option<OutputFormat>, console: Console) -> Result<()> {
    let failed = |error: &ReadlineError| Error::stage(format!("cannot use the terminal: {error}"));
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .auto_add_history(true)
        .max_history_size(HISTORY_ENTRIES)
        .map_err(|error| failed(&error))?
        .build();
    let history = FileHistory::with_config(&config);
    let mut editor: Editor<LineHelper<'_>, FileHistory> =
        Editor::with_history(config, history).map_err(|error| failed(&error))?;
    editor.set_helper(Some(LineHelper::new(session)));
    let history = history_file();
    if let Some(path) = &history {
        // A missing history is that of the first shell.
        let _ = editor.load_history(path);
    }
    interrupt_on_signal(session.interrupt())?;
    console.info("`\\d` lists the tables, `\\?` the commands; statements end with `;`\n");
    let mut shell = Shell { session, format, console };
    loop {
        match editor.readline(PROMPT) {
            Ok(line) => {
                if let Some(path) = &history {
                    // Without a writable data folder, the history lasts as long as the shell.
                    let _ = editor.append_history(path);
                }
                if shell.run_line(&line) {
                    return Ok(());
                }
            }
            // Ctrl-C drops the line.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(failed(&error)),
        }
    }
}

/// File of the history in the user's data folder, which is created.
fn history_file() -> Option<PathBuf> {
    let folder = dirs::data_dir()?.join("pairloom");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("sql-history"))
}

/// State of the shell.
struct Shell<'s> {
    session: &'s Session,
    /// Format of results; `None` is a table that fits the terminal.
    format: Option<OutputFormat>,
    console: Console,
}

impl Shell<'_> {
    /// Runs a command or statements. Returns true if the shell ends.
    fn run_line(&mut self, line: &str) -> bool {
        if !is_command(line) {
            let (statements, rest) = split_statements(line);
            for statement in statements.into_iter().chain(Some(rest).filter(|rest| !rest.is_empty())) {
                if !self.run_statement(&statement) {
                    break;
                }
            }
            return false;
        }
        match parse(line) {
            Ok(ShellCommand::Quit) => return true,
            Ok(ShellCommand::Help) => self.console.info(HELP),
            Ok(ShellCommand::Describe(None)) => {
                self.run_statement("SHOW TABLES");
            }
            Ok(ShellCommand::Describe(Some(table))) => {
                self.run_statement(&format!("DESCRIBE {table}"));
            }
            Ok(ShellCommand::Format(format)) => self.format = format,
            Ok(ShellCommand::ToggleVertical) => {
                let is_vertical = self.format == Some(OutputFormat::Vertical);
                self.format = (!is_vertical).then_some(OutputFormat::Vertical);
                self.console.info(if is_vertical { "format auto\n" } else { "format vertical\n" });
            }
            Err(message) => self.console.print_error(&Error::usage(message)),
        }
        false
    }

    /// Runs a statement and prints its result or error. Returns false after an error.
    fn run_statement(&self, statement: &str) -> bool {
        let result = self.session.query(statement);
        match result.and_then(|rows| write_to_stdout(rows, self.format, self.console)) {
            Ok(()) => true,
            Err(error) => {
                self.console.print_error(&error);
                false
            }
        }
    }
}
