//! Parameters of a query, written `?` or `$1`: their types, and the values that take their places.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type};
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ParamValues, ScalarValue, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::sql::sqlparser::ast::{self, Statement, Value, ValueWithSpan, VisitMut, VisitorMut};
use datafusion::sql::sqlparser::tokenizer::Location;

use crate::vectors::{TOPK, is_best_of, is_vector_function, number_type};
use pairloom_base::error::Error;

/// Value of a parameter.
pub type ParameterValue = ScalarValue;

/// Numbers the parameters of a statement that are written `?`: `$1`, `$2` and so on, in the order of the text.
///
/// DataFusion 55 takes all of them for one parameter.
///
/// # Errors
/// The statement has parameters of both forms, or one that is no number.
pub(super) fn number_parameters(sql: &mut Statement) -> Result<(), Error> {
    let mut found = WrittenParameters::default();
    let _ = sql.visit(&mut found);
    if let Some(name) = found.names.iter().find(|name| position(name).is_none()) {
        return Err(Error::usage(format!("SQL: the parameter `{name}` has a name, expected `?` or `$1`")));
    }
    if found.unnumbered.is_empty() {
        return Ok(());
    }
    if !found.names.is_empty() {
        return Err(Error::usage("SQL: the query has parameters of the forms `?` and `$1`, expected one form"));
    }
    found.unnumbered.sort_unstable();
    let _ = sql.visit(&mut Numbering { places: found.unnumbered });
    Ok(())
}

/// Parameters of a statement: places of those without a number, and names of the others.
#[derive(Default)]
struct WrittenParameters {
    unnumbered: Vec<Location>,
    names: Vec<String>,
}

