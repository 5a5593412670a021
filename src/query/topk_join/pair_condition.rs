//! Condition that a pair of a query and an item must satisfy.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::expressions::Column;

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
