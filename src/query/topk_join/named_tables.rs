//! Tables that a query names in the arguments of a table function, as texts.

use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, TableFactor, TableFunctionArgs, Value, Visit, Visitor,
};

/// Name of the table function of top-k joins.
pub(crate) const TOPK_JOIN: &str = "topk_join";

/// Places of the arguments that name tables: queries, items, and the banks of a method.
const TABLES: [usize; 4] = [0, 1, 5, 6];

/// Name of a table and the condition after it, as in `features WHERE split = 'test'`.
pub(crate) fn table_and_condition(text: &str) -> (&str, Option<&str>) {
    const WHERE: &str = " where ";
    let is_where = |at: &usize| text.get(*at..at + WHERE.len()).is_some_and(|word| word.eq_ignore_ascii_case(WHERE));
    match text.char_indices().map(|(at, _)| at).find(is_where) {
        Some(at) => (text[..at].trim(), Some(text[at + WHERE.len()..].trim())),
        None => (text.trim(), None),
    }
}

/// Tables that the statement names in calls of [`TOPK_JOIN`].
pub(crate) fn named_tables(mut statement: &Statement) -> Vec<TableReference> {
    while let Statement::Explain(explain) = statement {
        statement = &explain.statement;
    }
    let Statement::Statement(parsed) = statement else { return Vec::new() };
    let mut names = ArgumentNames { found: Vec::new() };
    let _ = parsed.visit(&mut names);
    names.found
}

struct ArgumentNames {
    found: Vec<TableReference>,
}

impl Visitor for ArgumentNames {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: Some(TableFunctionArgs { args, .. }), .. } = factor
            && name.to_string().eq_ignore_ascii_case(TOPK_JOIN)
        {
            let texts = TABLES.iter().filter_map(|&place| args.get(place)).filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
                    Value::SingleQuotedString(text) => Some(text.as_str()),
                    _ => None,
                },
                _ => None,
            });
            self.found.extend(texts.map(|text| TableReference::from(table_and_condition(text).0)));
        }
        ControlFlow::Continue(())
    }
}
