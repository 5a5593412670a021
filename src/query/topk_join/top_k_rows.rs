//! Rows of the output of a top-k join, the rows of the items that they need, and the condition that a pair must satisfy.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, FixedSizeListArray, Float64Array, Int8Array, Int64Array, RecordBatch, RecordBatchOptions,
    UInt64Array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, interleave_record_batch, take, take_record_batch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use az::SaturatingAs;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::expressions::Column;

use super::nearest_lists::NearItem;
use super::node::ListShape;

/// Rows of the items that are in a list.
pub(super) struct ItemRows {
    /// Indices of items, in order, and their rows.
    kept: Vec<(Vec<u64>, RecordBatch)>,
    /// Index of the next item.
    pub next: u64,
    pub memory: MemoryReservation,
    /// Memory of the queries.
    _queries: MemoryReservation,
}

impl ItemRows {
    /// No rows yet.
    pub(super) fn new(of_queries: MemoryReservation) -> Self {
        Self { kept: Vec::new(), next: 0, memory: of_queries.new_empty(), _queries: of_queries }
    }

    /// Keeps those rows of a block that are in a list, and removes others that are no longer.
    pub(super) fn keep(&mut self, block: RecordBatch, lists: &[Vec<NearItem>]) -> Result<()> {
        let first = self.next;
        self.next += block.num_rows() as u64;
        let indices = (first..self.next).collect();
        self.kept.push((indices, block));
        let mut used: Vec<u64> = lists.iter().flatten().map(|near| near.item).collect();
        used.sort_unstable();
        used.dedup();
        let mut bytes = 0;
        for (indices, rows) in &mut self.kept {
            let is_used = |item: &u64| used.binary_search(item).is_ok();
            let still: Vec<usize> = (0..indices.len()).filter(|&at| is_used(&indices[at])).collect();
            if still.len() * 2 < indices.len() {
                let places = UInt64Array::from_iter_values(still.iter().map(|&at| at as u64));
                *rows = take_record_batch(rows, &places)?;
                *indices = still.iter().map(|&at| indices[at]).collect();
            }
            bytes += rows.get_array_memory_size();
        }
        self.kept.retain(|(indices, _)| !indices.is_empty());
        self.memory.try_resize(bytes)
    }

    /// The batches of rows. Those of an outer join are followed by one of a missing row.
    pub(super) fn batches(&self, schema: &SchemaRef, is_outer: bool) -> Result<Vec<RecordBatch>> {
        let kept = self.kept.iter().map(|(_, rows)| rows.clone());
        if !is_outer {
            return Ok(kept.collect());
        }
        let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let missing =
            schema.fields().iter().map(|field| missing_value(field.data_type())).collect::<Result<Vec<_>>>()?;
        let columns = kept.map(|rows| (rows.num_rows(), rows.columns().to_vec())).chain([(1, missing)]);
        columns.map(|(rows, columns)| batch_of_rows(&schema, columns, rows)).collect()
    }
}

/// Column of one missing value. The values of a missing vector are there if they must be.
fn missing_value(of: &DataType) -> Result<ArrayRef> {
    Ok(match of {
        DataType::FixedSizeList(item, width) if !item.is_nullable() && item.data_type().is_numeric() => {
            let zeros = Int8Array::from(vec![0; (*width).saturating_as::<usize>()]);
            let values = cast(&zeros, item.data_type())?;
            Arc::new(FixedSizeListArray::try_new(Arc::clone(item), *width, values, Some(NullBuffer::new_null(1)))?)
        }
        _ => new_null_array(of, 1),
    })
}

#[expect(clippy::disallowed_methods, reason = "a query may read no column")]
fn batch_of_rows(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let rows = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)?)
}

/// Parts of the rows of the output.
pub(super) struct TopKRows {
    queries: RecordBatch,
    items: Vec<RecordBatch>,
    rows: Vec<TopKRow>,
}

/// Row of the output.
struct TopKRow {
    /// Index of the query.
    query: u64,
    /// Batch of the item, and its row there.
    place: (usize, usize),
    /// Rank and measure; `None` if the item is missing.
    near: Option<(i64, NearItem)>,
}

