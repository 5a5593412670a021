//! Read-only DataFusion session over a store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{MemTable, MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::TableReference;
use datafusion::config::Dialect;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::prelude::SessionContext;

use crate::error::{Error, Result};
use crate::sql::all_runs;
use crate::sql::catalog::{ALL_RUNS_SCHEMA, DeclaredTable, STORE_SCHEMA, StageArtefact, StoreCatalog, TableContent};
use crate::sql::column_names::name_columns;
use crate::sql::epoch_order::{self, EpochOrderFunction};
use crate::sql::errors::{checked, query_error};
use crate::sql::files::{NamedFile, file_table};
use crate::sql::functions::functions;
use crate::sql::information::{self, INFORMATION_SCHEMA, INFORMATION_TABLES};
use crate::sql::instances::instances_table;
use crate::sql::interrupt::StatementInterrupt;
use crate::sql::names::ListedTable;
use crate::sql::plan_rewrites::{with_json_as_text, with_nullable_vectors};
use crate::sql::query_threads::{QueryRows, QueryThreads};
use crate::sql::result_files;
use crate::sql::setting_queries::check_settings;
use crate::sql::settings_column::SettingKinds;
use crate::sql::show::{Request, request};
use crate::sql::state::{CATALOG, FILES, STORE_URL, session_state};
use crate::sql::statements::split_statements;
use crate::sql::store_tables;
use crate::sql::topk_join::{TOPK_JOIN, TopKJoinFunction, named_tables};
use crate::sql::unknown_table;
use crate::store::Store;
use crate::store::record::RunRecord;
use crate::store::run_log::RunLog;

/// Total bytes of a query's tables below which it runs on one thread: starting threads would take longer than the work,
/// and rows keep the order of the table.
const SINGLE_THREAD_BYTES: u64 = 64 << 20;

/// Read-only SQL session over a store.
pub struct Session {
    context: SessionContext,
    threads: QueryThreads,
    catalog: Arc<StoreCatalog>,
    /// Names and paths of the files that queries may read.
    files: Vec<NamedFile>,
    interrupt: StatementInterrupt,
    /// True if a query has read a table of a stage.
    has_read_stage: AtomicBool,
    /// Number of removed results by table of `all_runs` that a query has read.
    removed_results: Mutex<BTreeMap<String, usize>>,
    /// Stages that a query has read and that have instances without a result: the number of these, and of all.
    incomplete_stages: Mutex<BTreeMap<String, (usize, usize)>>,
}

impl Session {
    /// Opens a session in which `stage.table` means the table of that stage in the last finished run of the store.
    ///
    /// # Errors
    /// Threads cannot be started, or the store cannot be read.
    pub fn open(store: &Store) -> Result<Self> {
        let log = Arc::new(RunLog::open(store)?);
        let run = log.last_finished(None)?;
        Self::of_run(&log, run)
    }

