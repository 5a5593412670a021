//! Tests of the server with a client of the same protocol, over TCP.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    ArrayRef, AsArray, FixedSizeListArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use arrow_flight::sql::{CommandGetDbSchemas, CommandGetTables, ProstMessageExt, TicketStatementQuery};
use arrow_flight::{Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, Ticket};
use futures::TryStreamExt;
use prost::Message;
use tonic::Code;

use super::testing::{Client, Served, TOKEN, fetch, list, refusal, texts};
use pairloom_query::testing::{put, run, scores};

#[test]
fn queries_see_the_latest_run() {
    let served = Served::without_limits();
    let mut client = served.client();
    let sql = "SELECT method, rsum FROM test.summary ORDER BY rsum";
    let rows = served.rows(&mut client, sql).unwrap();
    assert_eq!(texts(rows.column(0)), ["nns", "csls"]);
    assert_eq!(rows.column(1).as_primitive::<Float64Type>().values(), &[345.5, 400.0]);
    // A run that ends while the server runs. Its sessions are a second old at most.
    let newer = put(&served.store, "evaluate", 3, &[("summary", vec![scores(&[("nns", 500.0)])])]);
    run(&served.store, "20260103T000000", &[("test", "evaluate", &newer)]);
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(served.rows(&mut client, sql).unwrap().column(1).as_primitive::<Float64Type>().values(), &[500.0]);
    assert_eq!(served.rows(&mut client, "DESCRIBE test.summary").unwrap().num_rows(), 2);
}

#[test]
fn wrong_queries_and_those_that_write_are_refused_and_the_server_goes_on() {
    let served = Served::without_limits();
    let mut client = served.client();
    for (sql, message) in [
        ("SELECT", "SQL: "),
        ("", "SQL: the query is empty"),
        ("SELECT 1; SELECT 2", "SQL: 2 statements, expected one"),
        ("SELECT * FROM test.sumary", "\nhint: did you mean `test.summary`?"),
        ("INSERT INTO test.summary VALUES ('a', 1)", "SQL: the store is read-only"),
        ("CREATE TABLE t AS SELECT 1", "SQL: the store is read-only"),
        ("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'", "SQL: "),
        ("COPY (SELECT 1) TO 'out.csv'", "SQL: the store is read-only"),
        ("SELECT * FROM '/etc/passwd'", "a query reads no files by their path"),
        ("SET datafusion.execution.batch_size = 1", "SQL: "),
        ("SELECT method FROM test.summary WHERE rsum > ?", "SQL: got 0 values, and the query has 1 parameters"),
    ] {
        let (code, text) = refusal(served.rows(&mut client, sql));
        assert!(matches!(code, Code::InvalidArgument | Code::FailedPrecondition), "{sql}: {code:?}");
        assert!(text.contains(message), "{sql}: {text}");
    }
    let deep = format!("SELECT 1{}", "+1".repeat(20_000));
    assert!(
        refusal(served.rows(&mut client, &deep)).1.contains("20000 operators within each other, expected at most 1000")
    );
    // As deep as a query may be.
    let rows = served.rows(&mut client, &format!("SELECT 1{} AS sum", "+1".repeat(999))).unwrap();
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), 1_000);
    assert_eq!(served.rows(&mut client, "SELECT 1").unwrap().num_rows(), 1);
}

