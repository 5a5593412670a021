//! The `[[expect]]`s of a pipeline, over the tables of one run.

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

use crate::error::{Error, Result};
use crate::pipeline::{Expectation, Pipeline};
use crate::plan::Plan;
use crate::sql::Session;
use crate::stage::{Form, Stage};
use crate::stages::AnyStage;
use crate::store::Store;
use crate::store::record::{ExpectationRecord, RunRecord};

/// Which queries cannot be asked of the tables that the plan will make, and why: so that a slip costs no run.
pub(super) fn rehearse(plan: &Plan<AnyStage>, expectations: &[Expectation]) -> Vec<(usize, Error)> {
    if expectations.is_empty() {
        return vec![];
    }
    let mut tables = Vec::new();
    for node in plan.nodes() {
        for output in node.stage.outputs() {
            if let Form::Table { schema, .. } = output.form {
                tables.push((node.name.clone(), output.name.to_owned(), schema));
            }
        }
    }
    let session = match Session::of_columns(tables) {
        Ok(session) => session,
        Err(error) => return vec![(0, error)],
    };
    let problem = |expectation: &Expectation| match session.query(&expectation.sql) {
        Ok(rows) => match rows.schema().fields().len() {
            1 => None,
            columns => Some(Error::usage(format!("the query gives {columns} columns, wanted one number"))),
        },
        Err(error) => Some(error),
    };
    let numbered = expectations.iter().enumerate();
    numbered.filter_map(|(i, expectation)| Some((i, problem(expectation)?))).collect()
}

/// Checks every expectation, and puts what came out into the record of the run, in the store as well.
///
/// # Errors
/// A query is wrong, or gives no single number; the store cannot be read or written. The others are checked all the same.
pub(super) fn check(pipeline: &Pipeline<AnyStage>, store: &Store, record: &mut RunRecord) -> Result<()> {
    if pipeline.expectations.is_empty() {
        return Ok(());
    }
    let stages = record.stages.iter().map(|stage| (stage.name.clone(), stage.kind.clone(), stage.key.clone()));
    let session = Session::of_stages(store, stages)?;
    let mut first = None;
    for expectation in &pipeline.expectations {
        let value = match value(&session, expectation) {
            Ok(value) => Some(value),
            Err(error) => {
                let place = format!("{}:{}", pipeline.path.display(), expectation.line);
                first.get_or_insert(error.context(place));
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
    record.save(store)?;
    first.map_or(Ok(()), Err)
}

/// The one number that a query gives.
fn value(session: &Session, expectation: &Expectation) -> Result<f64> {
    let mut found = None;
    let mut rows = 0;
    let answer = session.query(&expectation.sql)?;
    let columns = answer.schema().fields().len();
    for batch in answer {
        let batch = batch?;
        rows += batch.num_rows();
        if columns == 1 && batch.num_rows() > 0 {
            let numbers = cast(batch.column(0), &DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            found = numbers.is_valid(0).then(|| numbers.value(0));
        }
    }
    match found {
        Some(value) if rows == 1 => Ok(value),
        None if rows == 1 && columns == 1 => Err(Error::usage("the value is no number, wanted one")),
        _ => Err(Error::usage(format!("the query gave {rows} rows of {columns} columns, wanted one number"))),
    }
}
