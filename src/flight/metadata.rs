//! Catalog for clients: schemas, tables, and keys, of which there are none; and facts about the server and its
//! types: `GetSqlInfo` and `GetXdbcTypeInfo`.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::error::Result;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables, Nullable, Searchable, SqlInfo,
    SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedTransaction, XdbcDataType,
};

use crate::queries::sent_columns;
use pairloom_query::{ALL_RUNS_SCHEMA, CATALOG, INFORMATION_SCHEMA, ListedTable, STORE_SCHEMA, Session};

/// Types of tables: results and files; tables over all runs; the store's own.
const TABLE_TYPES: [&str; 3] = ["TABLE", "VIEW", "SYSTEM TABLE"];

/// Rows of `GetCatalogs`.
pub(super) fn catalogs(command: CommandGetCatalogs) -> Result<RecordBatch> {
    let mut rows = command.into_builder();
    rows.append(CATALOG);
    rows.build()
}

/// Rows of `GetDbSchemas`.
pub(super) fn schemas(command: CommandGetDbSchemas, tables: &[ListedTable]) -> Result<RecordBatch> {
    let mut rows = command.into_builder();
    let mut names: Vec<&str> = tables.iter().map(|table| table.schema.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        rows.append(CATALOG, name);
    }
    rows.build()
}

/// Rows of `GetTableTypes`.
pub(super) fn table_types(command: CommandGetTableTypes) -> Result<RecordBatch> {
    let mut rows = command.into_builder();
    for name in TABLE_TYPES {
        rows.append(name);
    }
    rows.build()
}

/// Rows of `GetTables`. Columns are looked up for the tables that the client asks for; a table that cannot be read has
/// none.
pub(super) fn tables(command: CommandGetTables, session: &Session, tables: &[ListedTable]) -> Result<RecordBatch> {
    let no_columns = Schema::empty();
    let mut matching = CommandGetTables { include_schema: false, ..command.clone() }.into_builder();
    for table in tables {
        matching.append(CATALOG, &table.schema, &table.table, table_type(table), &no_columns)?;
    }
    let matching = matching.build()?;
    if !command.include_schema {
        return Ok(matching);
    }
    let mut rows = command.into_builder();
    let texts = |column: usize| matching.column(column).as_string::<i32>();
    for row in 0..matching.num_rows() {
        let (schema, table, kind) = (texts(1).value(row), texts(2).value(row), texts(3).value(row));
        let columns = session.listed_columns(schema, table);
        let columns = columns.map_or_else(|_| Arc::new(Schema::empty()), |columns| sent_columns(&columns));
        rows.append(CATALOG, schema, table, kind, &columns)?;
    }
    rows.build()
}

/// Columns of `GetTables`.
pub(super) fn table_columns(command: CommandGetTables) -> SchemaRef {
    command.into_builder().schema()
}

fn table_type(table: &ListedTable) -> &'static str {
    match table.schema.as_str() {
        ALL_RUNS_SCHEMA => TABLE_TYPES[1],
        STORE_SCHEMA | INFORMATION_SCHEMA => TABLE_TYPES[2],
        _ => TABLE_TYPES[0],
    }
}

/// Column of texts.
fn text(name: &str, is_nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, is_nullable)
}

/// Result of `GetPrimaryKeys`, which has no rows.
pub(super) fn no_primary_keys() -> RecordBatch {
    RecordBatch::new_empty(Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        text("key_name", true),
        Field::new("key_sequence", DataType::Int32, false),
    ])))
}

/// Result of `GetImportedKeys`, `GetExportedKeys` and `GetCrossReference`, which has no rows.
pub(super) fn no_foreign_keys() -> RecordBatch {
    RecordBatch::new_empty(Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ])))
}

/// Facts about the server.
///
/// # Errors
/// A fact does not fit into Arrow's union of them.
pub(super) fn server_facts(query_time: Duration) -> Result<SqlInfoData> {
    let mut facts = SqlInfoDataBuilder::new();
    facts.append(SqlInfo::FlightSqlServerName, "Pairloom");
    facts.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    facts.append(SqlInfo::FlightSqlServerArrowVersion, arrow::ARROW_VERSION);
    facts.append(SqlInfo::FlightSqlServerReadOnly, true);
    facts.append(SqlInfo::FlightSqlServerSql, true);
    facts.append(SqlInfo::FlightSqlServerSubstrait, false);
    facts.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    facts.append(SqlInfo::FlightSqlServerCancel, true);
    facts.append(SqlInfo::FlightSqlServerBulkIngestion, false);
    let milliseconds = i32::try_from(query_time.as_millis()).unwrap_or(i32::MAX);
    facts.append(SqlInfo::FlightSqlServerStatementTimeout, milliseconds);
    facts.append(SqlInfo::FlightSqlServerTransactionTimeout, 0_i32);
    facts.append(SqlInfo::SqlDdlCatalog, false);
    facts.append(SqlInfo::SqlDdlSchema, false);
    facts.append(SqlInfo::SqlDdlTable, false);
    facts.append(SqlInfo::SqlIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32);
    facts.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    facts.append(
        SqlInfo::SqlQuotedIdentifierCase,
        SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32,
    );
    facts.append(SqlInfo::SqlAllTablesAreSelectable, true);
    facts.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32);
    facts.build()
}

/// Types of columns.
///
/// # Errors
/// A type does not fit into Arrow's table of them.
pub(super) fn column_types() -> Result<XdbcTypeInfoData> {
    use XdbcDataType as Type;
    let mut types = XdbcTypeInfoDataBuilder::new();
    // Name, type, digits or bits or characters, radix of the digits, quote around literals.
    for (name, data_type, size, radix, quote) in [
        ("BOOLEAN", Type::XdbcBit, 1, None, None),
        ("TINYINT", Type::XdbcTinyint, 8, Some(2), None),
        ("SMALLINT", Type::XdbcSmallint, 16, Some(2), None),
        ("INTEGER", Type::XdbcInteger, 32, Some(2), None),
        ("BIGINT", Type::XdbcBigint, 64, Some(2), None),
        ("REAL", Type::XdbcReal, 24, Some(2), None),
        ("DOUBLE", Type::XdbcDouble, 53, Some(2), None),
        ("VARCHAR", Type::XdbcVarchar, i32::MAX, None, Some("'")),
        ("VARBINARY", Type::XdbcVarbinary, i32::MAX, None, Some("'")),
        ("DATE", Type::XdbcDate, 10, None, Some("'")),
        ("TIMESTAMP", Type::XdbcTimestamp, 32, None, Some("'")),
    ] {
        types.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type,
            column_size: Some(size),
            literal_prefix: quote.map(str::to_owned),
            literal_suffix: quote.map(str::to_owned),
            create_params: None,
            nullable: Nullable::NullabilityNullable,
            case_sensitive: name == "VARCHAR",
            searchable: Searchable::Full,
            unsigned_attribute: radix.map(|_| false),
            fixed_prec_scale: false,
            auto_increment: None,
            local_type_name: Some(name.to_owned()),
            minimum_scale: None,
            maximum_scale: None,
            sql_data_type: data_type,
            datetime_subcode: None,
            num_prec_radix: radix,
            interval_precision: None,
        });
    }
    types.build()
}
