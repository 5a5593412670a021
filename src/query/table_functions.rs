//! Table functions whose calls differ by their arguments.

use std::sync::Arc;

use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::TableReference;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlanBuilder;

/// Table function whose table has the arguments in its name.
///
/// DataFusion 55 compares scans by the names of their tables and not by their sources, and names the table of each call of
/// `range` alike. So a subquery over `range(0, 5)` was taken for the same over `range(0, 3)`.
#[derive(Debug)]
struct DistinctCalls {
    name: String,
    function: Arc<dyn TableFunctionImpl>,
}

/// Table function of this name whose calls differ by their arguments.
pub(super) fn distinct_calls(name: &str, function: Arc<dyn TableFunctionImpl>) -> Arc<dyn TableFunctionImpl> {
    Arc::new(DistinctCalls { name: name.to_owned(), function })
}

/// Table functions whose calls differ by their arguments.
pub(super) fn with_distinct_calls(functions: Vec<Arc<TableFunction>>) -> Vec<Arc<TableFunction>> {
    let distinct = |function: Arc<TableFunction>| {
        let calls = distinct_calls(function.name(), Arc::clone(function.function()));
        Arc::new(TableFunction::new(function.name().to_owned(), calls))
    };
    functions.into_iter().map(distinct).collect()
}

impl TableFunctionImpl for DistinctCalls {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let arguments: Vec<String> = args.exprs().iter().map(ToString::to_string).collect();
        let name = TableReference::bare(format!("{}({})", self.name, arguments.join(", ")));
        let table = self.function.call_with_args(args)?;
        let plan = LogicalPlanBuilder::scan(name, provider_as_source(table), None)?.build()?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}
