//! Helper of the line editor: statements over several lines, and completion.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use super::command::{complete_command, is_command};
use super::session_opener::OpenSession;
use pairloom_query::completion::{CompletionNames, complete};
use pairloom_query::{ListedTable, Session, split_statements};

/// Helper of the line editor over a session.
pub(super) struct LineHelper {
    names: SessionNames,
    /// Names of runs and pipelines, for the commands that choose one.
    runs: Vec<String>,
    pipelines: Vec<String>,
}

impl LineHelper {
    pub(super) fn new(opened: &OpenSession) -> Self {
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
