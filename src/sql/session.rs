//! Read-only DataFusion session over a store.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{MemTable, MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::TableReference;
use datafusion::config::Dialect;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, SessionStateDefaults};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use futures::StreamExt;
use tokio::runtime::Runtime;

use crate::error::{Error, Result};
use crate::sql::all_runs;
use crate::sql::catalog::{ALL_RUNS_SCHEMA, STORE_SCHEMA, StoreCatalog, TableContent};
use crate::sql::epoch_order::{self, EpochOrderFunction};
use crate::sql::store_tables;
use crate::store::Store;
use crate::store::key::Key;
use crate::store::record::RunRecord;
use crate::store::run_log::RunLog;

/// Total bytes of a query's tables below which it runs on one thread: starting threads would take longer than the work,
/// and rows keep the order of the table.
const SINGLE_THREAD_BYTES: u64 = 64 << 20;
/// URL under which the objects of the store are registered in DataFusion.
pub(super) const STORE_URL: &str = "pairloom://store/";

/// Read-only SQL session over a store.
pub struct Session {
    context: SessionContext,
    runtime: Runtime,
    catalog: Arc<StoreCatalog>,
    /// True if a query has read a table of a stage.
    has_read_stage: AtomicBool,
}

/// Rows of a query result, computed lazily, batch by batch.
pub struct QueryRows<'s> {
    runtime: &'s Runtime,
    stream: SendableRecordBatchStream,
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

    /// Opens a session over the tables of exactly these artefacts: (stage, kind, key).
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn of_stages(store: &Store, stages: impl IntoIterator<Item = (String, String, Key)>) -> Result<Self> {
        let log = Arc::new(RunLog::open(store)?);
        Self::with_catalog(StoreCatalog::of_stages(&log, stages.into_iter().collect()))
    }

    /// Opens a session over empty tables (stage, table, columns), to check queries before a run. The tables of the
    /// schema `store` exist too, also empty.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn of_empty_tables(tables: impl IntoIterator<Item = (String, String, SchemaRef)>) -> Result<Self> {
        Self::with_catalog(StoreCatalog::of_declared(tables.into_iter().collect()))
    }

    fn with_catalog(catalog: StoreCatalog) -> Result<Self> {
        let catalog = Arc::new(catalog);
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("sql")
            .enable_time()
            .build()
            .map_err(|error| Error::stage(format!("cannot start threads for SQL: {error}")))?;
        let mut config = SessionConfig::new().with_target_partitions(threads).with_collect_statistics(false);
        config.options_mut().execution.parquet.schema_force_view_types = false;
        let mount = ObjectStoreUrl::parse(STORE_URL).map_err(|error| sql_error(&error))?;
        let mut state = SessionStateBuilder::new()
            .with_config(config)
            .with_expr_planners(SessionStateDefaults::default_expr_planners())
            .with_scalar_functions(SessionStateDefaults::default_scalar_functions())
            .with_higher_order_functions(SessionStateDefaults::default_higher_order_functions())
            .with_aggregate_functions(SessionStateDefaults::default_aggregate_functions())
            .with_window_functions(SessionStateDefaults::default_window_functions())
            .with_table_function_list(SessionStateDefaults::default_table_functions());
        if let Some(store) = catalog.store() {
            state = state.with_object_store(mount.as_ref(), Arc::clone(store.objects().inner()));
        }
        let context = SessionContext::new_with_state(state.build());
        let function = EpochOrderFunction { catalog: Arc::clone(&catalog) };
        context.register_udtf(epoch_order::NAME, Arc::new(function));
        Ok(Self { context, runtime, catalog, has_read_stage: AtomicBool::new(false) })
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
        let mut state = self.context.state();
        let statement = state.sql_to_statement(sql, &Dialect::Generic).map_err(|error| sql_error(&error))?;
        if let Some(error) = statement_error(&statement) {
            return Err(error);
        }
        let mut bytes = 0;
        for reference in state.resolve_table_references(&statement).map_err(|error| sql_error(&error))? {
            if !matches!(&reference, TableReference::Bare { table } if self.is_function(table)) {
                bytes += self.register(&reference)?;
            }
        }
        if bytes < SINGLE_THREAD_BYTES {
            state.config_mut().options_mut().execution.target_partitions = 1;
        }
        let stream = self.runtime.block_on(async {
            let plan = state.statement_to_plan(statement).await?;
            SQLOptions::new()
                .with_allow_ddl(false)
                .with_allow_dml(false)
                .with_allow_statements(false)
                .verify_plan(&plan)?;
            SessionContext::new_with_state(state).execute_logical_plan(plan).await?.execute_stream().await
        });
        Ok(QueryRows { runtime: &self.runtime, stream: stream.map_err(|error| sql_error(&error))? })
    }

    /// Returns true if a query has read a table of a stage.
    #[must_use]
    pub fn has_read_stage(&self) -> bool {
        self.has_read_stage.load(Ordering::Relaxed)
    }

    /// Returns true if `name` is a table function.
    fn is_function(&self, name: &str) -> bool {
        self.context.state().table_functions().contains_key(name)
    }

    /// Registers the table of `reference` in DataFusion. Returns its size in bytes.
    fn register(&self, reference: &TableReference) -> Result<u64> {
        let table = match reference {
            TableReference::Partial { schema, table } => self.table(schema, table)?,
            _ => None,
        };
        let Some((table, bytes)) = table else { return Err(self.catalog.unknown_table_error(&reference.to_string())?) };
        let schema = reference.schema().unwrap_or_default();
        let options = self.context.state();
        let catalog = options.config_options().catalog.default_catalog.clone();
        let catalog = self.context.catalog(&catalog).ok_or_else(|| Error::internal("DataFusion has a catalog"))?;
        let provider = if let Some(provider) = catalog.schema(schema) {
            provider
        } else {
            let provider: Arc<dyn SchemaProvider> = Arc::new(MemorySchemaProvider::new());
            catalog.register_schema(schema, Arc::clone(&provider)).map_err(|error| sql_error(&error))?;
            provider
        };
        // The table may have changed since an earlier query of this session.
        provider.deregister_table(reference.table()).map_err(|error| sql_error(&error))?;
        provider.register_table(reference.table().to_owned(), table).map_err(|error| sql_error(&error))?;
        Ok(bytes)
    }

    fn table(&self, schema: &str, table: &str) -> Result<Option<(Arc<dyn TableProvider>, u64)>> {
        if schema == ALL_RUNS_SCHEMA {
            let table = all_runs::table(&self.catalog, table, &self.context, self.runtime.handle())?;
            return Ok(table.map(|(table, bytes)| (table as Arc<dyn TableProvider>, bytes)));
        }
        if schema == STORE_SCHEMA
            && let Some(batch) = store_tables::table(&self.catalog, table)?
        {
            let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).map_err(|error| sql_error(&error))?;
            return Ok(Some((Arc::new(table), 0)));
        }
        let Some(found) = self.catalog.table(schema, table)? else { return Ok(None) };
        self.has_read_stage.store(true, Ordering::Relaxed);
        let (config, bytes) = match found {
            TableContent::Empty(schema) => {
                let table = MemTable::try_new(schema, vec![vec![]]).map_err(|error| sql_error(&error))?;
                return Ok(Some((Arc::new(table), 0)));
            }
            TableContent::Parts(parts, bytes) => {
                let urls = parts.iter().map(|part| ListingTableUrl::parse(format!("{STORE_URL}{part}")));
                let urls = urls.collect::<Result<Vec<_>, _>>().map_err(|error| sql_error(&error))?;
                let options = ListingOptions::new(Arc::new(ParquetFormat::default().with_force_view_types(false)));
                let state = self.context.state();
                let schema =
                    self.runtime.block_on(options.infer_schema(&state, &urls[0])).map_err(|error| sql_error(&error))?;
                let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options);
                (config.with_schema(schema), bytes)
            }
        };
        let table = ListingTable::try_new(config).map_err(|error| sql_error(&error))?;
        Ok(Some((Arc::new(table), bytes)))
    }
}

