//! Interactive shell of `pairloom sql`: its loop over statements and commands, the line editor with completion, and sessions,
//! each bound to one run, which `\run` and `\pipeline` change.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use self::command::complete_command;
use self::pager::{PagedOutput, is_paging, pager_command};
use crate::sql::{missing_results_notes, write_shown};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::NamedFile;
use pairloom_cli::args::RunChoiceArgs;
use pairloom_cli::console::Console;
use pairloom_cli::interrupt::interrupt_on_signal;
use pairloom_cli::open::open_log;
use pairloom_cli::run_choice::choose_run_for_queries;
use pairloom_query::completion::{CompletionNames, complete};
use pairloom_query::{
    ListedTable, OutputFormat, PlanRunner, QueryLimits, QueryRows, Session, StatementInterrupt, VECTOR_CACHE_BYTES,
    split_statements,
};
use pairloom_store::Store;
use pairloom_store::record::{RunLog, RunRecord};

pub(super) use command::{HELP, ShellCommand, is_command, parse, statement};

mod command;
mod pager;

/// Number of recent runs whose names are completed.
const COMPLETED_RUNS: usize = 50;

/// Opener of sessions over a store.
pub(super) struct SessionOpener<'s> {
    store: &'s Store,
    files: &'s [NamedFile],
    runner: Option<Arc<dyn PlanRunner>>,
    limits: QueryLimits,
    console: Console,
}

/// Session and the run of its tables.
pub(crate) struct OpenSession {
    pub(crate) session: Rc<Session>,
    /// Run of the tables; `None` if no run has finished.
    pub(crate) run: Option<RunRecord>,
    log: Arc<RunLog>,
}

impl<'s> SessionOpener<'s> {
    pub(crate) fn new(
        store: &'s Store,
        files: &'s [NamedFile],
        runner: Option<Arc<dyn PlanRunner>>,
        limits: QueryLimits,
        console: Console,
    ) -> Self {
        Self { store, files, runner, limits, console }
    }

    /// Opens a session over the run that `choice` names. Runs since the last call are seen.
    ///
    /// # Errors
    /// There is no such run, the store cannot be read, or two files have one name.
    pub(crate) fn open(&self, choice: &RunChoiceArgs) -> Result<OpenSession> {
        let log = Arc::new(open_log(self.store, self.console)?);
        let run = choose_run_for_queries(&log, choice)?.cloned();
        let session = Session::of_run(&log, run.as_ref())?;
        let session = match &self.runner {
            Some(runner) => session.with_runner(Arc::clone(runner)),
            None => session.with_vector_cache(VECTOR_CACHE_BYTES),
        };
        let session = session.with_limits(self.limits)?;
        for file in self.files {
            session.add_file(file.clone())?;
        }
        Ok(OpenSession { session: Rc::new(session), run, log })
    }
}

impl OpenSession {
    /// Prints the name of the run to stderr, if there is one.
    pub(crate) fn print_run(&self, more: &str, console: Console) {
        if let Some(run) = &self.run {
            console.note(&format!("run {} of {}{more}", run.run, run.pipeline));
        }
    }

    /// Names of the latest runs.
    pub(super) fn run_names(&self) -> Vec<String> {
        self.log.readable().take(COMPLETED_RUNS).map(|run| run.run.clone()).collect()
    }

    /// Pipelines of the latest runs: their paths, and the names of their files without extension.
    pub(super) fn pipelines(&self) -> Vec<String> {
        let paths = self.log.readable().take(COMPLETED_RUNS).map(|run| run.pipeline.as_str());
        let stem = |path: &str| Some(Path::new(path).file_stem()?.to_string_lossy().into_owned());
        let names: BTreeSet<String> = paths.flat_map(|path| [Some(path.to_owned()), stem(path)]).flatten().collect();
        names.into_iter().collect()
    }
}

/// Helper of the line editor over a session.
struct LineHelper {
    names: SessionNames,
    /// Names of runs and pipelines, for the commands that choose one.
    runs: Vec<String>,
    pipelines: Vec<String>,
}

impl LineHelper {
    fn new(opened: &OpenSession) -> Self {
        let names = SessionNames {
            session: Rc::clone(&opened.session),
            functions: opened.session.functions(),
            tables: OnceCell::new(),
            columns: RefCell::default(),
        };
        Self { names, runs: opened.run_names(), pipelines: opened.pipelines() }
    }
}

/// Names of a session for completions.
struct SessionNames {
    session: Rc<Session>,
    functions: Vec<String>,
    /// Tables, read when they are first needed.
    tables: OnceCell<Vec<ListedTable>>,
    /// Columns that have been read, by schema and table.
    columns: RefCell<BTreeMap<(String, String), Vec<String>>>,
}

impl CompletionNames for SessionNames {
    fn tables(&self) -> &[ListedTable] {
        // If they cannot be read, keywords and functions remain.
        self.tables.get_or_init(|| self.session.tables().unwrap_or_default())
    }

    fn columns(&self, table: &ListedTable) -> Vec<String> {
        let mut columns = self.columns.borrow_mut();
        let key = (table.schema.clone(), table.table.clone());
        let read = || {
            let schema = self.session.columns(&table.schema, &table.table);
            schema.map(|schema| schema.fields().iter().map(|field| field.name().clone()).collect()).unwrap_or_default()
        };
        columns.entry(key).or_insert_with(read).clone()
    }

    fn functions(&self) -> &[String] {
        &self.functions
    }
}

impl Helper for LineHelper {}

impl Hinter for LineHelper {
    type Hint = String;
}

impl Highlighter for LineHelper {}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete_command(line, pos, &self.runs, &self.pipelines).unwrap_or_else(|| complete(line, pos, &self.names)))
    }
}

impl Validator for LineHelper {
    /// Accepts a command, an empty line, and statements that all end with `;`.
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let input = context.input();
        let is_complete = is_command(input) || split_statements(input).1.is_empty();
        Ok(if is_complete { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

/// Prompt of the shell.
const PROMPT: &str = "pairloom> ";
/// Maximum number of entries in the history.
const HISTORY_ENTRIES: usize = 1000;

/// Runs the shell until it is quit.
///
/// # Errors
/// The terminal cannot be used. An error of a statement is printed and does not end the shell.
pub(super) fn run(
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