impl TopKRows {
    /// Rows of the lists of those queries that have a vector, without the first rows of each list that the shape leaves out.
    pub(super) fn new(
        (queries, with_vectors): (RecordBatch, UInt64Array),
        items: &ItemRows,
        batches: Vec<RecordBatch>,
        lists: &[Vec<NearItem>],
        ListShape { skip, is_outer, .. }: ListShape,
    ) -> Result<Self> {
        let mut places = HashMap::new();
        for (batch, (indices, _)) in items.kept.iter().enumerate() {
            places.extend(indices.iter().enumerate().map(|(row, &item)| (item, (batch, row))));
        }
        // The last batch is the missing row.
        let missing_place = (items.kept.len(), 0);
        let mut lists = with_vectors.values().iter().zip(lists).peekable();
        let mut rows = Vec::new();
        for query in 0..queries.num_rows() as u64 {
            let list = lists.next_if(|(of, _)| **of == query).map_or(&[][..], |(_, list)| list.as_slice());
            for (rank, near) in (1i64..).zip(list).skip(skip) {
                let Some(&place) = places.get(&near.item) else { return internal_err!("a row of a list is missing") };
                rows.push(TopKRow { query, place, near: Some((rank, *near)) });
            }
            if is_outer && list.len() <= skip {
                rows.push(TopKRow { query, place: missing_place, near: None });
            }
        }
        Ok(Self { queries, items: batches, rows })
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Rows `start` to `end` of the output, with some of its columns: those of the queries, those of the items, and then
    /// the rank and the measure.
    pub(super) fn batch(&self, start: usize, end: usize, columns: &[usize], schema: &SchemaRef) -> Result<RecordBatch> {
        let rows = &self.rows[start..end.min(self.rows.len())];
        let of_queries = self.queries.num_columns();
        let of_items = self.items.first().map_or(0, RecordBatch::num_columns);
        let side = |range: std::ops::Range<usize>| -> Vec<usize> {
            columns.iter().filter(|column| range.contains(column)).map(|column| column - range.start).collect()
        };
        let (query_columns, item_columns) = (side(0..of_queries), side(of_queries..of_queries + of_items));
        let places = UInt64Array::from_iter_values(rows.iter().map(|row| row.query));
        let queries = match query_columns.as_slice() {
            [] => None,
            some => Some(take_record_batch(&self.queries.project(some)?, &places)?),
        };
        let places: Vec<(usize, usize)> = rows.iter().map(|row| row.place).collect();
        let items = match item_columns.as_slice() {
            [] => None,
            some => {
                let items = self.items.iter().map(|rows| rows.project(some)).collect::<Result<Vec<_>, _>>()?;
                Some(interleave_record_batch(&items.iter().collect::<Vec<_>>(), &places)?)
            }
        };
        let columns_of = |side: &Option<RecordBatch>| side.as_ref().map_or(Vec::new(), |rows| rows.columns().to_vec());
        let (mut queries, mut items) = (columns_of(&queries).into_iter(), columns_of(&items).into_iter());
        let column = |&column: &usize| -> Option<ArrayRef> {
            if column < of_queries {
                return queries.next();
            }
            let Some(added) = column.checked_sub(of_queries + of_items) else { return items.next() };
            Some(match added {
                0 => Arc::new(rows.iter().map(|row| row.near.map(|(rank, _)| rank)).collect::<Int64Array>()),
                _ => Arc::new(rows.iter().map(|row| row.near.map(|(_, near)| near.value)).collect::<Float64Array>()),
            })
        };
        let Some(values) = columns.iter().map(column).collect::<Option<Vec<_>>>() else {
            return internal_err!("a column of the top-k join is missing");
        };
        batch_of_rows(schema, values, rows.len())
    }
}

/// Condition of pairs of a query and an item of a block.
pub(super) struct PairCondition<'b> {
    /// The condition on the columns that it reads alone, which are named by their numbers.
    condition: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// Columns that the condition reads, of the queries and of the items.
    columns: [Vec<&'b ArrayRef>; 2],
}

impl<'b> PairCondition<'b> {
    pub(super) fn new(
        condition: &Arc<dyn PhysicalExpr>,
        queries: &'b RecordBatch,
        block: &'b RecordBatch,
    ) -> Result<Self> {
        let mut read: Vec<usize> = collect_columns(condition).iter().map(Column::index).collect();
        read.sort_unstable();
        let of_queries = queries.num_columns();
        let (mut fields, mut columns) = (Vec::new(), [Vec::new(), Vec::new()]);
        for (number, &column) in read.iter().enumerate() {
            let (side, batch, place) =
                if column < of_queries { (0, queries, column) } else { (1, block, column - of_queries) };
            // Columns of the two sides may have one name, so they are numbered.
            fields.push(batch.schema().field(place).clone().with_name(number.to_string()));
            columns[side].push(batch.column(place));
        }
        let numbered = Arc::clone(condition).transform(|expr| {
            let column = expr.downcast_ref::<Column>().and_then(|column| read.binary_search(&column.index()).ok());
            Ok(match column {
                Some(number) => Transformed::yes(Arc::new(Column::new(&number.to_string(), number)) as Arc<_>),
                None => Transformed::no(expr),
            })
        });
        Ok(Self { condition: numbered.data()?, schema: Arc::new(Schema::new(fields)), columns })
    }

    #[expect(clippy::disallowed_methods, reason = "a condition may read no column")]
    pub(super) fn evaluate(&self, pairs: &[(usize, usize)]) -> Result<BooleanArray> {
        let places = [
            UInt64Array::from_iter_values(pairs.iter().map(|(query, _)| *query as u64)),
            UInt64Array::from_iter_values(pairs.iter().map(|(_, item)| *item as u64)),
        ];
        let mut columns = Vec::new();
        for (of_side, places) in self.columns.iter().zip(&places) {
            for column in of_side {
                columns.push(take(column, places, None)?);
            }
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(pairs.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)?;
        let accepted = self.condition.evaluate(&batch)?.into_array(pairs.len())?;
        Ok(as_boolean_array(&accepted)?.clone())
    }
}
