//! Order of items with equal measures.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalSortExpr;

/// Keys of items, whose bytes have the order of the terms after the measure.
pub(super) struct TieKeys {
    /// One for all blocks: only its own keys compare.
    converter: RowConverter,
}

impl TieKeys {
    /// Keys of rows of a schema; `None` without terms.
    ///
    /// # Errors
    /// A term has a type without an order.
    pub(super) fn new(terms: &[PhysicalSortExpr], schema: &SchemaRef) -> Result<Option<Self>> {
        if terms.is_empty() {
            return Ok(None);
        }
        let field =
            |term: &PhysicalSortExpr| Ok(SortField::new_with_options(term.expr.data_type(schema)?, term.options));
        let fields = terms.iter().map(field).collect::<Result<Vec<_>>>()?;
        Ok(Some(Self { converter: RowConverter::new(fields)? }))
    }

    /// Keys of the rows of a block.
    pub(super) fn of_block(&mut self, terms: &[PhysicalSortExpr], block: &RecordBatch) -> Result<Rows> {
        let value = |term: &PhysicalSortExpr| term.expr.evaluate(block)?.into_array(block.num_rows());
        Ok(self.converter.convert_columns(&terms.iter().map(value).collect::<Result<Vec<_>>>()?)?)
    }
}
