//! `topk_join('queries', 'items', k [, 'measure' [, 'method' [, 'bank' [, 'bank of items']]]])`: table of the k nearest
//! items of each query. The tables are named in its arguments, as texts.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Column, ScalarValue, TableReference, internal_err, plan_err};
use datafusion::config::Dialect;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, Statement, TableFactor, Value, Visit, Visitor,
};

use crate::dialect::check_condition;
use crate::result_files::external;
use crate::session_tables::RunCatalogs;
use crate::state::FILES;
use crate::topk_join::{MEASURE, RANK, TopKJoin, join_k, join_method};
use crate::vectors::{VectorMeasure, number_type};
use pairloom_retrieval::{Method, cosine_problem};

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
        let parsed = state.sql_to_expr_with_alias(condition, &Dialect::Generic)?;
        check_condition(&parsed.expr, state, condition).map_err(external)?;
        let condition = state.create_logical_expr_from_sql_expr(parsed, scan.schema())?;
        Ok((scan.filter(condition)?.build()?, vector))
    }
}

impl TableFunctionImpl for TopKJoinFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let expected = "expected `topk_join('queries', 'items', k [, 'measure' [, 'method' [, 'bank' [, 'bank of \
                      items']]]])`, with names of tables in single quotes";
        let text = |expr: &Expr| match expr {
            Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Ok(text.clone()),
            other => plan_err!("`{other}` is no text, {expected}"),
        };
        let [queries, items, k, more @ ..] = args.exprs() else {
            return plan_err!("`topk_join` has {} arguments, {expected}", args.exprs().len());
        };
        if more.len() > 4 {
            return plan_err!("`topk_join` has {} arguments, {expected}", args.exprs().len());
        }
        let measure = match more.first().map(text).transpose()? {
            None => DEFAULT,
            Some(name) => match VectorMeasure::from_name(&name.to_lowercase()) {
                Some(measure) => measure,
                None => {
                    let known = VectorMeasure::ALL.map(VectorMeasure::name).join(", ");
                    return plan_err!("there is no measure `{name}`, expected one of {known}");
                }
            },
        };
        let method = more.get(1).map(text).transpose()?;
        if let Some(method) = &method {
            // Mistakes are found before any row is read.
            check_method(&join_method(method)?, more.len().saturating_sub(2))?;
            if measure != VectorMeasure::CosineSimilarity {
                let expected = VectorMeasure::CosineSimilarity.name();
                return plan_err!(
                    "a method corrects cosines, got the measure `{}`, expected `{expected}`",
                    measure.name()
                );
            }
        }
        let (k, k_parameter) = match k {
            Expr::Literal(value, _) => (join_k(value)?, None),
            Expr::Placeholder(parameter) => (1, Some(of_whole_number(parameter))),
            other => return plan_err!("k of `topk_join` is {other}, expected a whole number from 1"),
        };
        let tables = [text(queries)?, text(items)?];
        let rows = |side, table: &str| self.rows(side, table, args.session());
        let ((queries, query_vector), (items, item_vector)) = (rows("query", &tables[0])?, rows("item", &tables[1])?);
        let banks = more.iter().skip(2).zip(["bank", "item_bank"]).map(|(bank, side)| rows(side, &text(bank)?));
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
        let names = [(&tables[0], &query_vector), (&tables[1], &item_vector)];
        let names = names.map(|(table, vector)| format!("{}.{}", table_and_condition(table).0, vector.name).into());
        let vectors = [query_vector, item_vector].map(Expr::Column);
        let join = TopKJoin::try_new([queries, items], measure, k, vectors, None)?.with_method(method);
        let join = join.with_banks(banks, bank_vectors).with_k_parameter(k_parameter).with_vector_names(names);
        let join = LogicalPlan::Extension(Extension { node: Arc::new(join) });
        let plan = LogicalPlanBuilder::from(join).project(columns)?.build()?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}

/// Parameter of a statement that is a whole number.
fn of_whole_number(parameter: &Placeholder) -> Expr {
    let field = Arc::new(Field::new("", DataType::Int64, true));
    Expr::Placeholder(Placeholder { field: Some(field), ..parameter.clone() })
}

/// Refuses a method that lacks a bank, or whose settings are wrong.
fn check_method(method: &Method, banks: usize) -> Result<()> {
    let Some(problem) = cosine_problem(method, banks) else { return Ok(()) };
    let setting = problem.setting.trim_start_matches("method.");
    // Two banks would do.
    let bank = if cosine_problem(method, 2).is_none() {
        "; the bank is the sixth argument of `topk_join`, the table of its queries, as in `'joint.caption_embeddings WHERE \
         split = ''train'''`, and the seventh is the table of its items, where a method reads them"
    } else {
        ""
    };
    plan_err!("the method `{setting}` {}{bank}", problem.message)
}

/// The column of vectors of a table. Vectors of a stage have one width, and its other lists are no vectors.
fn vector_column(table: &LogicalPlan, name: &str) -> Result<Column> {
    let is_file = TableReference::from(name).schema().is_none_or(|schema| schema == FILES);
    let is_vector = |of: &DataType| {
        (is_file || matches!(of, DataType::FixedSizeList(..))) && number_type(of).is_some_and(DataType::is_floating)
    };
    let fields = table.schema().iter();
    let found: Vec<Column> = fields.filter(|(_, field)| is_vector(field.data_type())).map(Column::from).collect();
    match found.as_slice() {
        [column] => Ok(column.clone()),
        [] => plan_err!("`{name}` has no column of vectors, expected one as in `joint.image_embeddings`"),
        several => {
            let names: Vec<&str> = several.iter().map(|column| column.name.as_str()).collect();
            plan_err!(
                "`{name}` has the vectors {}, expected one column; `LATERAL (SELECT … ORDER BY cosine_distance(a, b) LIMIT \
                 k)` names one",
                names.join(", ")
            )
        }
    }
}

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
pub(crate) fn named_tables(statement: &Statement) -> Vec<TableReference> {
    let mut names = ArgumentNames { found: Vec::new() };
    let _ = statement.visit(&mut names);
    names.found
}

struct ArgumentNames {
    found: Vec<TableReference>,
}

impl Visitor for ArgumentNames {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: Some(ast::TableFunctionArgs { args, .. }), .. } = factor
            && name.to_string().eq_ignore_ascii_case(TOPK_JOIN)
        {
            let texts = TABLES.iter().filter_map(|&place| args.get(place)).filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Value(value))) => match &value.value {
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
