//! `topk_join('queries', 'items', k [, 'measure' [, 'method']])`: table of the k nearest items of each query.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Column, ScalarValue, TableReference, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder};

use crate::sql::run_catalogs::RunCatalogs;
use crate::sql::topk_join::{MEASURE, RANK, TopKJoin, join_method};
use crate::sql::vectors::{VectorMeasure, number_type};

/// Measure without a fourth argument.
const DEFAULT: VectorMeasure = VectorMeasure::CosineSimilarity;

/// Table function over the tables of a session.
///
/// The columns are those of the queries, named `query_…`, those of the items, both without vectors, `rank` from 1, and
/// `score`, the measure. Rows without a vector are left out. With a method against hubs, `score` is the cosine that the
/// method has corrected; it learns from all queries of the table.
#[derive(Debug)]
pub(super) struct TopKJoinFunction {
    /// Tables of the session. Those that the arguments name have been looked up before.
    pub tables: Arc<RunCatalogs>,
}

impl TopKJoinFunction {
    fn table(&self, name: &str) -> Result<Arc<dyn TableProvider>> {
        let Some(table) = self.tables.known(&TableReference::from(name)) else {
            return plan_err!("there is no table `{name}`");
        };
        Ok(table)
    }
}

impl TableFunctionImpl for TopKJoinFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let wanted = "wanted `topk_join('queries', 'items', k [, 'measure' [, 'method']])`, with names of tables in \
                      single quotes";
        let text = |expr: &Expr| match expr {
            Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Ok(text.clone()),
            other => plan_err!("`{other}` is no text, {wanted}"),
        };
        let [queries, items, k, more @ ..] = args.exprs() else {
            return plan_err!("`topk_join` has {} arguments, {wanted}", args.exprs().len());
        };
        if more.len() > 2 {
            return plan_err!("`topk_join` has {} arguments, {wanted}", args.exprs().len());
        }
        let measure = match more.first().map(text).transpose()? {
            None => DEFAULT,
            Some(name) => match VectorMeasure::from_name(&name.to_lowercase()) {
                Some(measure) => measure,
                None => {
                    let known = VectorMeasure::ALL.map(VectorMeasure::name).join(", ");
                    return plan_err!("there is no measure `{name}`, wanted one of {known}");
                }
            },
        };
        let method = more.get(1).map(text).transpose()?;
        if let Some(method) = &method {
            // Mistakes are found before any row is read.
            join_method(method)?;
            if measure != VectorMeasure::CosineSimilarity {
                let wanted = VectorMeasure::CosineSimilarity.name();
                return plan_err!("a method corrects cosines, got the measure `{}`, wanted `{wanted}`", measure.name());
            }
        }
        let k = match k {
            Expr::Literal(ScalarValue::Int64(Some(k)), _) if *k > 0 => usize::try_from(*k).unwrap_or(usize::MAX),
            other => return plan_err!("k of `topk_join` is {other}, wanted a whole number from 1"),
        };
        let [queries, items] = [("query", text(queries)?), ("item", text(items)?)].map(|(side, name)| {
            let table = self.table(&name)?;
            let scan = LogicalPlanBuilder::scan(side, provider_as_source(table), None)?.build()?;
            let vector = vector_column(&scan, &name)?;
            Ok::<_, DataFusionError>((scan, vector))
        });
        let ((queries, query_vector), (items, item_vector)) = (queries?, items?);
        let mut columns = Vec::new();
        for (plan, vector, prefix) in [(&queries, &query_vector, "query_"), (&items, &item_vector, "")] {
            let others = plan.schema().columns().into_iter().filter(|column| column != vector);
            columns.extend(others.map(|column| {
                let name = format!("{prefix}{}", column.name);
                Expr::Column(column).alias(name)
            }));
        }
        columns.push(Expr::Column(Column::from_name(RANK)).alias("rank"));
        columns.push(Expr::Column(Column::from_name(MEASURE)).alias("score"));
        let vectors = [query_vector, item_vector].map(Expr::Column);
        let join = TopKJoin::try_new([queries, items], measure, k, vectors, None)?.with_method(method);
        let join = LogicalPlan::Extension(Extension { node: Arc::new(join) });
        let plan = LogicalPlanBuilder::from(join).project(columns)?.build()?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}

/// The column of vectors of a table.
fn vector_column(table: &LogicalPlan, name: &str) -> Result<Column> {
    let is_vector = |of: &DataType| number_type(of).is_some_and(DataType::is_floating);
    let fields = table.schema().iter();
    let found: Vec<Column> = fields.filter(|(_, field)| is_vector(field.data_type())).map(Column::from).collect();
    match found.as_slice() {
        [column] => Ok(column.clone()),
        [] => plan_err!("`{name}` has no column of vectors"),
        several => {
            let names: Vec<&str> = several.iter().map(|column| column.name.as_str()).collect();
            plan_err!(
                "`{name}` has the vectors {}, wanted one column; `LATERAL (SELECT … ORDER BY cosine_distance(a, b) LIMIT \
                 k)` names one",
                names.join(", ")
            )
        }
    }
}
