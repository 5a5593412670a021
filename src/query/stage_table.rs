//! Table of a stage: Parquet parts, of which a query reads those that can have rows for it. Of a stage that the matrix
//! repeats, it has the rows of all instances, with the axes as columns.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::common::{Constraints, ScalarValue};
use datafusion::datasource::TableType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl, PartitionedFile,
};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result as SqlResult;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator, TableProviderFilterPushDown};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::parquet::file::statistics::Statistics;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use serde_json::Value;

use crate::catalog::InstanceTable;
use crate::query_threads::QueryThreads;
use crate::result_files::{ResultFilesTable, file_schemas, first_files, merge_schemas};
use pairloom_base::error::Result;
use pairloom_stage::Coordinate;
use pairloom_store::Store;
use pairloom_tables as tables;

/// Table of the parts of an artefact, which never change.
///
/// A condition on whole numbers leaves out the parts whose values are all outside of it. DataFusion finds the same when it
/// has opened a part; of a table of a thousand parts that takes longer than the query.
#[derive(Debug)]
pub(super) struct StageTable {
    listing: ListingTable,
    ranges: PartRanges,
}

/// Options by which parts are read.
pub(super) fn part_options() -> ListingOptions {
    ListingOptions::new(Arc::new(ParquetFormat::default().with_force_view_types(false)))
}

impl StageTable {
    /// Table of parts with the columns `schema`.
    ///
    /// # Errors
    /// There are no parts.
    pub(super) fn try_new(parts: Vec<ListingTableUrl>, schema: SchemaRef) -> SqlResult<Self> {
        Ok(Self { listing: listing(parts, schema)?, ranges: PartRanges::default() })
    }

    /// Table of the parts that can have rows for the conditions; `None` for all parts.
    async fn of_some_parts(&self, state: &dyn Session, filters: &[Expr]) -> SqlResult<Option<ListingTable>> {
        let parts = self.listing.table_paths();
        let bounds: Vec<ColumnBounds> = filters.iter().filter_map(ColumnBounds::of).collect();
        if bounds.is_empty() || parts.len() < 2 {
            return Ok(None);
        }
        let is_needed = self.ranges.of_parts(state, parts).await?;
        let is_needed = is_needed.iter().map(|part| bounds.iter().all(|bounds| bounds.can_be_in(part)));
        let mut needed: Vec<ListingTableUrl> =
            parts.iter().zip(is_needed).filter(|(_, is_needed)| *is_needed).map(|(part, _)| part.clone()).collect();
        if needed.len() == parts.len() {
            return Ok(None);
        }
        // A table has a part.
        if needed.is_empty() {
            needed.push(parts[0].clone());
        }
        listing(needed, self.listing.schema()).map(Some)
    }
}

fn listing(parts: Vec<ListingTableUrl>, schema: SchemaRef) -> SqlResult<ListingTable> {
    let config = ListingTableConfig::new_with_multi_paths(parts).with_listing_options(part_options());
    ListingTable::try_new(config.with_schema(schema))
}

