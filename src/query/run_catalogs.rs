//! Catalogs of a session: that of its run, and those of other runs by their names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::catalog::{CatalogProvider, CatalogProviderList, TableProvider};
use datafusion::common::TableReference;

use crate::session_catalog::SessionCatalog;
use crate::session_tables::{SessionTables, SizedTable};
use crate::state::CATALOG;
use pairloom_base::error::Result;

/// Tables of a session. A name of three parts begins with a run: `"20260101T000000.000Z-0001".test.summary`,
/// `baseline.test.summary` with a tag, `"quickstart~1".test.summary`.
#[derive(Debug)]
pub(super) struct RunCatalogs {
    own: Arc<SessionTables>,
    /// Tables of other runs, by the names that queries give to the runs.
    others: Mutex<HashMap<String, Arc<SessionTables>>>,
}

impl RunCatalogs {
    pub(super) fn new(own: Arc<SessionTables>) -> Self {
        Self { own, others: Mutex::default() }
    }

    /// Tables of the run of the session.
    pub(super) fn own(&self) -> &SessionTables {
        &self.own
    }

    /// Table of `reference`. Waits for the store.
    ///
    /// # Errors
    /// There is no such run or table, with the nearest names; or the table is damaged.
    pub(super) fn existing(&self, reference: &TableReference) -> Result<SizedTable> {
        match reference.catalog() {
            Some(run) if run != CATALOG => self.open(run)?.existing(&within(reference)),
            _ => self.own.existing(&within(reference)),
        }
    }

    /// Table of `reference`, as it was when the session last looked it up.
    pub(super) fn known(&self, reference: &TableReference) -> Option<Arc<dyn TableProvider>> {
        let tables = match reference.catalog() {
            Some(run) if run != CATALOG => self.others().get(run).cloned()?,
            _ => Arc::clone(&self.own),
        };
        tables.known(&within(reference))
    }

    /// Tables of another run.
    fn open(&self, run: &str) -> Result<Arc<SessionTables>> {
        if let Some(known) = self.others().get(run) {
            return Ok(Arc::clone(known));
        }
        let opened = Arc::new(self.own.of_run(run)?);
        self.others().insert(run.to_owned(), Arc::clone(&opened));
        Ok(opened)
    }

    fn others(&self) -> MutexGuard<'_, HashMap<String, Arc<SessionTables>>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reference without its catalog.
fn within(reference: &TableReference) -> TableReference {
    match reference {
        TableReference::Full { schema, table, .. } => {
            TableReference::Partial { schema: Arc::clone(schema), table: Arc::clone(table) }
        }
        other => other.clone(),
    }
}

impl CatalogProviderList for RunCatalogs {
    // Catalogs are those of the store.
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        let others = self.others();
        std::iter::once(CATALOG).chain(others.keys().map(String::as_str)).map(str::to_owned).collect()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let tables = if name == CATALOG { Arc::clone(&self.own) } else { self.others().get(name).cloned()? };
        Some(Arc::new(SessionCatalog { tables }))
    }
}
