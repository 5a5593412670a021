//! The queries of `tests/sql/` and their answers. The tests of the programs run the same files with DuckDB.

use std::path::Path;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};

use crate::Session;
use pairloom_base::error::Error;

struct OwnSql(Session);

impl DB for OwnSql {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Error> {
        let answer = self.0.query(sql)?;
        let types = vec![DefaultColumnType::Any; answer.schema().fields().len()];
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        for batch in answer {
            let batch = batch?;
            let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap());
            let columns: Vec<ArrayFormatter<'_>> = columns.collect();
            let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>();
            rows.extend((0..batch.num_rows()).map(row));
        }
        Ok(DBOutput::Rows { types, rows })
    }

    fn engine_name(&self) -> &'static str {
        "pairloom"
    }
}

#[test]
fn queries_have_the_answers_of_the_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let mut runner = Runner::new(|| async { Session::of_empty_tables([]).map(OwnSql) });
        runner.run_file(&file).unwrap_or_else(|error| panic!("{error}"));
    }
}