impl VisitorMut for WrittenParameters {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Value(ValueWithSpan { value: Value::Placeholder(name), span }) = expr {
            if name == "?" {
                self.unnumbered.push(span.start);
            } else {
                self.names.push(name.clone());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Visitor that names parameters by their places.
struct Numbering {
    /// Places in order.
    places: Vec<Location>,
}

impl VisitorMut for Numbering {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Value(ValueWithSpan { value: Value::Placeholder(name), span }) = expr
            && let Ok(at) = self.places.binary_search(&span.start)
        {
            *name = format!("${}", at + 1);
        }
        ControlFlow::Continue(())
    }
}

/// Number of the parameter `$3`, from 1.
fn position(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse().ok().filter(|&number| number > 0)
}

/// Plan whose parameters have the types that the query implies: beside a vector in a function of vectors, the type of
/// that vector; in `LIMIT` and `OFFSET`, a whole number; otherwise as DataFusion infers.
pub(super) fn with_parameter_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    let typed = plan.transform_up_with_subqueries(|plan| {
        let schema = merge_schema(&plan.inputs());
        let is_limit = matches!(plan, LogicalPlan::Limit(_));
        plan.map_expressions(|mut expr| {
            if is_limit {
                with_type(&mut expr, &DataType::Int64);
            }
            let (expr, has_parameter) = expr.infer_placeholder_types(&schema)?;
            if !has_parameter {
                return Ok(Transformed::no(expr));
            }
            expr.transform_up(|mut expr| {
                let vectors: &mut [Expr] = match &mut expr {
                    Expr::ScalarFunction(call) if is_vector_function(&call.func) => &mut call.args,
                    Expr::AggregateFunction(call) if call.func.name() == TOPK && call.params.args.len() > 3 => {
                        with_type(&mut call.params.args[3], &DataType::Int64);
                        &mut call.params.args[1..3]
                    }
                    // The k best rows.
                    Expr::AggregateFunction(call) if is_best_of(&call.func) => {
                        call.params.args.iter_mut().skip(2).for_each(|k| with_type(k, &DataType::Int64));
                        &mut []
                    }
                    _ => &mut [],
                };
                let [a, b] = vectors else { return Ok(Transformed::no(expr)) };
                with_type_beside(a, b, &schema)?;
                with_type_beside(b, a, &schema)?;
                Ok(Transformed::yes(expr))
            })
        })
    })?;
    Ok(typed.data)
}

/// Gives a parameter without a type this type.
fn with_type(parameter: &mut Expr, data_type: &DataType) {
    if let Expr::Placeholder(Placeholder { field: field @ None, .. }) = parameter {
        *field = Some(Arc::new(Field::new("", data_type.clone(), true)));
    }
}

/// Gives a parameter without a type the type of the vector beside it.
fn with_type_beside(parameter: &mut Expr, beside: &Expr, schema: &DFSchema) -> Result<()> {
    if let Expr::Placeholder(Placeholder { field: field @ None, .. }) = parameter {
        let vectors = beside.get_type(schema)?;
        *field = number_type(&vectors).is_some().then(|| Arc::new(Field::new("", vectors, true)));
    }
    Ok(())
}

/// Parameters of a plan in order, named `$1` and so on. One whose type is not known has the type of a missing value.
///
/// # Errors
/// A number is left out, or one parameter has two types.
pub(super) fn parameters(plan: &LogicalPlan) -> Result<Vec<FieldRef>, DataFusionError> {
    let found = plan.get_parameter_fields()?;
    let by_number: BTreeMap<usize, Option<FieldRef>> =
        found.into_iter().filter_map(|(name, field)| Some((position(&name)?, field))).collect();
    by_number
        .into_iter()
        .enumerate()
        .map(|(at, (number, field))| {
            if number != at + 1 {
                let expected = at + 1;
                return plan_err!("the parameter `${number}` is used, and `${expected}` is not");
            }
            let data_type = field.map_or(DataType::Null, |field| field.data_type().clone());
            Ok(Arc::new(Field::new(format!("${number}"), data_type, true)))
        })
        .collect()
}

/// Plan with values in the places of its parameters. Lists of numbers get the type of the vectors that they are compared
/// with.
///
/// # Errors
/// There are more or fewer values than parameters, or a list has another length than the vectors.
pub(super) fn bind(plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    let expected = parameters(&plan)?;
    if expected.len() != values.len() {
        return plan_err!("got {} values, and the query has {} parameters", values.len(), expected.len());
    }
    let values = expected.iter().zip(values).map(|(field, value)| converted(value, field));
    let values = values.collect::<Result<Vec<_>>>()?;
    with_values(plan, values)
}

/// Plan with values in the places of its parameters, as they are.
pub(super) fn with_values(plan: LogicalPlan, values: Vec<ScalarValue>) -> Result<LogicalPlan> {
    if values.is_empty() {
        return Ok(plan);
    }
    plan.with_param_values(ParamValues::List(values.into_iter().map(ScalarAndMetadata::from).collect()))
}

/// Value as a vector, if the parameter is one, or as a whole number of 64 bits; otherwise as it is, and the query converts
/// it.
fn converted(value: &ScalarValue, parameter: &Field) -> Result<ScalarValue> {
    let (name, expected) = (parameter.name(), parameter.data_type());
    if *expected == DataType::Int64 && value.data_type().is_integer() {
        return value.cast_to(expected);
    }
    if number_type(expected).is_none() {
        return Ok(value.clone());
    }
    if value.is_null() {
        return plan_err!("`{name}` is missing, expected a vector");
    }
    if number_type(&value.data_type()).is_none() {
        return plan_err!("`{name}` is {}, expected a vector: a list of numbers", value.data_type());
    }
    let Some(values) = list_values(value) else { return plan_err!("`{name}` is no list") };
    if let DataType::FixedSizeList(_, width) = expected
        && usize::try_from(*width).ok() != Some(values.len())
    {
        return plan_err!("`{name}` has {} numbers, expected {width} as the column beside it", values.len());
    }
    let numbers = cast(&values, &DataType::Float32)?;
    let numbers = numbers.as_primitive::<Float32Type>();
    if let Some(at) = numbers.iter().position(|number| number.is_none_or(|number| !number.is_finite())) {
        return plan_err!(
            "`{name}` has a value that is missing or not finite in f32, at place {} of the vector",
            at + 1
        );
    }
    if value.data_type() == *expected { Ok(value.clone()) } else { value.cast_to(expected) }
}

/// Values of a list.
fn list_values(value: &ScalarValue) -> Option<ArrayRef> {
    match value {
        ScalarValue::List(list) => Some(list.value(0)),
        ScalarValue::LargeList(list) => Some(list.value(0)),
        ScalarValue::FixedSizeList(list) => Some(list.value(0)),
        _ => None,
    }
}
