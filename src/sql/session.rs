//! A DataFusion session that reads a store and can do nothing else.

use std::num::NonZeroUsize;
use std::sync::Arc;

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
use crate::sql::epoch_plan::{self, EpochPlan};
use crate::sql::names::{Found, Names};
use crate::sql::system;
use crate::store::Store;
use crate::store::key::Key;

/// Bytes of the tables of a query up to which it runs on one thread. Starting more would take longer than the work, and
/// rows come in the order of the table.
const SMALL: u64 = 64 << 20;
/// Where the objects of the store are mounted.
const MOUNT: &str = "pairloom://store/";

/// A session over a store.
pub struct Session {
    context: SessionContext,
    runtime: Runtime,
    names: Names,
}

/// The rows of an answer, computed as they are taken.
pub struct Rows<'s> {
    runtime: &'s Runtime,
    stream: SendableRecordBatchStream,
}

impl Session {
    /// A session in which `stage.table` is the table of that stage in the latest run that finished it.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn open(store: &Store) -> Result<Self> {
        Self::over(Names::of_runs(store))
    }

    /// A session in which `stage.table` is the table of exactly these artefacts: (stage, kind, key).
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn of_stages(store: &Store, stages: impl IntoIterator<Item = (String, String, Key)>) -> Result<Self> {
        Self::over(Names::of_stages(store, stages.into_iter().collect()))
    }

    /// A session in which these tables, (stage, table, columns), have no rows: for finding out whether a query is right
    /// before there is anything to ask. The tables of the schema `store` are there, without rows.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn of_columns(tables: impl IntoIterator<Item = (String, String, SchemaRef)>) -> Result<Self> {
        Self::over(Names::declared(tables.into_iter().collect()))
    }

    fn over(names: Names) -> Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("sql")
            .enable_time()
            .build()
            .map_err(|error| Error::stage(format!("cannot start threads for SQL: {error}")))?;
        let mut config = SessionConfig::new().with_target_partitions(threads).with_collect_statistics(false);
        config.options_mut().execution.parquet.schema_force_view_types = false;
        let mount = ObjectStoreUrl::parse(MOUNT).map_err(|error| fault(&error))?;
        let mut state = SessionStateBuilder::new()
            .with_config(config)
            .with_expr_planners(SessionStateDefaults::default_expr_planners())
            .with_scalar_functions(SessionStateDefaults::default_scalar_functions())
            .with_higher_order_functions(SessionStateDefaults::default_higher_order_functions())
            .with_aggregate_functions(SessionStateDefaults::default_aggregate_functions())
            .with_window_functions(SessionStateDefaults::default_window_functions())
            .with_table_function_list(SessionStateDefaults::default_table_functions());
        if let Some(store) = names.store() {
            state = state.with_object_store(mount.as_ref(), Arc::clone(store.objects().store()));
        }
        let context = SessionContext::new_with_state(state.build());
        let given = names.given().map(<[_]>::to_vec);
        context.register_udtf(epoch_plan::NAME, Arc::new(EpochPlan { store: names.store().cloned(), given }));
        Ok(Self { context, runtime, names })
    }

    /// Plans and starts a query.
    ///
    /// While the tables of the query have less than 64 MiB, rows come in the order of the table unless the query says
    /// otherwise, and sums have the same bits every time; larger ones are read by several threads in any order.
    ///
    /// # Errors
    /// The query is not SQL, names what is not there, or would write.
    pub fn query(&self, sql: &str) -> Result<Rows<'_>> {
        let mut state = self.context.state();
        let statement = state.sql_to_statement(sql, &Dialect::Generic).map_err(|error| fault(&error))?;
        if let Some(error) = refused(&statement) {
            return Err(error);
        }
        let mut bytes = 0;
        for reference in state.resolve_table_references(&statement).map_err(|error| fault(&error))? {
            if !matches!(&reference, TableReference::Bare { table } if self.is_function(table)) {
                bytes += self.register(&reference)?;
            }
        }
        if bytes < SMALL {
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
        Ok(Rows { runtime: &self.runtime, stream: stream.map_err(|error| fault(&error))? })
    }

    /// Whether a name without a stage is that of a function that gives a table.
    fn is_function(&self, name: &str) -> bool {
        self.context.state().table_functions().contains_key(name)
    }

    /// Makes known to DataFusion what `reference` stands for, and says how many bytes it has.
    fn register(&self, reference: &TableReference) -> Result<u64> {
        let table = match reference {
            TableReference::Partial { schema, table } => self.table(schema, table)?,
            _ => None,
        };
        let Some((table, bytes)) = table else { return Err(self.names.unknown(&reference.to_string())?) };
        let schema = reference.schema().unwrap_or_default();
        let options = self.context.state();
        let catalog = options.config_options().catalog.default_catalog.clone();
        let catalog = self.context.catalog(&catalog).ok_or_else(|| Error::internal("DataFusion has a catalog"))?;
        let provider = if let Some(provider) = catalog.schema(schema) {
            provider
        } else {
            let provider: Arc<dyn SchemaProvider> = Arc::new(MemorySchemaProvider::new());
            catalog.register_schema(schema, Arc::clone(&provider)).map_err(|error| fault(&error))?;
            provider
        };
        // A run may have finished since an earlier query of this session.
        provider.deregister_table(reference.table()).map_err(|error| fault(&error))?;
        provider.register_table(reference.table().to_owned(), table).map_err(|error| fault(&error))?;
        Ok(bytes)
    }

    fn table(&self, schema: &str, table: &str) -> Result<Option<(Arc<dyn TableProvider>, u64)>> {
        if let Some(batch) = system::table(&self.names, schema, table)? {
            let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).map_err(|error| fault(&error))?;
            return Ok(Some((Arc::new(table), 0)));
        }
        let Some(found) = self.names.table(schema, table)? else { return Ok(None) };
        let (config, bytes) = match found {
            Found::Empty(schema) => {
                let table = MemTable::try_new(schema, vec![vec![]]).map_err(|error| fault(&error))?;
                return Ok(Some((Arc::new(table), 0)));
            }
            Found::Parts(parts, bytes) => {
                let urls = parts.iter().map(|part| ListingTableUrl::parse(format!("{MOUNT}{part}")));
                let urls = urls.collect::<Result<Vec<_>, _>>().map_err(|error| fault(&error))?;
                let options = ListingOptions::new(Arc::new(ParquetFormat::default().with_force_view_types(false)));
                let state = self.context.state();
                let schema =
                    self.runtime.block_on(options.infer_schema(&state, &urls[0])).map_err(|error| fault(&error))?;
                let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options);
                (config.with_schema(schema), bytes)
            }
        };
        let table = ListingTable::try_new(config).map_err(|error| fault(&error))?;
        Ok(Some((Arc::new(table), bytes)))
    }
}

