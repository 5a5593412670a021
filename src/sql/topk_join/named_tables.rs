//! Tables that a query names in the arguments of a table function, as texts.

use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, TableFactor, TableFunctionArgs, Value, Visit, Visitor,
};

/// Name of the table function of top-k joins.
pub(in crate::sql) const TOPK_JOIN: &str = "topk_join";

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