#[test]
fn vectors_and_many_rows_are_bound() {
    let served = Served::without_limits();
    let mut client = served.client();
    let sql = "SELECT image_id, array_distance(feature, ?) AS d FROM cnn.features ORDER BY d, image_id LIMIT ?";
    let mut statement = served.prepare(&mut client, sql);
    let types: Vec<DataType> =
        statement.parameter_schema().unwrap().fields().iter().map(|field| field.data_type().clone()).collect();
    assert!(matches!(types[0], DataType::FixedSizeList(_, 16)), "{types:?}");
    assert_eq!(types[1], DataType::Int64);
    assert_eq!(statement.dataset_schema().unwrap().field(1).data_type(), &DataType::Float64);
    // Vector i of the first part is i · 4 + (0, 0.25, …, 3.75).
    let of = |start: f64| (0..16).map(|i| start + f64::from(i) / 4.0).collect::<Vec<f64>>();
    let bound = vec![list(&of(4.0)), Arc::new(Int64Array::from(vec![2])) as ArrayRef];
    let rows = served.bound(&mut client, &mut statement, bound).unwrap();
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[2, 1]);
    // √(16 · 4²)
    assert_eq!(rows.column(1).as_primitive::<Float64Type>().values(), &[0.0, 16.0]);
    // Two rows of values: the query runs twice.
    let both = ListArray::from_iter_primitive::<Float64Type, _, _>(
        [0.0, 4.0].map(|start| Some(of(start).into_iter().map(Some))),
    );
    let bound = vec![Arc::new(both) as ArrayRef, Arc::new(Int64Array::from(vec![1, 1]))];
    let rows = served.bound(&mut client, &mut statement, bound).unwrap();
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[1, 2]);
    // The type of the column itself.
    let exact = FixedSizeListArray::from_iter_primitive::<arrow::datatypes::Float32Type, _, _>(
        [Some((0..16_u8).map(|i| Some(4.0 + f32::from(i) / 4.0)))],
        16,
    );
    let bound = vec![Arc::new(exact) as ArrayRef, Arc::new(Int64Array::from(vec![1]))];
    let rows = served.bound(&mut client, &mut statement, bound).unwrap();
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[2]);
    for (values, message) in [
        (
            vec![list(&[1.0, 2.0]), Arc::new(Int64Array::from(vec![1])) as ArrayRef],
            "`$1` has 2 numbers, expected 16 as the column beside it",
        ),
        (vec![list(&of(0.0))], "got 1 values, and the query has 2 parameters"),
        (
            vec![Arc::new(StringArray::from(vec!["a"])) as ArrayRef, Arc::new(Int64Array::from(vec![1]))],
            "`$1` is Utf8, expected a vector",
        ),
        (vec![list(&of(0.0)), Arc::new(Int64Array::from(vec![-1]))], "LIMIT"),
    ] {
        let (code, text) = refusal(served.bound(&mut client, &mut statement, values));
        assert_eq!(code, Code::InvalidArgument, "{text}");
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn parameters_are_numbered_and_a_top_k_join_takes_them() {
    let served = Served::without_limits();
    let mut client = served.client();
    // More than nine parameters, in the order of the text; DataFusion takes `?` for one parameter.
    let mut statement = served.prepare(&mut client, "SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?");
    let values: Vec<ArrayRef> = (0..11).map(|i| Arc::new(Int64Array::from(vec![i])) as ArrayRef).collect();
    let rows = served.bound(&mut client, &mut statement, values).unwrap();
    let got: Vec<i64> = rows.columns().iter().map(|column| column.as_primitive::<Int64Type>().value(0)).collect();
    assert_eq!(got, (0..11).collect::<Vec<i64>>());
    let mut statement = served.prepare(&mut client, "SELECT $2 AS b, $1 AS a, $2 AS c");
    let values: Vec<ArrayRef> = [5, 6].map(|i| Arc::new(Int64Array::from(vec![i])) as ArrayRef).to_vec();
    let rows = served.bound(&mut client, &mut statement, values).unwrap();
    let got: Vec<i64> = rows.columns().iter().map(|column| column.as_primitive::<Int64Type>().value(0)).collect();
    assert_eq!(got, [6, 5, 6]);
    for (sql, message) in [
        ("SELECT ?, $1", "parameters of the forms `?` and `$1`"),
        ("SELECT $2", "the parameter `$2` is used, and `$1` is not"),
        ("SELECT $name", "the parameter `$name` has a name"),
    ] {
        let prepared = served.runtime.block_on(client.prepare(sql.to_owned(), None));
        let text = prepared.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(message), "{sql}: {text}");
    }
    let join = "SELECT q.image_id, n.image_id AS item FROM cnn.features q, LATERAL (SELECT image_id FROM cnn.features g \
                WHERE g.split = ? ORDER BY cosine_distance(g.feature, q.feature) LIMIT 1) n ORDER BY q.image_id";
    let mut statement = served.prepare(&mut client, join);
    let split = |name: &str| vec![Arc::new(StringArray::from(vec![name])) as ArrayRef];
    let rows = served.bound(&mut client, &mut statement, split("train")).unwrap();
    assert_eq!(rows.column(1).as_primitive::<Int64Type>().values(), &[1, 1, 1]);
}

