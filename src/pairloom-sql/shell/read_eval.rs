//! Loop of the shell: reads statements and commands, and prints results.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use super::command::{HELP, ShellCommand, is_command, parse, statement};
use super::line_helper::LineHelper;
use super::pager::{PagedOutput, is_paging, pager_command};
use super::session_opener::{OpenSession, SessionOpener};
use crate::query_output::write_shown;
use crate::sql::missing_results_notes;
use pairloom_base::error::{Error, Result};
use pairloom_cli::console::Console;
use pairloom_cli::interrupt::interrupt_on_signal;
use pairloom_cli::run_choice_args::RunChoiceArgs;
use pairloom_query::{OutputFormat, QueryRows, StatementInterrupt, split_statements};

/// Prompt of the shell.
const PROMPT: &str = "pairloom> ";
/// Maximum number of entries in the history.
const HISTORY_ENTRIES: usize = 1000;

/// Runs the shell until it is quit.
///
/// # Errors
/// The terminal cannot be used. An error of a statement is printed and does not end the shell.
pub(crate) fn run(
    opener: &SessionOpener<'_>,
    opened: OpenSession,
    format: Option<OutputFormat>,
    console: Console,
) -> Result<()> {
    let failed = |error: &ReadlineError| Error::stage(format!("cannot use the terminal: {error}"));
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .auto_add_history(true)
        .max_history_size(HISTORY_ENTRIES)
        .map_err(|error| failed(&error))?
        .build();
    let history = FileHistory::with_config(&config);
    let mut editor: Editor<LineHelper, FileHistory> =
        Editor::with_history(config, history).map_err(|error| failed(&error))?;
    editor.set_helper(Some(LineHelper::new(&opened)));
    let history = history_file();
    if let Some(path) = &history {
        // A missing history is that of the first shell.
        let _ = editor.load_history(path);
    }
    let statement = Arc::new(Mutex::new(opened.session.interrupt()));
    let interrupted = Arc::clone(&statement);
    interrupt_on_signal(move || {
        // A pager handles Ctrl-C itself.
        is_paging() || interrupted.lock().unwrap_or_else(PoisonError::into_inner).interrupt()
    })?;
    console.info("`\\d` lists the tables, `\\?` the commands; statements end with `;`\n");
    let pager = pager_command(&|name| std::env::var_os(name));
    let mut shell = Shell { opener, opened, statement, format, pager, is_paged: true, console };
    loop {
        match editor.readline(PROMPT) {
            Ok(line) => {
                if let Some(path) = &history {
                    // Without a writable data folder, the history lasts as long as the shell.
                    let _ = editor.append_history(path);
                }
                match shell.run_line(&line) {
                    LineEnd::Quit => return Ok(()),
                    LineEnd::OtherRun => editor.set_helper(Some(LineHelper::new(&shell.opened))),
                    LineEnd::Next => {}
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

/// Way in which the shell goes on after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Next,
    /// The session is another one.
    OtherRun,
    Quit,
}

/// State of the shell.
struct Shell<'s> {
    opener: &'s SessionOpener<'s>,
    opened: OpenSession,
    /// Handle that interrupts the statements of the session.
    statement: Arc<Mutex<StatementInterrupt>>,
    /// Format of results; `None` is a table that fits the terminal.
    format: Option<OutputFormat>,
    /// Command of the pager, if there is one.
    pager: Option<OsString>,
    is_paged: bool,
    console: Console,
}

impl Shell<'_> {
    /// Runs a command or statements.
    fn run_line(&mut self, line: &str) -> LineEnd {
        if !is_command(line) {
            let (statements, rest) = split_statements(line);
            for statement in statements.into_iter().chain(Some(rest).filter(|rest| !rest.is_empty())) {
                if !self.run_statement(&statement) {
                    break;
                }
            }
            return LineEnd::Next;
        }
        let command = match parse(line) {
            Ok(command) => command,
            Err(message) => {
                self.console.print_error(&Error::usage(message));
                return LineEnd::Next;
            }
        };
        match command {
            ShellCommand::Quit => return LineEnd::Quit,
            ShellCommand::Help => self.console.info(HELP),
            ShellCommand::Run(None) => self.opened.print_run("", self.console),
            ShellCommand::Run(run) => return self.open(&RunChoiceArgs { run, pipeline: None }),
            ShellCommand::Pipeline(name) => return self.open(&RunChoiceArgs { run: None, pipeline: Some(name) }),
            ShellCommand::Format(format) => self.format = format,
            ShellCommand::ToggleVertical => {
                let is_vertical = self.format == Some(OutputFormat::Vertical);
                self.format = (!is_vertical).then_some(OutputFormat::Vertical);
                self.console.info(if is_vertical { "format auto\n" } else { "format vertical\n" });
            }
            ShellCommand::Pager(is_on) => self.is_paged = is_on,
            ShellCommand::Tables | ShellCommand::Describe(_) | ShellCommand::Schemas | ShellCommand::Functions(_) => {
                if let Some(sql) = statement(&command) {
                    self.run_statement(&sql);
                }
            }
        }
        LineEnd::Next
    }

    /// Opens the session of another run. After an error, the session stays.
    fn open(&mut self, choice: &RunChoiceArgs) -> LineEnd {
        match self.opener.open(choice) {
            Ok(opened) => {
                opened.print_run("", self.console);
                *self.statement.lock().unwrap_or_else(PoisonError::into_inner) = opened.session.interrupt();
                self.opened = opened;
                LineEnd::OtherRun
            }
            Err(error) => {
                self.console.print_error(&error);
                LineEnd::Next
            }
        }
    }

    /// Runs a statement and prints its result or error. Returns false after an error.
    fn run_statement(&self, sql: &str) -> bool {
        let result = self.opened.session.query(sql);
        match result.and_then(|rows| self.show(rows)) {
            Ok(()) => {
                missing_results_notes(&self.opened.session, self.console);
                true
            }
            Err(error) => {
                self.console.print_error(&error);
                false
            }
        }
    }

    /// Shows a result, in the pager if it is longer than the screen.
    fn show(&self, rows: QueryRows<'_>) -> Result<()> {
        let height = terminal_size::terminal_size().map(|(_, height)| usize::from(height.0));
        let command = self.pager.as_ref().filter(|_| self.is_paged && height.is_some());
        let mut out = PagedOutput::new(command, height.unwrap_or(0));
        let note = write_shown(rows, self.format, &mut out);
        out.finish().map_err(|error| Error::stage(format!("cannot write the result: {error}")))?;
        self.console.info(&note?);
        Ok(())
    }
}
