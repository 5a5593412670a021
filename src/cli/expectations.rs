//! Checks of the `[[expect]]` queries of a pipeline.

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

use super::units::format_items;
use crate::error::{Error, Result};
use crate::pipeline::{Expectation, Pipeline};
use crate::plan::PlanNode;
use crate::registry::AnyStage;
use crate::sql::{DeclaredTable, Session, StageArtefact};
use crate::stage::{OutputKind, Stage};
use crate::store::Store;
use crate::store::record::{ExpectationRecord, RunRecord, ScoreRecord};

/// Plans every query against empty tables with the columns that the pipeline will write, so that a wrong query is found
/// before anything runs. Returns the index and the error of each wrong query.
pub(super) fn check_queries(stages: &[PlanNode<AnyStage>], expectations: &[Expectation]) -> Vec<(usize, Error)> {
    if expectations.is_empty() {
        return vec![];
    }
    let mut tables = Vec::new();
    for node in stages {
        for output in node.stage.outputs() {
            if let OutputKind::Table { schema, .. } = output.kind {
                let (stage, coordinates) = (node.name.clone(), node.coordinates.clone());
                tables.push(DeclaredTable { stage, coordinates, table: output.name.to_owned(), schema });
            }
        }
    }
    let session = match Session::of_empty_tables(tables) {
        Ok(session) => session,
        Err(error) => return vec![(0, error)],
    };
    let problem = |expectation: &Expectation| match session.query(&expectation.sql) {
        Ok(rows) => match rows.schema().fields().len() {
            1 => None,
            columns => {
                Some(Error::usage(format!("the query gives {}, wanted one number", format_items(columns, "columns"))))
            }
        },
        // A diagnostic shows the query itself.
        Err(error) => Some(first_line(error)),
    };
    let numbered = expectations.iter().enumerate();
    numbered.filter_map(|(i, expectation)| Some((i, problem(expectation)?))).collect()
}

/// Error with the first line of its message.
fn first_line(error: Error) -> Error {
    let text = error.to_string();
    let short = Error::new(error.category(), text.lines().next().unwrap_or_default());
    match error.hint_text() {
        Some(hint) => short.hint(hint),
        None => short,
    }
}

/// Evaluates every expectation on the tables of the run and adds the results to the run's record, also as scores.
///
/// # Errors
/// A query is wrong or does not give a single number (the other expectations are still evaluated), or the store cannot
/// be read.
pub(super) fn check_expectations(pipeline: &Pipeline<AnyStage>, store: &Store, record: &mut RunRecord) -> Result<()> {
    if pipeline.expectations.is_empty() {
        return Ok(());
    }
    let session = Session::of_stages(store, record.stages.iter().map(StageArtefact::from))?;
    let mut first_error = None;
    for expectation in &pipeline.expectations {
        let value = match query_value(&session, expectation) {
            Ok((metric, value)) => {
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
            sql: expectation.sql.clone(),
            value,
            wanted: expectation.wanted(),
            held: value.is_some_and(|value| expectation.holds(value)),
        });
    }
    first_error.map_or(Ok(()), Err)
}

/// Single number that a query gives, with the name of its column.
fn query_value(session: &Session, expectation: &Expectation) -> Result<(String, f64)> {
    let mut number = None;
    let mut rows = 0;
    let result = session.query(&expectation.sql)?;
    let columns = result.schema().fields().len();
    let name = result.schema().fields().first().map(|field| field.name().clone()).unwrap_or_default();
    for batch in result {
        let batch = batch?;
        rows += batch.num_rows();
        if columns == 1 && batch.num_rows() > 0 {
            let numbers = cast(batch.column(0), &DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            number = numbers.is_valid(0).then(|| numbers.value(0));
        }
    }
    match number {
        Some(value) if rows == 1 => Ok((name, value)),
        None if rows == 1 && columns == 1 => Err(Error::usage("the value is not a number")),
        _ => {
            let (rows, columns) = (format_items(rows, "rows"), format_items(columns, "columns"));
            Err(Error::usage(format!("the query gave {rows} of {columns}, wanted one number")))
        }
    }
}