/// In every place of a k: of the table function, of a lateral query, of aggregate functions.
#[test]
fn a_k_is_bound() {
    let served = Served::without_limits();
    let mut client = served.client();
    let nearest = "SELECT q.image_id, n.image_id AS item FROM cnn.features q, LATERAL (SELECT image_id FROM cnn.features g \
                   ORDER BY cosine_distance(g.feature, q.feature) LIMIT ?) n";
    let join = "SELECT query_image_id, image_id FROM topk_join('cnn.features', 'cnn.features', $1)";
    for (sql, wrong) in [(nearest, None), (join, Some("k of `topk_join` is 0, expected a whole number from 1"))] {
        let mut statement = served.prepare(&mut client, sql);
        assert_eq!(statement.parameter_schema().unwrap().field(0).data_type(), &DataType::Int64);
        // Each row of values is a query of its own.
        let k: ArrayRef = Arc::new(Int64Array::from(vec![1, 3, 2]));
        assert_eq!(served.bound(&mut client, &mut statement, vec![k]).unwrap().num_rows(), 3 + 9 + 6, "{sql}");
        let narrow: ArrayRef = Arc::new(Int32Array::from(vec![2]));
        assert_eq!(served.bound(&mut client, &mut statement, vec![narrow]).unwrap().num_rows(), 6, "{sql}");
        let none: ArrayRef = Arc::new(Int64Array::from(vec![0]));
        match (served.bound(&mut client, &mut statement, vec![none]), wrong) {
            (Ok(rows), None) => assert_eq!(rows.num_rows(), 0),
            (refused, wrong) => {
                let (code, text) = refusal(refused);
                assert!(code == Code::InvalidArgument && text.contains(wrong.unwrap()), "{text}");
            }
        }
        assert_eq!(refusal(served.rows(&mut client, sql)).1, "SQL: got 0 values, and the query has 1 parameters");
    }
    for call in ["topk(image_id, image_id, $1)", "max_by(image_id, image_id, $1)"] {
        let mut statement = served.prepare(&mut client, &format!("SELECT unnest({call}) FROM cnn.features"));
        let k: ArrayRef = Arc::new(Int64Array::from(vec![2]));
        assert_eq!(served.bound(&mut client, &mut statement, vec![k]).unwrap().num_rows(), 2, "{call}");
    }
    let sql = "SELECT unnest(topk(image_id, feature, $1, $2)) FROM cnn.features";
    let mut statement = served.prepare(&mut client, sql);
    let vector = list(&(0..16).map(f64::from).collect::<Vec<_>>());
    let k = |k: i64| Arc::new(Int64Array::from(vec![k])) as ArrayRef;
    assert_eq!(served.bound(&mut client, &mut statement, vec![vector.clone(), k(3)]).unwrap().num_rows(), 3);
    let (_, text) = refusal(served.bound(&mut client, &mut statement, vec![vector, k(0)]));
    assert!(text.contains("`topk` has the k 0, expected a constant from 1"), "{text}");
}

