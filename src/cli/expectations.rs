//! Checks of the `[[expect]]` tables of a pipeline.

use std::cell::RefCell;
use std::ffi::OsStr;

use super::program::Program;
use super::siblings::Sibling;
use super::sql_child::ask;
use super::sql_requests::{QueryValue, SqlRequest, TableDeclaration};
use super::table_value::read_value;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::ErrorMessage;
use pairloom_pipeline::{ExpectedValue, Pipeline};
use pairloom_registry::AnyStage;
use pairloom_stage::plan::PlanNode;
use pairloom_stage::{OutputKind, Stage};
use pairloom_store::Store;
use pairloom_store::record::{ExpectationRecord, RunRecord, ScoreRecord, StageRecord};

/// Check of the queries of a pipeline, in this program or in a child.
pub(super) struct QueryCheck<'p> {
    program: &'p Program,
    /// Error of the program that checks queries, if it is not there.
    missing: RefCell<Option<Error>>,
}

impl<'p> QueryCheck<'p> {
    pub(super) fn new(program: &'p Program) -> Self {
        Self { program, missing: RefCell::default() }
    }

    /// Plans every query against empty tables with the columns that the pipeline will write, so that a wrong query is found
    /// before anything runs. Returns the index and the error of each wrong query.
    pub(super) fn check(&self, stages: &[PlanNode<AnyStage>], queries: &[&str]) -> Vec<(usize, Error)> {
        if self.program.sql.is_none()
            && let Err(error) = Sibling::Sql.path()
        {
            *self.missing.borrow_mut() = Some(error);
            return vec![];
        }
        let queries: Vec<String> = queries.iter().map(|query| (*query).to_owned()).collect();
        let checked = match &self.program.sql {
            Some(sql) => (sql.check_queries)(&declared_tables(stages), &queries),
            None => {
                let request = SqlRequest::CheckQueries { tables: declared_tables(stages), queries };
                let errors = ask::<Vec<Option<ErrorMessage>>>(Sibling::Sql, &request, &mut || Ok(()));
                errors.map(|errors| errors.into_iter().map(|error| error.map(Error::from)).collect())
            }
        };
        match checked {
            Ok(errors) => errors.into_iter().enumerate().filter_map(|(i, error)| Some((i, error?))).collect(),
            Err(error) => vec![(0, error)],
        }
    }

    /// Error because of which queries were not checked, if there are any and their program is not there.
    pub(super) fn missing(self) -> Option<Error> {
        self.missing.into_inner()
    }
}

/// Tables that stages will write.
fn declared_tables(stages: &[PlanNode<AnyStage>]) -> Vec<TableDeclaration> {
    let mut tables = Vec::new();
    for node in stages {
        for output in node.stage.outputs() {
            if let OutputKind::Table { schema, .. } = output.kind {
                let (stage, coordinates) = (node.name.clone(), node.coordinates.clone());
                tables.push(TableDeclaration { stage, coordinates, table: output.name.to_owned(), schema });
            }
        }
    }
    tables
}

/// Evaluates every expectation on the tables of the run and adds the results to the run's record, also as scores. `place` is
/// the store, as for `--store`.
///
/// # Errors
/// A query is wrong or does not give a single number, or not exactly one row has a value (the other expectations are still
/// evaluated), or the store cannot be read.
pub(super) fn check_expectations(
    program: &Program,
    pipeline: &Pipeline<AnyStage>,
    (place, store): (&OsStr, &Store),
    record: &mut RunRecord,
) -> Result<()> {
    let queries = pipeline.expectations.iter().filter_map(|expectation| match &expectation.subject {
        ExpectedValue::Query(sql) => Some(sql.clone()),
        ExpectedValue::Table(_) => None,
    });
    let mut of_queries = query_values(program, (place, store), &record.stages, queries.collect())?.into_iter();
    let mut first_error = None;
    for expectation in &pipeline.expectations {
        let value = match &expectation.subject {
            ExpectedValue::Query(_) => {
                of_queries.next().unwrap_or_else(|| Err(Error::internal("a query has no answer")))
            }
            ExpectedValue::Table(value) => {
                read_value(store, &record.stages, value).map(|number| QueryValue::new(value.column.clone(), number))
            }
        };
        let value = match value {
            Ok(of_query) => {
                let (metric, value) = (of_query.column.clone(), of_query.value());
                let (stage, table, of) = (String::new(), String::new(), format!("wanted {}", expectation.wanted()));
                record.scores.push(ScoreRecord { stage, table, metric, of, value });
                Some(value)
            }
            Err(error) => {
                let place = format!("{}:{}", pipeline.path.display(), expectation.line);
                first_error.get_or_insert(error.context(place));
                None
            }
        };
        record.expectations.push(ExpectationRecord {
            sql: expectation.sql(),
            value,
            wanted: expectation.wanted(),
            held: value.is_some_and(|value| expectation.holds(value)),
        });
    }
    first_error.map_or(Ok(()), Err)
}

/// Values of queries over the results of stages, in this program or in a child.
fn query_values(
    program: &Program,
    (place, store): (&OsStr, &Store),
    stages: &[StageRecord],
    queries: Vec<String>,
) -> Result<Vec<Result<QueryValue>>> {
    if queries.is_empty() {
        return Ok(vec![]);
    }
    if let Some(sql) = &program.sql {
        return (sql.query_values)(store, stages, &queries);
    }
    let request = SqlRequest::QueryValues { store: place.to_owned(), stages: stages.to_vec(), queries };
    let values = ask::<Vec<Result<QueryValue, ErrorMessage>>>(Sibling::Sql, &request, &mut || Ok(()))?;
    Ok(values.into_iter().map(|value| value.map_err(Error::from)).collect())
}
