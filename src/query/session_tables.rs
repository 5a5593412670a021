//! Tables of a session, found by their names in SQL, once: catalogs of its run and of other runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, MemTable, SchemaProvider, TableProvider};
use datafusion::common::TableReference;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::{DataFusionError, Result as SqlResult};
use datafusion::prelude::SessionContext;

use crate::catalog::{ALL_RUNS_SCHEMA, STORE_SCHEMA, StoreCatalog, TableContent};
use crate::errors::checked;
use crate::files::file_table;
use crate::information::{self, INFORMATION_SCHEMA, INFORMATION_TABLES, functions};
use crate::names::ListedTable;
use crate::query_threads::QueryThreads;
use crate::stage_table::{StageTable, instances_table, part_options};
use crate::state::{CATALOG, FILES, store_url};
use crate::{all_runs, names, store_tables};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::NamedFile;

/// Table, with its size in bytes.
pub(super) type SizedTable = (Arc<dyn TableProvider>, u64);

/// Tables of a session. Any number of threads can look them up.
///
/// A query looks its tables up, which finds damage, and DataFusion then takes them as they were found.
pub(super) struct SessionTables {
    catalog: Arc<StoreCatalog>,
    /// Reads the columns of tables.
    reader: SessionContext,
    threads: Arc<QueryThreads>,
    /// Names and paths of the files that queries may read.
    files: Mutex<Vec<NamedFile>>,
    found: Mutex<HashMap<(String, String), SizedTable>>,
    has_read_stage: AtomicBool,
    removed_results: Mutex<BTreeMap<String, usize>>,
    incomplete_stages: Mutex<BTreeMap<String, (usize, usize)>>,
}

impl std::fmt::Debug for SessionTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionTables").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

impl SessionTables {
    pub(super) fn new(catalog: Arc<StoreCatalog>, reader: SessionContext, threads: Arc<QueryThreads>) -> Self {
        Self {
            catalog,
            reader,
            threads,
            files: Mutex::default(),
            found: Mutex::default(),
            has_read_stage: AtomicBool::new(false),
            removed_results: Mutex::default(),
            incomplete_stages: Mutex::default(),
        }
    }

