//! Optimizer rule that groups by short texts in place.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Projection, SubqueryAlias, TableScan, TableScanBuilder,
    cast,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::stage_table::StageTable;

/// Rule that reads the text columns of groups as `Utf8View`.
///
/// A view of at most 12 bytes holds the text itself, so such texts are read from a dictionary, compared and copied as
/// numbers are. Groups of `Utf8` compare bytes behind offsets, which takes most of the time of a query with few other
/// columns. The rule changes columns of tables of stages that a group reads as they are. The result of the group is `Utf8`
/// again, so types outside of it stay.
#[derive(Debug)]
pub(super) struct GroupTextViews;

impl OptimizerRule for GroupTextViews {
    fn name(&self) -> &'static str {
        "group_text_views"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Aggregate(group) => Ok(match grouped_by_views(group)? {
                Some(grouped) => Transformed::yes(grouped),
                None => Transformed::no(plan),
            }),
            _ => Ok(Transformed::no(plan)),
        }
    }
}

/// The same groups, by views; `None` if no text is read from a file.
fn grouped_by_views(group: &Aggregate) -> Result<Option<LogicalPlan>> {
    let schema = group.input.schema();
    let mut wanted = BTreeSet::new();
    for expr in &group.group_expr {
        if let Expr::Column(column) = expr
            && let Some(place) = schema.maybe_index_of_column(column)
            && *schema.field(place).data_type() == DataType::Utf8
        {
            wanted.insert(place);
        }
    }
    let others = group.group_expr.iter().filter(|expr| !matches!(expr, Expr::Column(_)));
    remove_named(&mut wanted, others.chain(&group.aggr_expr), schema);
    let Some(input) = with_views(&group.input, &wanted)? else { return Ok(None) };
    let grouped = Aggregate::try_new(Arc::new(input), group.group_expr.clone(), group.aggr_expr.clone())?;
    let as_before = group.schema.iter().zip(grouped.schema.iter()).map(|(before, (qualifier, field))| {
        let column = Expr::Column(Column::from((qualifier, field)));
        as_type(column, before.1.data_type(), field)
    });
    let as_before: Vec<Expr> = as_before.collect();
    Ok(Some(LogicalPlanBuilder::from(LogicalPlan::Aggregate(grouped)).project(as_before)?.build()?))
}

/// A column as a value of the type that it had before, under its name.
fn as_type(column: Expr, before: &DataType, now: &Field) -> Expr {
    match column {
        Expr::Column(own) if before != now.data_type() => {
            let (relation, name) = (own.relation.clone(), own.name.clone());
            cast(Expr::Column(own), before.clone()).alias_qualified(relation, name)
        }
        other => other,
    }
}

/// Plan in which some of the columns `wanted` of `plan` are views; `None` if none of them can be.
fn with_views(plan: &LogicalPlan, wanted: &BTreeSet<usize>) -> Result<Option<LogicalPlan>> {
    if wanted.is_empty() {
        return Ok(None);
    }
    match plan {
        LogicalPlan::TableScan(scan) => scan_of_views(scan, wanted),
        LogicalPlan::Filter(filter) => {
            let mut wanted = wanted.clone();
            remove_named(&mut wanted, [&filter.predicate], filter.input.schema());
            let input = with_views(&filter.input, &wanted)?.map(Arc::new);
            input.map(|input| Ok(LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), input)?))).transpose()
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let input = with_views(&alias.input, wanted)?.map(Arc::new);
            let aliased = |input| SubqueryAlias::try_new(input, alias.alias.clone()).map(LogicalPlan::SubqueryAlias);
            input.map(aliased).transpose()
        }
        LogicalPlan::Projection(projection) => projection_of_views(projection, wanted),
        _ => Ok(None),
    }
}

