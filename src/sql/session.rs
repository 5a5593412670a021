//! Read-only DataFusion session over a store: an asynchronous core, and its blocking face.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::TableReference;
use datafusion::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::prelude::SessionContext;

use crate::error::{Error, Result};
use crate::sql::catalog::{DeclaredTable, StageArtefact, StoreCatalog};
use crate::sql::column_names::name_columns;
use crate::sql::epoch_order::{self, EpochOrderFunction};
use crate::sql::errors::{checked, query_error};
use crate::sql::files::NamedFile;
use crate::sql::information;
use crate::sql::interrupt::StatementInterrupt;
use crate::sql::names::ListedTable;
use crate::sql::plan_rewrites::{with_json_as_text, with_nullable_vectors};
use crate::sql::query_threads::{QueryRows, QueryThreads};
use crate::sql::result_files;
use crate::sql::session_catalog::SessionCatalog;
use crate::sql::session_tables::{SessionTables, SizedTable};
use crate::sql::setting_queries::check_settings;
use crate::sql::settings_column::SettingKinds;
use crate::sql::show::{Request, request};
use crate::sql::state::{CATALOG, FILES, session_state};
use crate::sql::statements::split_statements;
use crate::sql::topk_join::{TOPK_JOIN, named_tables};
use crate::sql::topk_join_function::TopKJoinFunction;
use crate::store::Store;
use crate::store::record::RunRecord;
use crate::store::run_log::RunLog;

/// Total bytes of a query's tables below which it runs on one thread: starting threads would take longer than the work,
/// and rows keep the order of the table.
const SINGLE_THREAD_BYTES: u64 = 64 << 20;

/// Read-only SQL session over a store.
pub struct Session {
    context: SessionContext,
    threads: Arc<QueryThreads>,
    tables: Arc<SessionTables>,
    interrupt: StatementInterrupt,
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
        let threads = Arc::new(QueryThreads::start()?);
        let state = checked(session_state(catalog.store()))?;
        let reader = SessionContext::new_with_state(state.clone());
        let tables = Arc::new(SessionTables::new(Arc::clone(&catalog), reader, Arc::clone(&threads)));
        let context = SessionContext::new_with_state(state);
        context.register_catalog(CATALOG, Arc::new(SessionCatalog { tables: Arc::clone(&tables) }));
        context.register_udtf(epoch_order::NAME, Arc::new(EpochOrderFunction { catalog }));
        context.register_udtf(TOPK_JOIN, Arc::new(TopKJoinFunction { tables: Arc::clone(&tables) }));
        Ok(Self { context, threads, tables, interrupt: StatementInterrupt::default() })
    }

    /// Lets queries read a file as a table. The file is opened when a query names it.
    ///
    /// # Errors
    /// Another file has the same name.
    pub fn add_file(&self, file: NamedFile) -> Result<()> {
        self.tables.add_file(file)
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
        self.tables.listed()
    }

    /// Columns of a table.
    ///
    /// # Errors
    /// There is no such table, or it is damaged.
    pub fn columns(&self, schema: &str, table: &str) -> Result<SchemaRef> {
        self.tables.columns(schema, table)
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
    /// The query is not valid SQL, refers to unknown tables or columns, or would write. It was interrupted.
    pub fn query(&self, sql: &str) -> Result<QueryRows<'_>> {
        let running = self.interrupt.start();
        let stream = self.threads.block_on(running.run(self.start(sql)))??;
        Ok(self.threads.rows(stream, running, sql))
    }

    /// Plans a query, without waiting. Its rows are computed as they are read.
    ///
    /// # Errors
    /// As [`Session::query`].
    pub(super) async fn start(&self, sql: &str) -> Result<SendableRecordBatchStream> {
        let wrong = |error: DataFusionError| query_error(&error, sql);
        let mut state = self.context.state();
        check_count(sql)?;
        let mut statement = state.sql_to_statement(sql, &Dialect::Generic).map_err(wrong)?;
        match request(&statement)? {
            Request::Query => {}
            Request::Rewritten(query) => return Box::pin(self.start(&query)).await,
            Request::Describe(reference) => {
                let table = self.existing(vec![reference.clone()]).await?.remove(0).0;
                let batch = information::description(&listed_table(&reference), &table.schema())?;
                return Ok(Box::pin(checked(MemoryStream::try_new(vec![batch.clone()], batch.schema(), None))?));
            }
        }
        let mut references = state.resolve_table_references(&statement).map_err(wrong)?;
        references.retain(|reference| {
            !matches!(reference, TableReference::Bare { table } if state.table_functions().contains_key(&**table))
        });
        references.extend(named_tables(&statement, TOPK_JOIN, 2));
        let tables = self.existing(references).await?;
        let mut settings = SettingKinds::new();
        for (table, _) in &tables {
            settings.extend(result_files::setting_kinds(&**table));
        }
        check_settings(&statement, &settings, sql)?;
        name_columns(&mut statement);
        if tables.iter().map(|(_, bytes)| bytes).sum::<u64>() < SINGLE_THREAD_BYTES {
            state.config_mut().options_mut().execution.target_partitions = 1;
        }
        let started = async {
            let plan = state.statement_to_plan(statement).await?;
            SQLOptions::new()
                .with_allow_ddl(false)
                .with_allow_dml(false)
                .with_allow_statements(false)
                .verify_plan(&plan)?;
            let plan = with_json_as_text(with_nullable_vectors(plan)?)?;
            SessionContext::new_with_state(state).execute_logical_plan(plan).await?.execute_stream().await
        };
        started.await.map_err(wrong)
    }

    /// Tables of `references`, with their sizes.
    async fn existing(&self, references: Vec<TableReference>) -> Result<Vec<SizedTable>> {
        let tables = Arc::clone(&self.tables);
        // The store waits for its files or its server.
        let found = tokio::task::spawn_blocking(move || {
            references.iter().map(|reference| tables.existing(reference)).collect::<Result<Vec<_>>>()
        });
        found.await.map_err(|error| Error::internal(format!("SQL: {error}")))?
    }

    /// Returns true if a query has read a table of a stage.
    #[must_use]
    pub fn has_read_stage(&self) -> bool {
        self.tables.has_read_stage()
    }

    /// Tables of `all_runs` that queries have read since the last call and that lack results of finished runs, because
    /// these were removed, with the number of removed results.
    #[must_use]
    pub fn take_removed_results(&self) -> BTreeMap<String, usize> {
        self.tables.take_removed_results()
    }

    /// Stages that queries have read since the last call and that have instances without a result: the number of these,
    /// and of all.
    #[must_use]
    pub fn take_incomplete_stages(&self) -> BTreeMap<String, (usize, usize)> {
        self.tables.take_incomplete_stages()
    }
}

/// Refuses no statement, and several.
fn check_count(sql: &str) -> Result<()> {
    let (statements, rest) = split_statements(sql);
    match statements.len() + usize::from(!rest.is_empty()) {
        0 => Err(Error::usage("SQL: the query is empty").hint("`SHOW TABLES` lists the tables")),
        1 => Ok(()),
        count => Err(Error::usage(format!("SQL: {count} statements, wanted one"))),
    }
}

/// Name of the table of `reference`.
fn listed_table(reference: &TableReference) -> ListedTable {
    let (schema, table) = (reference.schema().unwrap_or(FILES), reference.table());
    // Descriptions are found by the exact name, which is in lower case.
    ListedTable { schema: schema.to_owned(), table: table.to_lowercase(), rows: None }
}
