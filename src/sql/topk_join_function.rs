//! `topk_join('queries', 'items', k [, 'measure' [, 'method' [, 'bank' [, 'bank of items']]]])`: table of the k nearest
//! items of each query.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Column, ScalarValue, TableReference, internal_err, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder};

use crate::sql::run_catalogs::RunCatalogs;
use crate::sql::topk_join::{MEASURE, RANK, TopKJoin, join_method, table_and_condition};
use crate::sql::vectors::{VectorMeasure, number_type};

/// Measure without a fourth argument.
const DEFAULT: VectorMeasure = VectorMeasure::CosineSimilarity;

/// Table function over the tables of a session.
///
/// The columns are those of the queries, named `query_…`, those of the items, both without vectors, `rank` from 1, and
/// `score`, the measure. Rows without a vector are left out. With a method against hubs, `score` is the cosine that the
/// method has corrected; it learns from all queries of the table, or from the rows of a bank. A condition after the name
/// of a table, as in `'joint.caption_embeddings WHERE split = ''test'''`, chooses its rows.
#[derive(Debug)]
pub(super) struct TopKJoinFunction {
    /// Tables of the session. Those that the arguments name have been looked up before.
    pub tables: Arc<RunCatalogs>,
}

impl TopKJoinFunction {
    /// Rows of a table that an argument names, perhaps with a condition, and their vectors.
    fn rows(&self, side: &str, text: &str, session: &dyn Session) -> Result<(LogicalPlan, Column)> {
        let (name, condition) = table_and_condition(text);
        let Some(table) = self.tables.known(&TableReference::from(name)) else {
            return plan_err!("there is no table `{name}`");
        };
        let scan = LogicalPlanBuilder::scan(side, provider_as_source(table), None)?;
        let vector = vector_column(scan.plan(), name)?;
        let Some(condition) = condition else { return Ok((scan.build()?, vector)) };
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("a session of another kind");
        };
        let condition = state.create_logical_expr(condition, scan.schema())?;
        Ok((scan.filter(condition)?.build()?, vector))
    }
}

impl TableFunctionImpl for TopKJoinFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let wanted = "wanted `topk_join('queries', 'items', k [, 'measure' [, 'method' [, 'bank' [, 'bank of \
                      items']]]])`, with names of tables in single quotes";
        let text = |expr: &Expr| match expr {
            Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Ok(text.clone()),
            other => plan_err!("`{other}` is no text, {wanted}"),
        };
        let [queries, items, k, more @ ..] = args.exprs() else {
            return plan_err!("`topk_join` has {} arguments, {wanted}", args.exprs().len());
        };
        if more.len() > 4 {
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
        let rows = |side, argument| self.rows(side, &text(argument)?, args.session());
        let ((queries, query_vector), (items, item_vector)) = (rows("query", queries)?, rows("item", items)?);
        let banks = more.iter().skip(2).zip(["bank", "item_bank"]).map(|(bank, side)| rows(side, bank));
        let (banks, bank_vectors): (Vec<_>, Vec<_>) = banks.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let bank_vectors = bank_vectors.into_iter().map(Expr::Column).collect();
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
        let join = join.with_banks(banks, bank_vectors);
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