    /// Opens a session in which `stage.table` means the table of that stage in `run`. Without a run there are only the
    /// tables of the schemas `store` and `all_runs`.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn of_run(log: &Arc<RunLog>, run: Option<&RunRecord>) -> Result<Self> {
        Self::with_catalog(StoreCatalog::of_run(log, run))
    }

    /// Opens a session over the tables of exactly these artefacts.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn of_stages(store: &Store, stages: impl IntoIterator<Item = StageArtefact>) -> Result<Self> {
        let log = Arc::new(RunLog::open(store)?);
        Self::with_catalog(StoreCatalog::of_stages(&log, stages.into_iter().collect()))
    }

    /// Opens a session over empty tables, to check queries before a run. The tables of the
    /// schema `store` exist too, also empty.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn of_empty_tables(tables: impl IntoIterator<Item = DeclaredTable>) -> Result<Self> {
        Self::with_catalog(StoreCatalog::of_declared(tables.into_iter().collect()))
    }

    fn with_catalog(catalog: StoreCatalog) -> Result<Self> {
        let catalog = Arc::new(catalog);
        let threads = QueryThreads::start()?;
        let context = SessionContext::new_with_state(checked(session_state(catalog.store()))?);
        let function = EpochOrderFunction { catalog: Arc::clone(&catalog) };
        context.register_udtf(epoch_order::NAME, Arc::new(function));
        let tables = context.catalog(CATALOG).ok_or_else(|| Error::internal("DataFusion has a catalog"))?;
        context.register_udtf(TOPK_JOIN, Arc::new(TopKJoinFunction { catalog: tables }));
        let (files, interrupt) = (Vec::new(), StatementInterrupt::default());
        let (has_read_stage, removed_results) = (AtomicBool::new(false), Mutex::default());
        let incomplete_stages = Mutex::default();
        Ok(Self { context, threads, catalog, files, interrupt, has_read_stage, removed_results, incomplete_stages })
    }

    /// Lets queries read a file as a table. The file is opened when a query names it.
    ///
    /// # Errors
    /// Another file has the same name.
    pub fn add_file(&mut self, file: NamedFile) -> Result<()> {
        if self.file(&file.name).is_some() {
            return Err(Error::usage(format!("two files are named `{}`, wanted a name for each", file.name)));
        }
        self.files.push(file);
        Ok(())
    }

    /// Path of the file that is named `name`, in any letter case.
    fn file(&self, name: &str) -> Option<PathBuf> {
        let file = self.files.iter().find(|file| file.name.eq_ignore_ascii_case(name))?;
        Some(file.path.clone())
    }

    /// Handle that interrupts a running statement.
    #[must_use]
    pub fn interrupt(&self) -> StatementInterrupt {
        self.interrupt.clone()
    }

    /// All tables that a query can read: of stages, files, the store and the information schema.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn tables(&self) -> Result<Vec<ListedTable>> {
        let of_schema =
            |schema: &str, table: &str| ListedTable { schema: schema.to_owned(), table: table.to_owned(), rows: None };
        let mut tables = self.catalog.tables()?;
        let names: BTreeSet<String> = tables.iter().map(|table| table.table.clone()).collect();
        tables.extend(self.files.iter().map(|file| of_schema(FILES, &file.name)));
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
    pub fn columns(&self, schema: &str, table: &str) -> Result<SchemaRef> {
        Ok(self.existing_table(&TableReference::partial(schema, table))?.0.schema())
    }

    /// Names of all functions, in order.
    #[must_use]
    pub fn functions(&self) -> Vec<String> {
        let state = self.context.state();
        let scalar = state.scalar_functions().keys();
        let others = state.aggregate_functions().keys().chain(state.window_functions().keys());
        let mut names: Vec<String> = scalar.chain(others).chain(state.table_functions().keys()).cloned().collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Plans and starts a query.
    ///
    /// If the tables of the query have less than 64 MiB, it runs on one thread: rows keep the order of the table unless
    /// the query sorts them, and sums are reproducible to the bit. Larger tables are read by several threads in any
    /// order.
    ///
    /// # Errors
    /// The query is not valid SQL, refers to unknown tables or columns, or would write.
    pub fn query(&self, sql: &str) -> Result<QueryRows<'_>> {
        let running = self.interrupt.start();
        let wrong = |error: DataFusionError| query_error(&error, sql);
        let state = self.context.state();
        match split_statements(sql) {
            (statements, rest) if statements.is_empty() && rest.is_empty() => {
                return Err(Error::usage("SQL: the query is empty").hint("`SHOW TABLES` lists the tables"));
            }
            (statements, rest) if statements.len() + usize::from(!rest.is_empty()) > 1 => {
                let count = statements.len() + usize::from(!rest.is_empty());
                return Err(Error::usage(format!("SQL: {count} statements, wanted one")));
            }
            _ => {}
        }
        let mut statement = state.sql_to_statement(sql, &Dialect::Generic).map_err(wrong)?;
        match request(&statement)? {
            Request::Query => {}
            Request::Rewritten(query) => {
                drop(running);
                return self.query(&query);
            }
            Request::Describe(reference) => {
                let schema = self.existing_table(&reference)?.0.schema();
                let batch = information::description(&listed_table(&reference), &schema)?;
                let stream = checked(MemoryStream::try_new(vec![batch.clone()], batch.schema(), None))?;
                return Ok(self.threads.rows(Box::pin(stream), running, sql));
            }
        }
        let mut state = state;
        let (mut bytes, mut settings) = (0, SettingKinds::new());
        let mut references = state.resolve_table_references(&statement).map_err(wrong)?;
        references.extend(named_tables(&statement, TOPK_JOIN, 2));
        for reference in references {
            if !matches!(&reference, TableReference::Bare { table } if self.is_function(table)) {
                let (table, table_bytes) = self.existing_table(&reference)?;
                settings.extend(result_files::setting_kinds(&*table));
                self.register(&reference, table)?;
                bytes += table_bytes;
            }
        }
        check_settings(&statement, &settings, sql)?;
        name_columns(&mut statement);
        if bytes < SINGLE_THREAD_BYTES {
            state.config_mut().options_mut().execution.target_partitions = 1;
        }
        let started = self.threads.block_on(running.run(async {
            let plan = state.statement_to_plan(statement).await?;
            SQLOptions::new()
                .with_allow_ddl(false)
                .with_allow_dml(false)
                .with_allow_statements(false)
                .verify_plan(&plan)?;
            let plan = with_json_as_text(with_nullable_vectors(plan)?)?;
            SessionContext::new_with_state(state).execute_logical_plan(plan).await?.execute_stream().await
        }))?;
        Ok(self.threads.rows(started.map_err(wrong)?, running, sql))
    }

    /// Returns true if a query has read a table of a stage.
    #[must_use]
    pub fn has_read_stage(&self) -> bool {
        self.has_read_stage.load(Ordering::Relaxed)
    }

    /// Tables of `all_runs` that queries have read since the last call and that lack results of finished runs, because
    /// these were removed, with the number of removed results.
    #[must_use]
    pub fn take_removed_results(&self) -> BTreeMap<String, usize> {
        std::mem::take(&mut self.removed_results.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stages that queries have read since the last call and that have instances without a result: the number of these,
    /// and of all.
    #[must_use]
    pub fn take_incomplete_stages(&self) -> BTreeMap<String, (usize, usize)> {
        std::mem::take(&mut self.incomplete_stages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if `name` is a table function.
    fn is_function(&self, name: &str) -> bool {
        self.context.state().table_functions().contains_key(name)
    }

    /// Registers the table of `reference` in DataFusion.
    fn register(&self, reference: &TableReference, table: Arc<dyn TableProvider>) -> Result<()> {
        let schema = reference.schema().unwrap_or(FILES);
        let catalog = self.context.catalog(CATALOG).ok_or_else(|| Error::internal("DataFusion has a catalog"))?;
        let provider = if let Some(provider) = catalog.schema(schema) {
            provider
        } else {
            let provider: Arc<dyn SchemaProvider> = Arc::new(MemorySchemaProvider::new());
            checked(catalog.register_schema(schema, Arc::clone(&provider)))?;
            provider
        };
        // The table may have changed since an earlier query of this session.
        checked(provider.deregister_table(reference.table()))?;
        checked(provider.register_table(reference.table().to_owned(), table))?;
        Ok(())
    }

    /// Table of `reference`, with its size in bytes.
    fn existing_table(&self, reference: &TableReference) -> Result<(Arc<dyn TableProvider>, u64)> {
        let found = match reference {
            TableReference::Bare { table } => self.table(FILES, table)?,
            TableReference::Partial { schema, table } => self.table(schema, table)?,
            TableReference::Full { catalog, schema, table } if &**catalog == CATALOG => self.table(schema, table)?,
            TableReference::Full { .. } => None,
        };
        match found {
            Some(found) => Ok(found),
            None => Err(unknown_table::error(&self.catalog, reference)?),
        }
    }

    fn table(&self, schema: &str, table: &str) -> Result<Option<(Arc<dyn TableProvider>, u64)>> {
        if schema == ALL_RUNS_SCHEMA {
            let found = all_runs::table(&self.catalog, table, &self.context, &self.threads)?;
            return Ok(found.map(|all| {
                if all.removed > 0 {
                    let mut removed = self.removed_results.lock().unwrap_or_else(PoisonError::into_inner);
                    removed.insert(table.to_owned(), all.removed);
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
            return self.threads.block_on(file_table(&self.context.state(), &path)).map(Some);
        }
        let Some(found) = self.catalog.table(schema, table)? else { return Ok(None) };
        self.has_read_stage.store(true, Ordering::Relaxed);
        let (config, bytes) = match found {
            TableContent::Empty(schema) => {
                let table = checked(MemTable::try_new(schema, vec![vec![]]))?;
                return Ok(Some((Arc::new(table), 0)));
            }
            TableContent::Instances(instances, unfinished) => {
                let Some(store) = self.catalog.store() else { return Ok(None) };
                if unfinished > 0 {
                    let mut incomplete = self.incomplete_stages.lock().unwrap_or_else(PoisonError::into_inner);
                    incomplete.insert(schema.to_owned(), (unfinished, self.catalog.instances_of(schema).len()));
                }
                let found = instances_table(store, table, instances, &self.context, &self.threads)?;
                return Ok(Some(found));
            }
            TableContent::Parts(parts, bytes) => {
                let urls = parts.iter().map(|part| ListingTableUrl::parse(format!("{STORE_URL}{part}")));
                let urls = checked(urls.collect::<Result<Vec<_>, _>>())?;
                let options = ListingOptions::new(Arc::new(ParquetFormat::default().with_force_view_types(false)));
                let state = self.context.state();
                let schema = checked(self.threads.block_on(options.infer_schema(&state, &urls[0])))?;
                let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options);
                (config.with_schema(schema), bytes)
            }
        };
        let table = checked(ListingTable::try_new(config))?;
        Ok(Some((Arc::new(table), bytes)))
    }

    /// Rows of a table of `information_schema`; `None` if it has no such table.
    fn information(&self, table: &str) -> Result<Option<RecordBatch>> {
        let tables = self.tables()?;
        match table {
            "routines" => functions(&self.context.state()).map(Some),
            "schemata" => information::schemata(&tables).map(Some),
            "tables" => information::tables(&tables).map(Some),
            "columns" => {
                let mut columns = Vec::new();
                // The information schema does not describe itself.
                for table in tables.into_iter().filter(|table| table.schema != INFORMATION_SCHEMA) {
                    let schema = match table.schema.as_str() {
                        ALL_RUNS_SCHEMA => all_runs::described_columns(&table.table),
                        _ => self.columns(&table.schema, &table.table)?,
                    };
                    columns.push((table, schema));
                }
                information::columns(&columns).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Name of the table of `reference`.
fn listed_table(reference: &TableReference) -> ListedTable {
    let (schema, table) = (reference.schema().unwrap_or(FILES), reference.table());
    // Descriptions are found by the exact name, which is in lower case.
    ListedTable { schema: schema.to_owned(), table: table.to_lowercase(), rows: None }
}