/// As [`with_views`], for a projection.
fn projection_of_views(projection: &Projection, wanted: &BTreeSet<usize>) -> Result<Option<LogicalPlan>> {
    let schema = projection.input.schema();
    let mut exprs = projection.expr.clone();
    // Columns of the input that are views already, and were cast.
    let mut is_changed = false;
    let mut of_input = BTreeSet::new();
    for &place in wanted {
        match without_alias(&exprs[place]) {
            Expr::Column(column) => of_input.extend(schema.maybe_index_of_column(column)),
            Expr::Cast(of) if is_view(&of.expr, schema) => {
                let (relation, name) = exprs[place].qualified_name();
                exprs[place] = of.expr.as_ref().clone().alias_qualified(relation, name);
                is_changed = true;
            }
            _ => {}
        }
    }
    let is_passed =
        |(place, expr): &(usize, &Expr)| wanted.contains(place) && matches!(without_alias(expr), Expr::Column(_));
    // An expression that reads the text as it was, or a second column of it.
    let others: Vec<&Expr> = exprs.iter().enumerate().filter(|of| !is_passed(of)).map(|(_, expr)| expr).collect();
    remove_named(&mut of_input, others, schema);
    let input = match with_views(&projection.input, &of_input)? {
        Some(input) => Arc::new(input),
        None if is_changed => Arc::clone(&projection.input),
        None => return Ok(None),
    };
    Ok(Some(LogicalPlan::Projection(Projection::try_new(exprs, input)?)))
}

/// True for a column that is a view.
fn is_view(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr, Expr::Column(column) if schema.maybe_index_of_column(column)
        .is_some_and(|place| *schema.field(place).data_type() == DataType::Utf8View))
}

fn without_alias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => without_alias(&alias.expr),
        other => other,
    }
}

/// Removes the columns that an expression names.
fn remove_named<'e>(places: &mut BTreeSet<usize>, exprs: impl IntoIterator<Item = &'e Expr>, schema: &DFSchema) {
    for column in exprs.into_iter().flat_map(Expr::column_refs) {
        if let Some(place) = schema.maybe_index_of_column(column) {
            places.remove(&place);
        }
    }
}

