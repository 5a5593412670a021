//! Tests of `SHOW`, `DESCRIBE` and `information_schema`, and of the statements that are refused.

use super::testing::{store, text};
use super::{ListedTable, OutputFormat, Session};
use pairloom_base::error::Result;

fn csv(sql: &str) -> Result<String> {
    let (_folder, store, _) = store();
    text(&Session::open(&store)?, sql, OutputFormat::Csv)
}

#[test]
fn show_tables_has_the_rows_and_the_descriptions() {
    let all = csv("SHOW TABLES").unwrap();
    assert!(
        all.starts_with("schema,table,rows,description\nDev-Set,summary,1,\"One row per protocol and method"),
        "{all}"
    );
    assert!(all.contains("\ncnn,features,3,One row per image"), "{all}");
    assert!(all.contains("\ntest,rankings,0,") && all.contains("\nstore,runs,,\"One row per run"), "{all}");
    assert_eq!(csv("SHOW TABLES FROM test").unwrap().lines().count(), 3);
    assert_eq!(csv("SHOW TABLES FROM \"Dev-Set\" LIKE 'sum%'").unwrap().lines().count(), 2);
    assert_eq!(csv("SHOW TABLES LIKE 'it''s'").unwrap().lines().count(), 1);
    assert!(csv("SHOW SCHEMAS").unwrap().starts_with("schema\nDev-Set\ncnn\ntest\nstore\nall_runs\n"));
}

#[test]
fn describe_and_show_columns_have_types_and_descriptions() {
    let described = csv("DESCRIBE cnn.features").unwrap();
    assert_eq!(csv("SHOW COLUMNS FROM CNN.Features").unwrap(), described);
    assert_eq!(csv("DESC cnn.features").unwrap(), described);
    assert!(described.starts_with("column_name,data_type,is_nullable,description\nimage_id,Int64,NO,Identifier of"));
    assert!(described.contains("\nfeature,[Float32; 16],NO,"), "{described}");
    let columns = csv("DESCRIBE store.artefacts").unwrap();
    // Every column of the store's tables is described.
    assert!(columns.lines().all(|line| line.ends_with(['.', '"']) || line.ends_with("description")), "{columns}");
    assert!(csv("DESCRIBE SELECT 1 AS one").unwrap().contains("one,Int64"));
}

#[test]
fn the_information_schema_lists_tables_and_columns() {
    let sql = "SELECT column_name, ordinal_position, data_type FROM information_schema.columns
               WHERE table_schema = 'test' AND table_name = 'summary' ORDER BY 2";
    assert_eq!(csv(sql).unwrap(), "column_name,ordinal_position,data_type\nmethod,1,Utf8\nrsum,2,Float64\n");
    let sql = "SELECT table_type, table_rows FROM information_schema.tables \
               WHERE table_schema = 'cnn' AND table_name = 'features'";
    assert_eq!(csv(sql).unwrap(), "table_type,table_rows\nBASE TABLE,3\n");
    // A name may start with the catalog.
    assert_eq!(csv("SELECT count(*) AS n FROM pairloom.test.summary").unwrap(), "n\n2\n");
}

#[test]
fn functions_are_listed_with_their_syntax() {
    let functions = csv("SHOW FUNCTIONS LIKE '%distance'").unwrap();
    assert!(functions.starts_with("function,type,syntax,description\n"), "{functions}");
    assert!(functions.contains("\ncosine_distance,scalar,\"cosine_distance(vector, vector)\","), "{functions}");
    for name in ["epoch_order", "json_get_int"] {
        let row = csv(&format!("SHOW FUNCTIONS LIKE '{name}'")).unwrap();
        assert!(row.lines().nth(1).is_some_and(|row| row.contains(&format!("{name}("))), "{row}");
    }
}

#[test]
fn listing_tables_reads_no_part() {
    let (_folder, store, [cnn, _, new]) = store();
    for (kind, key) in [("extract", &cnn), ("evaluate", &new)] {
        let artefact = store.artefact(kind, key);
        for object in store.objects().list(&artefact.path("")).unwrap() {
            if object.ends_with(".parquet") {
                store.objects().delete(&object).unwrap();
            }
        }
    }
    let session = Session::open(&store).unwrap();
    assert!(text(&session, "SHOW TABLES", OutputFormat::Csv).unwrap().contains("cnn,features,3"));
    assert!(session.tables().unwrap().iter().any(|table| table.sql_name() == "\"Dev-Set\".summary"));
    assert!(session.tables().unwrap().contains(&ListedTable {
        schema: "store".to_owned(),
        table: "runs".to_owned(),
        rows: None
    }));
    assert!(text(&session, "DESCRIBE cnn.features", OutputFormat::Csv).is_err());
}

#[test]
fn statements_other_than_queries_are_refused() {
    for sql in [
        "RESET datafusion.execution.batch_size",
        "TRUNCATE TABLE test.summary",
        "ALTER TABLE test.summary ADD COLUMN x INT",
        "SELECT * INTO copied FROM test.summary",
        "MERGE INTO test.summary USING test.rankings ON true WHEN MATCHED THEN DELETE",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "BEGIN",
        "USE test",
        "GRANT SELECT ON test.summary TO me",
        "CREATE FUNCTION f() RETURNS INT RETURN 1",
        "CREATE SCHEMA s",
        "CREATE DATABASE d",
        "ATTACH DATABASE 'x' AS y",
        "EXPLAIN CREATE TABLE t AS SELECT 1",
        "EXPLAIN SHOW TABLES",
        "ANALYZE TABLE test.summary",
        "CALL f()",
        "SHOW ALL",
        "SHOW VIEWS",
        "SHOW COLUMNS FROM test.summary WHERE true",
    ] {
        let got = csv(sql).expect_err(sql);
        assert_eq!(got.category(), pairloom_base::error::ErrorCategory::Usage, "{sql}: {got}");
    }
}
