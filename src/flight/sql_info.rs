//! Facts about the server and its types: `GetSqlInfo` and `GetXdbcTypeInfo`.

use std::time::Duration;

use arrow_flight::error::Result;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedTransaction, XdbcDataType,
};

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
