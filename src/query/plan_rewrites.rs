//! Rewrites of a query's plan: JSON values as text, and vector functions that DataFusion computes wrongly typed.

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast};
use datafusion_functions_json::JSON_UNION_DATA_TYPE;
use datafusion_functions_json::functions::json_union_to_text;

/// Functions that promise a list of the type of their argument, and return one whose values may be missing.
const LIST_FUNCTIONS: [&str; 1] = ["array_add"];

/// Plan with types that every function and format can hold.
pub(super) fn with_result_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    with_json_as_text(with_nullable_vectors(plan)?)
}

/// Plan whose columns of the JSON functions' union type are text, which every format can hold.
fn with_json_as_text(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_json = |field: &FieldRef| *field.data_type() == *JSON_UNION_DATA_TYPE;
    if !plan.schema().fields().iter().any(is_json) {
        return Ok(plan);
    }
    let columns = plan.schema().iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        if is_json(field) {
            json_union_to_text(column).alias_qualified(qualifier.cloned(), field.name())
        } else {
            column
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// Plan in which [`LIST_FUNCTIONS`] get lists whose values may be missing.
///
/// The vectors of our tables have none, and DataFusion 55 ends with an internal error about the type of the result.
fn with_nullable_vectors(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|plan| {
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        let plan = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|expr| nullable_arguments(expr, &schema))?;
            Ok(rewritten.update_data(|expr| name.restore(expr)))
        })?;
        if plan.transformed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
    })?;
    Ok(rewritten.data)
}

/// Casts the list arguments of [`LIST_FUNCTIONS`].
fn nullable_arguments(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
    if !LIST_FUNCTIONS.contains(&call.func.name()) {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    let list = DataType::List(Field::new_list_field(DataType::Float64, true).into());
    let mut is_changed = false;
    for argument in &mut call.args {
        if let DataType::FixedSizeList(item, _) | DataType::List(item) = argument.get_type(schema)?
            && !item.is_nullable()
        {
            *argument = cast(argument.clone(), list.clone());
            is_changed = true;
        }
    }
    let call = Expr::ScalarFunction(call);
    Ok(if is_changed { Transformed::yes(call) } else { Transformed::no(call) })
}
