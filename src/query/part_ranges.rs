//! Smallest and largest whole numbers of the parts of a table, and conditions on them.

use std::collections::HashMap;
use std::sync::OnceLock;

use datafusion::catalog::Session;
use datafusion::common::ScalarValue;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::error::Result;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator, expr::InList};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::parquet::file::statistics::Statistics;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;

/// Footers that are read at a time.
const FOOTERS_AT_ONCE: usize = 16;

/// Smallest and largest value of each column of whole numbers of a part, by its name.
type Ranges = HashMap<String, (i64, i64)>;

/// Ranges of the parts of a table, read from their footers when a condition first needs them.
#[derive(Debug, Default)]
pub(super) struct PartRanges(OnceLock<Vec<Ranges>>);

impl PartRanges {
    /// Ranges of `parts`, in their order. A column without statistics has none.
    ///
    /// # Errors
    /// A part cannot be read.
    pub(super) async fn of_parts(&self, state: &dyn Session, parts: &[ListingTableUrl]) -> Result<&[Ranges]> {
        if let Some(known) = self.0.get() {
            return Ok(known);
        }
        let read = |part: ListingTableUrl| async move {
            let environment = state.runtime_env();
            let store = environment.object_store(part.object_store())?;
            let object = store.head(part.prefix()).await?;
            let cache = environment.cache_manager.get_file_metadata_cache();
            let footer = DFParquetMetadata::new(&*store, &object).with_file_metadata_cache(Some(cache));
            Ok::<_, datafusion::error::DataFusionError>(ranges(&*footer.fetch_metadata().await?))
        };
        let parts: Vec<ListingTableUrl> = parts.to_vec();
        let ranges = stream::iter(parts).map(read).buffered(FOOTERS_AT_ONCE).try_collect().await?;
        // Two queries may read the footers at once; they are the same.
        Ok(self.0.get_or_init(|| ranges))
    }
}

/// Ranges of the columns of a part.
fn ranges(part: &ParquetMetaData) -> Ranges {
    let mut ranges = Ranges::new();
    let columns = part.file_metadata().schema_descr().columns();
    for (place, column) in columns.iter().enumerate() {
        let of_group = part.row_groups().iter().map(|group| group.column(place).statistics().and_then(bounds));
        let groups: Option<Vec<(i64, i64)>> = of_group.collect();
        if let Some(groups) = groups
            && let (Some(low), Some(high)) =
                (groups.iter().map(|group| group.0).min(), groups.iter().map(|group| group.1).max())
        {
            ranges.insert(column.path().string(), (low, high));
        }
    }
    ranges
}

fn bounds(statistics: &Statistics) -> Option<(i64, i64)> {
    match statistics {
        Statistics::Int64(of) => of.min_opt().copied().zip(of.max_opt().copied()),
        Statistics::Int32(of) => of.min_opt().map(|&low| low.into()).zip(of.max_opt().map(|&high| high.into())),
        _ => None,
    }
}

/// Values of a column that satisfy a condition.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ColumnBounds {
    column: String,
    /// Smallest and largest value of each range.
    accepted: Vec<(i64, i64)>,
}

impl ColumnBounds {
    /// Bounds of a comparison of a column with constants; `None` for other conditions.
    pub(super) fn of(condition: &Expr) -> Option<Self> {
        let (column, accepted) = match condition {
            // A short list of values comes in this form.
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                let (mut left, right) = (Self::of(left)?, Self::of(right)?);
                left.accepted.extend(right.accepted);
                return Some(left).filter(|left| left.column == right.column);
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (left.as_ref(), right.as_ref()) {
                (Expr::Column(column), Expr::Literal(value, _)) => (column, vec![range(*op, number(value)?)?]),
                (Expr::Literal(value, _), Expr::Column(column)) => (column, vec![range(op.swap()?, number(value)?)?]),
                _ => return None,
            },
            Expr::InList(InList { expr, list, negated: false }) => {
                let Expr::Column(column) = expr.as_ref() else { return None };
                let values = list.iter().map(constant).collect::<Option<Vec<i64>>>()?;
                (column, values.into_iter().map(|value| (value, value)).collect())
            }
            Expr::Between(Between { expr, negated: false, low, high }) => {
                let Expr::Column(column) = expr.as_ref() else { return None };
                (column, vec![(constant(low)?, constant(high)?)])
            }
            _ => return None,
        };
        Some(Self { column: column.name.clone(), accepted })
    }