#[test]
fn clients_without_the_token_are_refused() {
    let served = Served::start(Some(TOKEN), 1 << 30, 300);
    let mut client = served.client();
    assert_eq!(refusal(served.rows(&mut client, "SELECT 1")).0, Code::Unauthenticated);
    client.set_token("0123456789abcdeg".to_owned());
    assert_eq!(refusal(served.rows(&mut client, "SELECT 1")), (Code::Unauthenticated, "the token is wrong".to_owned()));
    assert!(served.runtime.block_on(client.handshake("anyone", "wrong")).is_err());
    client.set_token(TOKEN.to_owned());
    assert_eq!(served.rows(&mut client, "SELECT 1").unwrap().num_rows(), 1);
    let mut client = served.client();
    served.runtime.block_on(client.handshake("anyone", TOKEN)).unwrap();
    assert_eq!(client.token().map(String::as_str), Some(TOKEN));
    assert_eq!(served.rows(&mut client, "SELECT 1").unwrap().num_rows(), 1);
}

#[test]
fn forged_tickets_and_handles_are_refused() {
    let served = Served::without_limits();
    let mut client = served.client();
    let forged = TicketStatementQuery { statement_handle: b"SELECT * FROM test.summary".as_slice().into() };
    for ticket in [forged.as_any().encode_to_vec(), b"SELECT 1".to_vec(), vec![], vec![0xff; 64]] {
        let got = served.runtime.block_on(async {
            let rows = client.do_get(Ticket::new(ticket)).await?;
            rows.try_collect::<Vec<RecordBatch>>().await
        });
        let (code, text) = refusal(got);
        assert!(code == Code::Unauthenticated && text.contains("the ticket is not of this server"), "{text}");
    }
    let mut statement = served.prepare(&mut client, "SELECT 1");
    let info = served.runtime.block_on(statement.execute()).unwrap();
    served.runtime.block_on(statement.close()).unwrap();
    assert_eq!(refusal(served.runtime.block_on(fetch(&mut client, &info))).0, Code::NotFound);
}

#[test]
fn limits_of_memory_and_time_end_a_query() {
    let served = Served::start(None, 32 << 20, 2);
    let mut client = served.client();
    let (code, text) = refusal(served.rows(&mut client, "SELECT array_agg(value) FROM range(0, 100000000)"));
    assert!(code == Code::ResourceExhausted && text.contains("memory"), "{text}");
    // More of them than there are places, which are free only when a computation has ended.
    for endless in [
        "SELECT count(*) FROM range(0, 3000000) a, range(0, 3000000) b",
        "SELECT count(*) FROM range(0, 300000) a JOIN range(0, 300000) b ON a.value % 2 = b.value % 2",
        "SELECT max(a.value + b.value) FROM range(0, 3000000) a, range(0, 3000000) b",
    ] {
        let (code, text) = refusal(served.rows(&mut client, endless));
        assert_eq!(
            (code, text.as_str()),
            (Code::ResourceExhausted, "the query took 2 s, which is the limit"),
            "{endless}"
        );
    }
    assert_eq!(served.rows(&mut client, "SELECT 1").unwrap().num_rows(), 1);
}

#[test]
fn a_reader_that_stops_holds_its_place_until_the_time_of_its_query_is_over() {
    let served = Served::start(None, 1 << 30, 1);
    let mut client = served.client();
    let many = "SELECT value FROM range(0, 9000000000)";
    let mut stopped = Vec::new();
    for _ in 0..2 {
        let mut reader = served.client();
        let rows = served.runtime.block_on(async {
            let info = reader.execute(many.to_owned(), None).await.unwrap();
            let mut rows = reader.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
            assert!(rows.try_next().await.unwrap().is_some());
            rows
        });
        stopped.push((reader, rows));
    }
    // Both places were taken. After a second they are free.
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(served.rows(&mut client, "SELECT 1").unwrap().num_rows(), 1);
    let (_reader, mut rows) = stopped.remove(0);
    let error = served.runtime.block_on(async {
        loop {
            match rows.try_next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the rows are not complete"),
                Err(error) => break error,
            }
        }
    });
    assert_eq!(refusal::<()>(Err(error)).1, "the query took 1 s, which is the limit");
}