impl Rows<'_> {
    /// The columns.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.runtime.block_on(self.stream.next())?;
        Some(batch.map_err(|error| fault(&error)))
    }
}

/// Whose fault it is: what DataFusion finds before it reads is the query's, what it finds while it reads is the data's.
fn fault(error: &DataFusionError) -> Error {
    let root = error.find_root();
    let message = root.strip_backtrace().replace('\n', " ");
    let message = message.trim_end_matches('.');
    match root {
        DataFusionError::ParquetError(_) | DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => {
            Error::data(format!("cannot read the store: {message}"))
                .hint("run the pipeline again: it checks every part that it reads and builds damaged ones anew")
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

/// Why a statement cannot even be planned. What a query is made of is looked at again in its plan.
fn refused(statement: &Statement) -> Option<Error> {
    use datafusion::sql::sqlparser::ast::Statement as Sql;
    match statement {
        Statement::Statement(sql) => match **sql {
            Sql::Query(_) | Sql::Explain { .. } | Sql::ExplainTable { .. } => None,
            Sql::ShowTables { .. } | Sql::ShowColumns { .. } | Sql::ShowVariable { .. } => Some(
                Error::usage("SQL: there is no `SHOW` here")
                    .hint("ask for `SELECT DISTINCT stage, table_name FROM store.parts`, or `DESCRIBE stage.table`"),
            ),
            _ => Some(read_only()),
        },
        Statement::Explain(explained) => refused(&explained.statement),
        _ => Some(read_only()),
    }
}

fn read_only() -> Error {
    Error::usage("SQL: the store is read-only here, wanted a query").hint("only `pairloom run` writes to a store")
}