    /// Tables of another run, which `name` names as on the command line.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub(super) fn of_run(&self, name: &str) -> Result<Self> {
        let catalog = self.catalog.of_other_run(name)?;
        Ok(Self::new(Arc::new(catalog), self.reader.clone(), Arc::clone(&self.threads)))
    }

    /// Lets queries read a file as a table.
    ///
    /// # Errors
    /// Another file has the same name.
    pub(super) fn add_file(&self, file: NamedFile) -> Result<()> {
        let mut files = lock(&self.files);
        if files.iter().any(|other| other.name.eq_ignore_ascii_case(&file.name)) {
            return Err(Error::usage(format!("two files are named `{}`, expected a name for each", file.name)));
        }
        files.push(file);
        Ok(())
    }

    /// Path of the file that is named `name`, in any letter case.
    fn file(&self, name: &str) -> Option<PathBuf> {
        let files = lock(&self.files);
        let file = files.iter().find(|file| file.name.eq_ignore_ascii_case(name))?;
        Some(file.path.clone())
    }

    /// All tables that a query can read: of stages, files, the store and the information schema.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn listed(&self) -> Result<Vec<ListedTable>> {
        let of_schema =
            |schema: &str, table: &str| ListedTable { schema: schema.to_owned(), table: table.to_owned(), rows: None };
        let mut tables = self.catalog.tables()?;
        let names: BTreeSet<String> = tables.iter().map(|table| table.table.clone()).collect();
        tables.extend(lock(&self.files).iter().map(|file| of_schema(FILES, &file.name)));
        tables.extend(store_tables::names().map(ListedTable::of_store));
        // Those of other names exist as well, but the run says which ones matter.
        tables.extend(names.iter().map(|name| of_schema(ALL_RUNS_SCHEMA, name)));
        tables.extend(INFORMATION_TABLES.iter().map(|table| of_schema(INFORMATION_SCHEMA, table)));
        Ok(tables)
    }

    /// Columns of a table.
    ///
    /// # Errors
    /// There is no such table, or it is damaged.
    pub(super) fn columns(&self, schema: &str, table: &str) -> Result<SchemaRef> {
        Ok(self.existing(&TableReference::partial(schema, table))?.0.schema())
    }

    /// Columns of a listed table. Of a table over all runs, those that are described, without reading all results.
    ///
    /// # Errors
    /// As [`Self::columns`].
    pub(super) fn listed_columns(&self, schema: &str, table: &str) -> Result<SchemaRef> {
        match schema {
            ALL_RUNS_SCHEMA => Ok(all_runs::described_columns(table)),
            _ => self.columns(schema, table),
        }
    }

    /// Table of `reference`.
    ///
    /// # Errors
    /// There is no such table, with the nearest names; or it is damaged.
    pub(super) fn existing(&self, reference: &TableReference) -> Result<SizedTable> {
        let found = match reference {
            TableReference::Bare { table } => self.find(FILES, table)?,
            TableReference::Partial { schema, table } | TableReference::Full { schema, table, .. } => {
                self.find(schema, table)?
            }
        };
        match found {
            Some(found) => Ok(found),
            None => Err(names::error(&self.catalog, reference)?),
        }
    }

    /// Table of `reference`, as it was when the session last looked it up.
    pub(super) fn known(&self, reference: &TableReference) -> Option<Arc<dyn TableProvider>> {
        let key = (reference.schema().unwrap_or(FILES).to_owned(), reference.table().to_owned());
        lock(&self.found).get(&key).map(|(table, _)| Arc::clone(table))
    }

    /// Looks a table of a schema up; `None` if there is none. Waits for the store.
    ///
    /// # Errors
    /// The store cannot be read, or the table is damaged.
    pub(super) fn find(&self, schema: &str, table: &str) -> Result<Option<SizedTable>> {
        let found = self.read(schema, table)?;
        if let Some(found) = &found {
            lock(&self.found).insert((schema.to_owned(), table.to_owned()), found.clone());
        }
        Ok(found)
    }

    fn read(&self, schema: &str, table: &str) -> Result<Option<SizedTable>> {
        if schema == ALL_RUNS_SCHEMA {
            let found = all_runs::table(&self.catalog, table, &self.reader, &self.threads)?;
            return Ok(found.map(|all| {
                if all.removed > 0 {
                    lock(&self.removed_results).insert(table.to_owned(), all.removed);
                }
                (all.provider, all.bytes)
            }));
        }
        let rows = match schema {
            INFORMATION_SCHEMA => self.information(table)?,
            STORE_SCHEMA => store_tables::table(&self.catalog, table)?,
            _ => None,
        };
        if let Some(batch) = rows {
            let table = checked(MemTable::try_new(batch.schema(), vec![vec![batch]]))?;
            return Ok(Some((Arc::new(table), 0)));
        }
        if schema == FILES
            && let Some(path) = self.file(table)
        {
            return self.threads.block_on(file_table(&self.reader.state(), &path)).map(Some);
        }
        let Some(found) = self.catalog.table(schema, table)? else { return Ok(None) };
        self.has_read_stage.store(true, Ordering::Relaxed);
        let (provider, bytes) = match found {
            TableContent::Empty(schema) => {
                let table = checked(MemTable::try_new(schema, vec![vec![]]))?;
                return Ok(Some((Arc::new(table), 0)));
            }
            TableContent::Instances(instances, unfinished) => {
                let Some(store) = self.catalog.store() else { return Ok(None) };
                if unfinished > 0 {
                    let all = self.catalog.instances_of(schema).len();
                    lock(&self.incomplete_stages).insert(schema.to_owned(), (unfinished, all));
                }
                let found = instances_table(store, table, instances, &self.reader, &self.threads)?;
                return Ok(Some(found));
            }
            TableContent::Parts(parts, bytes) => {
                // All parts are there still, and an artefact is never changed.
                if let Some(known) = self.known(&TableReference::partial(schema, table)) {
                    return Ok(Some((known, bytes)));
                }
                let urls = parts.iter().map(|part| ListingTableUrl::parse(format!("{}{part}", store_url())));
                let urls = checked(urls.collect::<Result<Vec<_>, _>>())?;
                let state = self.reader.state();
                let schema = checked(self.threads.block_on(part_options().infer_schema(&state, &urls[0])))?;
                (checked(StageTable::try_new(urls, schema))?, bytes)
            }
        };
        Ok(Some((Arc::new(provider), bytes)))
    }

    /// Rows of a table of `information_schema`; `None` if it has no such table.
    fn information(&self, table: &str) -> Result<Option<RecordBatch>> {
        let tables = self.listed()?;
        match table {
            "routines" => functions(&self.reader.state()).map(Some),
            "schemata" => information::schemata(&tables).map(Some),
            "tables" => information::tables(&tables).map(Some),
            "columns" => {
                let mut columns = Vec::new();
                // The information schema does not describe itself.
                for table in tables.into_iter().filter(|table| table.schema != INFORMATION_SCHEMA) {
                    let schema = self.listed_columns(&table.schema, &table.table)?;
                    columns.push((table, schema));
                }
                information::columns(&columns).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// True if a query has read a table of a stage.
    pub(super) fn has_read_stage(&self) -> bool {
        self.has_read_stage.load(Ordering::Relaxed)
    }

    /// Tables of `all_runs` that were looked up since the last call and that lack results of finished runs, because
    /// these were removed, with the number of removed results.
    pub(super) fn take_removed_results(&self) -> BTreeMap<String, usize> {
        std::mem::take(&mut lock(&self.removed_results))
    }

    /// Stages that were looked up since the last call and that have instances without a result: the number of these,
    /// and of all.
    pub(super) fn take_incomplete_stages(&self) -> BTreeMap<String, (usize, usize)> {
        std::mem::take(&mut lock(&self.incomplete_stages))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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

    async fn table(&self, name: &str) -> SqlResult<Option<Arc<dyn TableProvider>>> {
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
