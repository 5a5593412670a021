//! Catalog of a run for DataFusion: a schema for each stage, whose tables are looked up when a query names them.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::TableReference;
use datafusion::error::{DataFusionError, Result};

use crate::session_tables::SessionTables;

/// Catalog of the tables of a run.
#[derive(Debug)]
pub(super) struct SessionCatalog {
    pub tables: Arc<SessionTables>,
}

impl SessionCatalog {
    /// Names of the schemas. Empty if the store cannot be read.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.tables.listed().unwrap_or_default().into_iter().map(|table| table.schema).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl CatalogProvider for SessionCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        Some(Arc::new(SessionSchema { name: name.to_owned(), tables: Arc::clone(&self.tables) }))
    }
}

/// Tables of a stage, of the store, of all runs, or of files.
#[derive(Debug)]
struct SessionSchema {
    name: String,
    tables: Arc<SessionTables>,
}

#[async_trait]
impl SchemaProvider for SessionSchema {
    fn table_names(&self) -> Vec<String> {
        let listed = self.tables.listed().unwrap_or_default().into_iter();
        listed.filter(|table| table.schema == self.name).map(|table| table.table).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(known) = self.tables.known(&TableReference::partial(self.name.as_str(), name)) {
            return Ok(Some(known));
        }
        let (tables, schema, name) = (Arc::clone(&self.tables), self.name.clone(), name.to_owned());
        // The store waits for its files or its server.
        let found = tokio::task::spawn_blocking(move || tables.find(&schema, &name)).await;
        let found = found.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let found = found.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(found.map(|(table, _)| table))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.known(&TableReference::partial(self.name.as_str(), name)).is_some()
            || self.tables.find(&self.name, name).is_ok_and(|found| found.is_some())
    }
}