#[async_trait]
impl TableProvider for StageTable {
    fn schema(&self) -> SchemaRef {
        self.listing.schema()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.listing.constraints()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> SqlResult<Arc<dyn ExecutionPlan>> {
        let arguments = ScanArgs::default().with_projection(projection.map(Vec::as_slice)).with_filters(Some(filters));
        Ok(self.scan_with_args(state, arguments.with_limit(limit)).await?.into_inner())
    }

    async fn scan_with_args<'a>(&self, state: &dyn Session, arguments: ScanArgs<'a>) -> SqlResult<ScanResult> {
        match self.of_some_parts(state, arguments.filters().unwrap_or_default()).await? {
            Some(some) => some.scan_with_args(state, arguments).await,
            None => self.listing.scan_with_args(state, arguments).await,
        }
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> SqlResult<Vec<TableProviderFilterPushDown>> {
        self.listing.supports_filters_pushdown(filters)
    }
}

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
    pub(super) async fn of_parts(&self, state: &dyn Session, parts: &[ListingTableUrl]) -> SqlResult<&[Ranges]> {
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

/// Table `name` of the instances of a stage, with its size in bytes. At least one of the tables has a part.
///
/// # Errors
/// The store cannot be read, or a column has types that have nothing in common.
pub(crate) fn instances_table(
    store: &Store,
    name: &str,
    instances: Vec<InstanceTable>,
    context: &SessionContext,
    threads: &QueryThreads,
) -> Result<(Arc<dyn TableProvider>, u64)> {
    let coordinates: Vec<&[Coordinate]> = instances.iter().map(|of| of.coordinates.as_slice()).collect();
    let file = |(path, bytes): &(String, u64)| PartitionedFile::new(path.clone(), *bytes);
    let files: Vec<Vec<PartitionedFile>> = instances.iter().map(|of| of.parts.iter().map(file).collect()).collect();
    let bytes = instances.iter().flat_map(|of| &of.parts).map(|(_, bytes)| bytes).sum();
    let first = first_files(instances.iter().map(|of| &of.manifest), &files);
    let schemas = threads.block_on(file_schemas(store, first, context))?;
    let own = merge_schemas(name, &schemas)?.unwrap_or_else(|| Arc::new(Schema::empty()));
    let fields = axis_fields(&own, &coordinates);
    let results = axis_batch(&fields, &coordinates)?;
    let schema = TableSchema::builder(own).with_table_partition_cols(fields).build();
    Ok((Arc::new(ResultFilesTable { schema, results, files }), bytes))
}

/// Prefix of the name of an axis, if the table has a column of that name.
const PREFIX: &str = "axis_";

/// Columns of a table, then those of the axes of its instances.
pub(super) fn with_axes<'c>(own: &Schema, instances: impl IntoIterator<Item = &'c Vec<Coordinate>>) -> SchemaRef {
    let instances: Vec<&[Coordinate]> = instances.into_iter().map(Vec::as_slice).collect();
    let axes = axis_fields(own, &instances);
    Arc::new(Schema::new(own.fields().iter().cloned().chain(axes).collect::<Vec<_>>()))
}

/// Columns of the axes beside the columns `own` of a table. An axis of whole numbers is an Int64, of numbers a Float64, of
/// booleans a Boolean, and any other a text.
pub(super) fn axis_fields(own: &Schema, instances: &[&[Coordinate]]) -> Vec<FieldRef> {
    let axes = instances.first().copied().unwrap_or_default();
    let field = |(i, axis): (usize, &Coordinate)| {
        let name = if own.index_of(&axis.axis).is_ok() { format!("{PREFIX}{}", axis.axis) } else { axis.axis.clone() };
        let values = instances.iter().map(|instance| &instance[i].value);
        Arc::new(Field::new(name, data_type(values), false)) as FieldRef
    };
    axes.iter().enumerate().map(field).collect()
}

/// Coordinates of instances, one row for each, with the columns `fields`.
///
/// # Errors
/// Internal errors only.
pub(super) fn axis_batch(fields: &[FieldRef], instances: &[&[Coordinate]]) -> Result<RecordBatch> {
    let column = |(i, field): (usize, &FieldRef)| -> ArrayRef {
        let values = || instances.iter().map(|instance| &instance[i]);
        match field.data_type() {
            DataType::Int64 => Arc::new(Int64Array::from_iter(values().map(|of| of.value.as_i64()))),
            DataType::Float64 => Arc::new(Float64Array::from_iter(values().map(|of| of.value.as_f64()))),
            DataType::Boolean => Arc::new(BooleanArray::from_iter(values().map(|of| of.value.as_bool()))),
            _ => Arc::new(StringArray::from_iter_values(values().map(Coordinate::value_text))),
        }
    };
    let columns = fields.iter().enumerate().map(column).collect();
    tables::batch_of_rows(&Arc::new(Schema::new(fields.to_vec())), columns, instances.len())
}

fn data_type<'v>(values: impl Iterator<Item = &'v Value> + Clone) -> DataType {
    if values.clone().all(Value::is_i64) {
        DataType::Int64
    } else if values.clone().all(Value::is_number) {
        DataType::Float64
    } else if values.clone().all(Value::is_boolean) {
        DataType::Boolean
    } else {
        DataType::Utf8
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;
    use crate::testing::{features, put, run, text};
    use crate::{OutputFormat, Session};

    #[test]
    fn bounds_are_those_of_the_comparison() {
        let part = Ranges::from([("id".to_owned(), (10, 20))]);
        for (condition, expected) in [
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
            assert_eq!(bounds.can_be_in(&part), expected, "{condition}");
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

    #[test]
    fn axes_have_the_types_of_their_values() {
        let at = |values: &[Value]| -> Vec<Coordinate> {
            let names = ["row", "seed", "margin", "loss"];
            let of = names.iter().zip(values);
            of.map(|(axis, value)| Coordinate { axis: (*axis).to_owned(), value: value.clone() }).collect()
        };
        let one = at(&["1.1".into(), 1.into(), 0.5.into(), true.into()]);
        let two = at(&[2.into(), 2.into(), 1.into(), false.into()]);
        let own = Schema::new(vec![Field::new("loss", DataType::Float64, true)]);
        let fields = axis_fields(&own, &[&one, &two]);
        let shown: Vec<_> = fields.iter().map(|field| (field.name().as_str(), field.data_type().clone())).collect();
        let expected = [
            ("row", DataType::Utf8),
            ("seed", DataType::Int64),
            ("margin", DataType::Float64),
            ("axis_loss", DataType::Boolean),
        ];
        assert_eq!(shown, expected);
        let batch = axis_batch(&fields, &[&one, &two]).unwrap();
        let rows: Vec<String> = (0..2)
            .map(|row| {
                let text = |column| arrow::util::display::array_value_to_string(batch.column(column), row).unwrap();
                (0..4).map(text).collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(rows, ["1.1 1 0.5 true", "2 2 1.0 false"]);
        assert_eq!(with_axes(&own, [&one, &two]).fields().len(), 5);
    }
}
