//! Tables that a query names in the arguments of a table function, as texts.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::catalog::{CatalogProvider, TableProvider};
use datafusion::common::{TableReference, plan_err};
use datafusion::error::Result;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, TableFactor, TableFunctionArgs, Value, Visit, Visitor,
};
use futures::FutureExt;

use crate::sql::state::FILES;

/// Tables that the statement names in the first `count` arguments of the table function `function`.
pub(in crate::sql) fn named_tables(statement: &Statement, function: &str, count: usize) -> Vec<TableReference> {
    let Statement::Statement(parsed) = statement else { return Vec::new() };
    let mut names = ArgumentNames { function, count, found: Vec::new() };
    let _ = parsed.visit(&mut names);
    names.found
}

struct ArgumentNames<'n> {
    function: &'n str,
    count: usize,
    found: Vec<TableReference>,
}

impl Visitor for ArgumentNames<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: Some(TableFunctionArgs { args, .. }), .. } = factor
            && name.to_string().eq_ignore_ascii_case(self.function)
        {
            let texts = args.iter().take(self.count).filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
                    Value::SingleQuotedString(text) => Some(text.as_str()),
                    _ => None,
                },
                _ => None,
            });
            self.found.extend(texts.map(TableReference::from));
        }
        ControlFlow::Continue(())
    }
}

/// Table that the session has registered under this name.
///
/// # Errors
/// There is no such table.
pub(super) fn registered_table(catalog: &dyn CatalogProvider, name: &str) -> Result<Arc<dyn TableProvider>> {
    let reference = TableReference::from(name);
    let schema = catalog.schema(reference.schema().unwrap_or(FILES));
    // Tables are in memory, so looking one up never waits.
    let found = schema.and_then(|schema| schema.table(reference.table()).now_or_never());
    match found.transpose()?.flatten() {
        Some(table) => Ok(table),
        None => plan_err!("there is no table `{name}`"),
    }
}
