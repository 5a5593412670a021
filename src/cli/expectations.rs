//! Checks of the `[[expect]]` tables of a pipeline: their queries, and the values that they expect in tables of a run.

use std::cell::RefCell;
use std::ffi::OsStr;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{and, cast};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use arrow::util::display::array_value_to_string;

use super::open::read_table;
use super::siblings::Sibling;
use super::sql_requests::{QueryValue, SqlRequest, TableDeclaration, ask};
use super::start::Program;
use super::units::format_items;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::ErrorMessage;
use pairloom_pipeline::{ConditionValue, ExpectedValue, Pipeline, TableValue};
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
    let mut query_results = query_values(program, (place, store), &record.stages, queries.collect())?.into_iter();
    let mut first_error = None;
    for expectation in &pipeline.expectations {
        let value = match &expectation.subject {
            ExpectedValue::Query(_) => {
                query_results.next().unwrap_or_else(|| Err(Error::internal("a query has no answer")))
            }
            ExpectedValue::Table(value) => {
                read_value(store, &record.stages, value).map(|number| QueryValue::new(value.column.clone(), number))
            }
        };
        let value = match value {
            Ok(query_value) => {
                let (metric, value) = (query_value.column.clone(), query_value.value());
                let (stage, table, of) = (String::new(), String::new(), format!("expected {}", expectation.wanted()));
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

/// Rows that an error describes.
const SHOWN_ROWS: usize = 3;
/// Columns by which an error tells rows from each other.
const SHOWN_COLUMNS: usize = 3;

/// Row that an error may describe: a batch of one row, with the name of its stage.
struct SeenRow {
    stage: String,
    row: RecordBatch,
}

/// Reads the value of the only row of a table that satisfies the conditions.
///
/// # Errors
/// No row or several rows satisfy them; the value is missing; the store cannot be read.
fn read_value(store: &Store, stages: &[StageRecord], value: &TableValue) -> Result<f64> {
    let instances = value.instances(stages.iter().map(|stage| stage.name.as_str()));
    if instances.is_empty() {
        return Err(Error::usage(format!("the run has no stage for `{value}`")));
    }
    let is_one = matches!(instances.as_slice(), [only] if value.names_exactly(&stages[*only].name));
    let (mut count, mut found, mut matching, mut others) = (0, None, Vec::new(), Vec::new());
    for stage in instances.into_iter().map(|i| &stages[i]) {
        for batch in read_table(store, stage, &value.table)? {
            let batch = batch?;
            let chosen = chosen_rows(&batch, value, if is_one { None } else { Some(stage) })?;
            let rows = || (0..batch.num_rows()).map(|row| (row, chosen.is_valid(row) && chosen.value(row)));
            for (row, is_chosen) in rows() {
                let seen = if is_chosen { &mut matching } else { &mut others };
                if seen.len() < SHOWN_ROWS {
                    seen.push(SeenRow { stage: stage.name.clone(), row: batch.slice(row, 1) });
                }
                if is_chosen {
                    count += 1;
                    found = number(&batch, &value.column, row)?;
                }
            }
        }
    }
    match (count, found) {
        (1, Some(number)) => Ok(number),
        (1, None) => Err(Error::usage(format!("the value of `{}` in `{value}` is missing", value.column))),
        (0, _) => {
            let error = Error::usage(format!("no row of `{value}` has these values, expected exactly one"));
            let shown: Vec<String> = others.iter().map(|seen| described(seen, &condition_columns(value))).collect();
            let has_text = shown.iter().any(|text| !text.is_empty());
            Err(if has_text { error.hint(format!("the first rows have {}", shown.join("; "))) } else { error })
        }
        (count, _) => {
            let error = Error::usage(format!(
                "{} of `{value}` have these values, expected exactly one",
                format_items(count, "rows")
            ));
            let shown: Vec<String> =
                matching.iter().map(|seen| described(seen, &differing(&matching, value))).collect();
            let has_text = shown.iter().any(|text| !text.is_empty());
            Err(if has_text {
                error.hint(format!("add to `where` what tells them apart: {}", shown.join("; ")))
            } else {
                error
            })
        }
    }
}

/// Number of a column in a row; `None` if it is missing.
fn number(batch: &RecordBatch, column: &str, row: usize) -> Result<Option<f64>> {
    let Some(column) = batch.column_by_name(column) else { return Ok(None) };
    let numbers = cast(&column.slice(row, 1), &DataType::Float64)?;
    let numbers = numbers.as_primitive::<Float64Type>();
    Ok(numbers.is_valid(0).then(|| numbers.value(0)))
}

/// Rows of a batch that satisfy all conditions. `instance` is the stage of the batch, if its axes are columns.
fn chosen_rows(batch: &RecordBatch, value: &TableValue, instance: Option<&StageRecord>) -> Result<BooleanArray> {
    let rows = batch.num_rows();
    let mut chosen = BooleanArray::from(vec![true; rows]);
    for (name, condition) in &value.conditions {
        let condition_values = match batch.column_by_name(name) {
            Some(column) => equal_rows(column, condition)?,
            None => {
                let coordinates = instance.map(|stage| stage.coordinates.as_slice()).unwrap_or_default();
                let is_own = |name: &str| batch.column_by_name(name).is_some();
                let coordinate = TableValue::coordinate(coordinates, name, is_own);
                let holds = coordinate.is_some_and(|coordinate| condition.is_coordinate(&coordinate.value));
                BooleanArray::from(vec![holds; rows])
            }
        };
        chosen = and(&chosen, &condition_values)?;
    }
    Ok(chosen)
}

/// Rows of a column that have a value. Missing values are missing in the result.
fn equal_rows(column: &ArrayRef, condition: &ConditionValue) -> Result<BooleanArray> {
    let data_type = column.data_type();
    let none = || BooleanArray::from(vec![false; column.len()]);
    let equal_floats = |expected: f64| -> Result<BooleanArray> {
        // A column of f32 has the nearest f32.
        #[expect(clippy::cast_possible_truncation, reason = "rounded as the column is")]
        let expected = if *data_type == DataType::Float32 { f64::from(expected as f32) } else { expected };
        let numbers = cast(column, &DataType::Float64)?;
        Ok(numbers.as_primitive::<Float64Type>().iter().map(|number| Some(number? == expected)).collect())
    };
    Ok(match condition {
        ConditionValue::Boolean(expected) if *data_type == DataType::Boolean => {
            column.as_boolean().iter().map(|value| Some(value? == *expected)).collect()
        }
        ConditionValue::Integer(expected) if data_type.is_integer() => {
            let numbers = cast(column, &DataType::Int64)?;
            numbers.as_primitive::<Int64Type>().iter().map(|number| Some(number? == *expected)).collect()
        }
        #[expect(clippy::cast_precision_loss, reason = "compared as SQL compares")]
        ConditionValue::Integer(expected) if data_type.is_numeric() => equal_floats(*expected as f64)?,
        ConditionValue::Number(expected) if data_type.is_numeric() => equal_floats(*expected)?,
        ConditionValue::Text(expected) => {
            let texts = cast(column, &DataType::Utf8)?;
            texts.as_string::<i32>().iter().map(|text| Some(text? == expected)).collect()
        }
        _ => none(),
    })
}

/// Columns of the conditions.
fn condition_columns(value: &TableValue) -> Vec<String> {
    value.conditions.iter().map(|(name, _)| name.clone()).collect()
}

/// Columns of names and whole numbers in which rows differ.
fn differing(rows: &[SeenRow], value: &TableValue) -> Vec<String> {
    let Some((first, others)) = rows.split_first() else { return Vec::new() };
    let names = first.row.schema();
    let names = names.fields().iter().map(|field| field.name().clone());
    let known = condition_columns(value);
    let differ = |name: &String| {
        let own = cell(&first.row, name);
        own.is_some() && others.iter().any(|other| cell(&other.row, name) != own)
    };
    names.filter(|name| !known.contains(name) && *name != value.column && differ(name)).take(SHOWN_COLUMNS).collect()
}

/// Value of a text, an integer or a boolean for display.
fn cell(row: &RecordBatch, name: &str) -> Option<String> {
    let column = row.column_by_name(name)?;
    let is_text = matches!(column.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if !(is_text || column.data_type().is_integer() || *column.data_type() == DataType::Boolean) {
        return None;
    }
    if column.is_null(0) {
        return Some("none".to_owned());
    }
    let text = array_value_to_string(column, 0).ok()?;
    Some(if is_text { format!("{text:?}") } else { text })
}

/// Values of some columns of a row, with its instance.
fn described(seen: &SeenRow, columns: &[String]) -> String {
    let instance = seen.stage.contains(pairloom_stage::INSTANCE_SIGN).then(|| format!("`{}`", seen.stage));
    let cells = columns.iter().filter_map(|name| Some(format!("{name} = {}", cell(&seen.row, name)?)));
    instance.into_iter().chain(cells).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float32Array, Int64Array, StringArray};

    use super::*;

    #[test]
    fn rows_are_chosen_by_texts_numbers_and_truth_values() {
        let columns: [(&str, ArrayRef); 4] = [
            ("method", Arc::new(StringArray::from(vec![Some("nns"), Some("csls"), None]))),
            ("k", Arc::new(Int64Array::from(vec![1, 10, 10]))),
            ("alpha", Arc::new(Float32Array::from(vec![0.1, 0.2, 0.1]))),
            ("is_best", Arc::new(BooleanArray::from(vec![true, false, true]))),
        ];
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap();
        let chosen = |conditions: &[(&str, ConditionValue)]| -> Vec<usize> {
            let conditions = conditions.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            let [stage, table, column] = ["test", "summary", "k"].map(str::to_owned);
            let value = TableValue { stage, table, column, conditions };
            let rows = chosen_rows(&batch, &value, None).unwrap();
            (0..3).filter(|&row| rows.is_valid(row) && rows.value(row)).collect()
        };
        let text = |text: &str| ConditionValue::Text(text.to_owned());
        assert_eq!(chosen(&[]), [0, 1, 2]);
        assert_eq!(chosen(&[("method", text("nns"))]), [0]);
        assert_eq!(chosen(&[("k", ConditionValue::Integer(10))]), [1, 2]);
        assert_eq!(chosen(&[("k", ConditionValue::Number(10.0))]), [1, 2]);
        assert_eq!(chosen(&[("alpha", ConditionValue::Number(0.1))]), [0, 2]);
        assert_eq!(chosen(&[("is_best", ConditionValue::Boolean(false))]), [1]);
        assert_eq!(chosen(&[("k", ConditionValue::Integer(10)), ("method", text("nns"))]), [] as [usize; 0]);
        assert_eq!(chosen(&[("seed", ConditionValue::Integer(1))]), [] as [usize; 0]);
    }
}