/// Scan of the same parts of a table of a stage, some of whose texts are views. A condition that the scan evaluates needs
/// its columns as they are.
fn scan_of_views(scan: &TableScan, wanted: &BTreeSet<usize>) -> Result<Option<LogicalPlan>> {
    let provider = source_as_provider(&scan.source)?;
    let Some(table) = provider.downcast_ref::<StageTable>() else { return Ok(None) };
    let mut wanted = wanted.clone();
    remove_named(&mut wanted, &scan.filters, &scan.projected_schema);
    let of_table = |place: usize| scan.projection.as_ref().map_or(place, |columns| columns[place]);
    let columns: BTreeSet<usize> = wanted.into_iter().map(of_table).collect();
    let schema = scan.source.schema();
    // A condition may name a column that is not read.
    let is_named =
        |field: &Field| scan.filters.iter().flat_map(Expr::column_refs).any(|named| named.name == *field.name());
    let is_text = |place: &usize| {
        let field = schema.field(*place);
        *field.data_type() == DataType::Utf8 && !is_named(field)
    };
    let columns: BTreeSet<usize> = columns.into_iter().filter(is_text).collect();
    if columns.is_empty() {
        return Ok(None);
    }
    let fields = schema.fields().iter().enumerate().map(|(place, field)| {
        let field = field.as_ref().clone();
        if columns.contains(&place) { field.with_data_type(DataType::Utf8View) } else { field }
    });
    let fields: Vec<Field> = fields.collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let table = table.with_schema(schema)?;
    let scan = TableScanBuilder::new(scan.table_name.clone(), provider_as_source(Arc::new(table)))
        .with_projection(scan.projection.clone())
        .with_filters(scan.filters.clone())
        .with_fetch(scan.fetch)
        .with_statistics_requests(scan.statistics_requests.clone());
    Ok(Some(LogicalPlan::TableScan(scan.build()?)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use crate::testing::{put, run, text};
    use crate::{OutputFormat, Session};
    use pairloom_store::Store;
    use pairloom_tables as tables;

    /// Rows of texts, one of them longer than a view holds, and a missing one.
    fn rows() -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("method", DataType::Utf8, false),
            Field::new("remark", DataType::Utf8, true),
            Field::new("query", DataType::Int64, false),
            Field::new("rank", DataType::Int64, false),
        ]);
        let long = Some("a remark of more than twelve bytes");
        let remarks = [long, None, long, Some("short"), None, Some("short")];
        tables::batch(
            &Arc::new(schema),
            vec![
                Arc::new(StringArray::from(vec!["nns", "nns", "csls", "csls", "nns", "csls"])),
                Arc::new(StringArray::from(remarks.to_vec())),
                Arc::new(Int64Array::from(vec![1, 1, 1, 1, 2, 2])),
                Arc::new(Int64Array::from(vec![3, 9, 1, 7, 5, 2])),
            ],
        )
        .unwrap()
    }

    /// Physical plan and rows of a query over a table in two parts.
    fn plan_and_rows(sql: &str) -> (String, String) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let parts = vec![rows().slice(0, 3), rows().slice(3, 3)];
        let key = put(&store, "evaluate", 1, &[("ranks", parts)]);
        run(&store, "20260101T000000", &[("test", "evaluate", &key)]);
        let session = Session::open(&store).unwrap();
        let csv = |sql: &str| text(&session, sql, OutputFormat::Csv).unwrap();
        let plan = csv(&format!("EXPLAIN {sql}"));
        let (_, physical) = plan.split_once("physical_plan").unwrap();
        (physical.to_owned(), csv(sql))
    }

    #[test]
    fn texts_of_groups_are_views_and_results_are_texts() {
        for (sql, casts, wanted) in [
            // By hand: the best ranks of a query, and their means.
            (
                "SELECT method, avg(best) AS mean FROM (SELECT method, query, min(rank) AS best FROM test.ranks GROUP BY \
                 method, query) t GROUP BY method ORDER BY method",
                1,
                "method,mean\ncsls,1.5\nnns,4.0\n",
            ),
            (
                "SELECT remark, method, count(*) AS n FROM test.ranks GROUP BY remark, method ORDER BY 1, 2",
                2,
                "remark,method,n\na remark of more than twelve bytes,csls,1\na remark of more than twelve bytes,nns,1\n\
                 short,csls,2\n,nns,2\n",
            ),
            // A condition reads one of the texts, and an aggregate the other.
            (
                "SELECT method, max(remark) AS m FROM test.ranks WHERE remark > 'b' GROUP BY method",
                1,
                "method,m\ncsls,short\n",
            ),
            (
                "SELECT method, max(remark) AS m FROM test.ranks WHERE method > 'd' GROUP BY method",
                0,
                "method,m\nnns,a remark of more than twelve bytes\n",
            ),
            // Two names of one column.
            (
                "SELECT a, b, count(*) AS n FROM (SELECT method AS a, method AS b, rank FROM test.ranks) t GROUP BY a, b ORDER BY a",
                2,
                "a,b,n\ncsls,csls,3\nnns,nns,3\n",
            ),
            (
                "SELECT DISTINCT arrow_typeof(m) AS t FROM (SELECT DISTINCT method AS m FROM test.ranks) t",
                1,
                "t\nUtf8\n",
            ),
            (
                "SELECT u.method, count(*) AS n FROM (SELECT DISTINCT method FROM test.ranks) u JOIN test.ranks r ON u.method = \
                 r.method GROUP BY u.method ORDER BY n, u.method",
                1,
                "method,n\ncsls,3\nnns,3\n",
            ),
        ] {
            let (plan, rows) = plan_and_rows(sql);
            assert_eq!(rows, wanted, "{sql}: {plan}");
            assert_eq!(plan.matches("AS Utf8)").count() + plan.matches("as Utf8)").count(), casts, "{sql}: {plan}");
        }
    }
}