impl QueryRows<'_> {
    /// Columns of the result.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}

impl Iterator for QueryRows<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.runtime.block_on(self.stream.next())?;
        Some(batch.map_err(|error| sql_error(&error)))
    }
}

/// Turns an error of DataFusion into ours: a data error if reading failed, otherwise a usage error of the query.
pub(super) fn sql_error(error: &DataFusionError) -> Error {
    let root = error.find_root();
    let message = root.strip_backtrace().replace('\n', " ");
    let message = message.trim_end_matches('.');
    match root {
        DataFusionError::ParquetError(_) | DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => {
            Error::data(format!("cannot read the store: {message}"))
                .hint("run the pipeline again: it checks every part that it reads and rebuilds damaged ones")
        }
        DataFusionError::Internal(_) => Error::internal(format!("SQL: {message}")),
        DataFusionError::ResourcesExhausted(_) => Error::stage(format!("SQL: {message}")),
        _ => {
            let refused = ["DDL not supported", "DML not supported", "Statement not supported"];
            if refused.iter().any(|start| message.contains(start)) {
                return read_only();
            }
            Error::usage(format!("SQL: {message}"))
        }
    }
}

/// Error for statements other than queries, before planning. The plan is checked for writes again.
fn statement_error(statement: &Statement) -> Option<Error> {
    use datafusion::sql::sqlparser::ast::Statement as Sql;
    match statement {
        Statement::Statement(sql) => match **sql {
            Sql::Query(_) | Sql::Explain { .. } | Sql::ExplainTable { .. } => None,
            Sql::ShowTables { .. } | Sql::ShowColumns { .. } | Sql::ShowVariable { .. } => Some(
                Error::usage("SQL: `SHOW` is not supported")
                    .hint("use `SELECT DISTINCT stage, table_name FROM store.parts`, or `DESCRIBE stage.table`"),
            ),
            _ => Some(read_only()),
        },
        Statement::Explain(explained) => statement_error(&explained.statement),
        _ => Some(read_only()),
    }
}

fn read_only() -> Error {
    Error::usage("SQL: the store is read-only, wanted a query").hint("only `pairloom run` writes to a store")
}