#[test]
fn a_reader_that_takes_no_rows_loses_its_query() {
    let served = Served::with_short_reader_time();
    let mut reader = served.client();
    let message = served.runtime.block_on(async {
        let info = reader.execute("SELECT value FROM range(0, 9000000000)".to_owned(), None).await.unwrap();
        let mut rows = reader.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        assert!(rows.try_next().await.unwrap().is_some());
        // One that reads slowly goes on.
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert!(rows.try_next().await.unwrap().is_some());
        tokio::time::sleep(Duration::from_secs(2)).await;
        let error = loop {
            match rows.try_next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the rows are not complete"),
                Err(error) => break error,
            }
        };
        refusal::<()>(Err(error))
    });
    assert_eq!(message, (Code::ResourceExhausted, "the client took no rows for 1 s, which is the limit".to_owned()));
    assert_eq!(served.rows(&mut served.client(), "SELECT 1").unwrap().num_rows(), 1);
}

#[test]
fn deep_and_long_queries_are_refused() {
    let served = Served::without_limits();
    let mut client = served.client();
    let nested = (0..14).fold("value".to_owned(), |inner, _| format!("({inner}{})", "+1".repeat(990)));
    for (sql, message) in [
        (format!("SELECT {nested} FROM range(3)"), "operators within each other"),
        (format!("SELECT '{}'", "a".repeat(2 << 20)), "the query has 2097161 bytes, expected at most 1048576"),
    ] {
        let (code, text) = refusal(served.rows(&mut client, &sql));
        assert_eq!(code, Code::InvalidArgument, "{text}");
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn columns_are_those_that_were_announced() {
    let served = Served::without_limits();
    let mut client = served.client();
    for sql in [
        "SELECT upper('a'), abs(-1), [1.0, 2.0], cosine_distance([1.0], [2.0]), CASE WHEN true THEN 1 ELSE 2 END",
        "SELECT arrow_cast('a', 'Dictionary(Int32, Utf8)') AS d, NULL AS n",
        "SELECT a.method, b.rsum FROM test.summary a LEFT JOIN test.summary b ON a.method = b.method WHERE b.rsum > 0",
        "SELECT * FROM cnn.features",
        "SELECT 1 AS x UNION ALL SELECT 1.5",
    ] {
        // `fetch` compares them.
        assert!(served.rows(&mut client, sql).unwrap().num_rows() > 0, "{sql}");
    }
    let statement = served.prepare(&mut client, "SELECT 1 AS x UNION ALL SELECT 1.5");
    assert_eq!(statement.dataset_schema().unwrap().field(0).data_type(), &DataType::Float64);
    // Missing values among rows of values.
    let mut statement = served.prepare(&mut client, "SELECT $1 AS x");
    let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None, Some(7)]));
    let rows = served.bound(&mut client, &mut statement, vec![values]).unwrap();
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(5), None, Some(7)]);
}

#[test]
fn vectors_of_no_numbers_and_writes_are_refused() {
    let served = Served::without_limits();
    let mut client = served.client();
    let mut statement =
        served.prepare(&mut client, "SELECT image_id FROM cnn.features ORDER BY array_distance(feature, ?)");
    let mut with = |at: usize, value: Option<f64>| {
        let values = (0..16).map(|i| if i == at { value } else { Some(1.0) });
        let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([Some(values)]));
        refusal(served.bound(&mut client, &mut statement, vec![list])).1
    };
    for value in [Some(f64::NAN), Some(f64::INFINITY), Some(1e300), None] {
        assert!(
            with(2, value).contains("`$1` has a value that is missing or not finite in f32, at place 3"),
            "{value:?}"
        );
    }
    let missing: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, Vec<Option<f64>>, _>([None]));
    assert!(
        refusal(served.bound(&mut client, &mut statement, vec![missing]))
            .1
            .contains("`$1` is missing, expected a vector")
    );
    let update = served.runtime.block_on(client.execute_update("DELETE FROM test.summary".to_owned(), None));
    assert!(update.unwrap_err().to_string().contains("the store is read-only"));
}