    /// True if a part may have such a value.
    pub(super) fn can_be_in(&self, part: &Ranges) -> bool {
        let overlaps = |&(low, high): &(i64, i64)| self.accepted.iter().any(|&(from, to)| from <= high && low <= to);
        part.get(&self.column).is_none_or(overlaps)
    }
}

/// Values for which a comparison with `value` holds.
fn range(operator: Operator, value: i64) -> Option<(i64, i64)> {
    match operator {
        Operator::Eq => Some((value, value)),
        Operator::Lt | Operator::LtEq => Some((i64::MIN, value)),
        Operator::Gt | Operator::GtEq => Some((value, i64::MAX)),
        _ => None,
    }
}

fn constant(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(value, _) => number(value),
        _ => None,
    }
}

fn number(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int64(value) => *value,
        ScalarValue::Int32(value) => value.map(Into::into),
        ScalarValue::UInt32(value) => value.map(Into::into),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;
    use crate::testing::{features, put, run, text};
    use crate::{OutputFormat, Session};
    use pairloom_store::Store;

    #[test]
    fn bounds_are_those_of_the_comparison() {
        let part = Ranges::from([("id".to_owned(), (10, 20))]);
        for (condition, wanted) in [
            (col("id").eq(lit(10i64)), true),
            (col("id").eq(lit(9i64)), false),
            (lit(21i64).eq(col("id")), false),
            (col("id").lt(lit(10i64)), true),
            (col("id").lt(lit(9i64)), false),
            (lit(20i64).lt_eq(col("id")), true),
            (lit(21i64).lt_eq(col("id")), false),
            (lit(9i64).gt(col("id")), false),
            (col("id").in_list(vec![lit(1i64), lit(15i64)], false), true),
            (col("id").in_list(vec![lit(1i64), lit(25i64)], false), false),
            (col("id").between(lit(1i64), lit(5i64)), false),
            (col("id").eq(lit(1i64)).or(col("id").gt(lit(30i64))), false),
            (col("id").eq(lit(1i64)).or(col("id").gt(lit(19i64))), true),
            (col("other").eq(lit(1i64)), true),
        ] {
            let bounds = ColumnBounds::of(&condition).unwrap();
            assert_eq!(bounds.can_be_in(&part), wanted, "{condition}");
        }
        for other in [
            col("id").not_eq(lit(1i64)),
            col("id").in_list(vec![lit(1i64)], true),
            col("id").eq(lit(1.5)),
            col("id").eq(col("other")),
            col("id").eq(lit(1i64)).or(col("other").eq(lit(1i64))),
        ] {
            assert_eq!(ColumnBounds::of(&other), None, "{other}");
        }
    }

    #[test]
    fn parts_without_a_row_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let part = |first: i64| features(&[(first, "test"), (first + 1, "val"), (first + 5, "test")], 4);
        let parts = (0..6).map(|part_number| part(10 * part_number)).collect();
        let key = put(&store, "extract", 1, &[("features", parts)]);
        run(&store, "20260101T000000", &[("cnn", "extract", &key)]);
        let session = Session::open(&store).unwrap();
        for (condition, parts, rows) in [
            ("image_id = 21", 1, "image_id\n21\n"),
            ("image_id = 22", 1, "image_id\n"),
            ("image_id = 27", 1, "image_id\n"),
            ("image_id IN (1, 55)", 2, "image_id\n1\n55\n"),
            ("image_id BETWEEN 14 AND 30", 3, "image_id\n15\n20\n21\n25\n30\n"),
            ("image_id > 44 AND split = 'test' AND image_id <= 50", 2, "image_id\n45\n50\n"),
            ("image_id < 0 OR image_id > 54", 2, "image_id\n55\n"),
            ("image_id = 21 OR split = 'val'", 6, "image_id\n1\n11\n21\n31\n41\n51\n"),
        ] {
            let sql = format!("SELECT image_id FROM cnn.features WHERE {condition} ORDER BY image_id");
            let csv = |sql: &str| text(&session, sql, OutputFormat::Csv).unwrap();
            assert_eq!(csv(&sql), rows, "{condition}");
            let plan = csv(&format!("EXPLAIN {sql}"));
            // A plan shows five.
            assert_eq!(plan.matches(".parquet").count(), parts.min(5), "{condition}: {plan}");
        }
    }
}
