//! Table of a stage: Parquet parts, of which a query reads those that can have rows for it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::common::Constraints;
use datafusion::datasource::TableType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;

use crate::part_ranges::{ColumnBounds, PartRanges};

/// Table of the parts of an artefact, which never change.
///
/// A condition on whole numbers leaves out the parts whose values are all outside of it. DataFusion finds the same when it
/// has opened a part; of a table of a thousand parts that takes longer than the query.
#[derive(Debug)]
pub(super) struct StageTable {
    listing: ListingTable,
    ranges: Arc<PartRanges>,
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
    pub(super) fn try_new(parts: Vec<ListingTableUrl>, schema: SchemaRef) -> Result<Self> {
        let ranges = Arc::new(PartRanges::default());
        Ok(Self { listing: listing(parts, schema)?, ranges })
    }

    /// The same table, whose columns are read as other types.
    ///
    /// # Errors
    /// As [`Self::try_new`].
    pub(super) fn with_schema(&self, schema: SchemaRef) -> Result<Self> {
        let ranges = Arc::clone(&self.ranges);
        Ok(Self { listing: listing(self.listing.table_paths().clone(), schema)?, ranges })
    }

    /// Table of the parts that can have rows for the conditions; `None` for all parts.
    async fn of_some_parts(&self, state: &dyn Session, filters: &[Expr]) -> Result<Option<ListingTable>> {
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

fn listing(parts: Vec<ListingTableUrl>, schema: SchemaRef) -> Result<ListingTable> {
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
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let arguments = ScanArgs::default().with_projection(projection.map(Vec::as_slice)).with_filters(Some(filters));
        Ok(self.scan_with_args(state, arguments.with_limit(limit)).await?.into_inner())
    }

    async fn scan_with_args<'a>(&self, state: &dyn Session, arguments: ScanArgs<'a>) -> Result<ScanResult> {
        match self.of_some_parts(state, arguments.filters().unwrap_or_default()).await? {
            Some(some) => some.scan_with_args(state, arguments).await,
            None => self.listing.scan_with_args(state, arguments).await,
        }
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.listing.supports_filters_pushdown(filters)
    }
}