#[test]
fn queries_end_when_they_are_cancelled_or_the_client_goes() {
    let served = Served::without_limits();
    let mut client = served.client();
    let endless = "SELECT value FROM range(0, 9000000000) WHERE value % 1000 = 0";
    // Two queries run at a time, so a third would wait for ever if those of clients that have gone went on.
    for _ in 0..3 {
        let mut gone = served.client();
        served.runtime.block_on(async {
            let info = gone.execute(endless.to_owned(), None).await.unwrap();
            let mut rows = gone.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
            assert!(rows.try_next().await.unwrap().is_some());
        });
    }
    served.runtime.block_on(async {
        let info = client.execute(endless.to_owned(), None).await.unwrap();
        let mut rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        assert!(rows.try_next().await.unwrap().is_some());
        let request = CancelFlightInfoRequest::new(info);
        let action = Action::new("CancelFlightInfo", request.encode_to_vec());
        let mut results = client.do_action(action.clone()).await.unwrap();
        let result = results.message().await.unwrap().unwrap();
        let result = CancelFlightInfoResult::decode(result.body).unwrap();
        assert_eq!(result.status, CancelStatus::Cancelled as i32);
        let error = loop {
            match rows.try_next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the query has ended"),
                Err(error) => break error,
            }
        };
        assert_eq!(refusal::<()>(Err(error)).0, Code::Cancelled);
        drop(rows);
        // It does not run any more.
        let mut results = client.do_action(action).await.unwrap();
        let result = CancelFlightInfoResult::decode(results.message().await.unwrap().unwrap().body).unwrap();
        assert_eq!(result.status, CancelStatus::NotCancellable as i32);
    });
}

#[test]
fn clients_can_browse() {
    let served = Served::without_limits();
    let mut client = served.client();
    let of = |command: CommandGetTables, client: &mut Client| {
        served.runtime.block_on(async {
            let info = client.get_tables(command).await.unwrap();
            fetch(client, &info).await.unwrap()
        })
    };
    let all = of(CommandGetTables::default(), &mut client);
    assert!(texts(all.column(2)).contains(&"summary") && texts(all.column(3)).contains(&"SYSTEM TABLE"));
    let command = CommandGetTables {
        db_schema_filter_pattern: Some("te%".to_owned()),
        table_name_filter_pattern: Some("summar_".to_owned()),
        include_schema: true,
        ..CommandGetTables::default()
    };
    let summary = of(command, &mut client);
    assert_eq!(
        (summary.num_rows(), texts(summary.column(0)), texts(summary.column(1))),
        (1, vec!["pairloom"], vec!["test"])
    );
    let message = summary.column(4).as_binary::<i32>().value(0).to_vec();
    let columns = arrow::datatypes::Schema::try_from(arrow_flight::IpcMessage(message.into())).unwrap();
    assert_eq!(columns.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["method", "rsum"]);
    served.runtime.block_on(async {
        let schemas = client.get_db_schemas(CommandGetDbSchemas::default()).await.unwrap();
        let schemas = fetch(&mut client, &schemas).await.unwrap();
        assert_eq!(texts(schemas.column(1)), ["Dev-Set", "all_runs", "cnn", "information_schema", "store", "test"]);
        let facts = client.get_sql_info(vec![]).await.unwrap();
        assert!(fetch(&mut client, &facts).await.unwrap().num_rows() > 10);
        let catalogs = client.get_catalogs().await.unwrap();
        assert_eq!(texts(fetch(&mut client, &catalogs).await.unwrap().column(0)), ["pairloom"]);
    });
}
