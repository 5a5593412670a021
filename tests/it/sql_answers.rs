//! The queries of `tests/sql/` with DuckDB: it has the same answers.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use pairloom_base::error::Error;
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};

use crate::support::python;

struct DuckDb {
    process: Child,
    queries: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl DuckDb {
    /// Starts Python; `None`, after a message, without its packages.
    fn start() -> Option<Self> {
        let mut process = python()?
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("duckdb_answers.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let queries = process.stdin.take().expect("a pipe");
        let answers = BufReader::new(process.stdout.take().expect("a pipe"));
        Some(Self { process, queries, answers })
    }
}

impl DB for DuckDb {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Error> {
        let mut answer = String::new();
        writeln!(self.queries, "{}", serde_json::Value::from(sql)).expect("Python reads");
        self.answers.read_line(&mut answer).expect("Python answers");
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        if let Some(message) = answer.get("error") {
            return Err(Error::usage(message.to_string()));
        }
        let rows: Vec<Vec<String>> = serde_json::from_value(answer).expect("rows of texts");
        let types = vec![DefaultColumnType::Any; rows.first().map_or(1, Vec::len)];
        Ok(DBOutput::Rows { types, rows })
    }

    fn engine_name(&self) -> &'static str {
        "duckdb"
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn duckdb_has_the_answers_of_the_files() {
    if DuckDb::start().is_none() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sql");
    for file in std::fs::read_dir(folder).expect("a folder") {
        let mut runner = Runner::new(|| async { Ok(DuckDb::start().expect("Python is there")) });
        runner.run_file(file.expect("a file").path()).unwrap_or_else(|error| panic!("{error}"));
    }
}
