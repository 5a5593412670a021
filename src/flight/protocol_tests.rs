//! Tests of the calls of Flight that are not those of Flight SQL.

use arrow_flight::sql::{CommandStatementQuery, ProstMessageExt};
use arrow_flight::{Empty, FlightDescriptor};
use futures::TryStreamExt;
use prost::Message;

use super::testing::Served;

#[test]
fn the_schema_of_a_query_comes_without_its_rows() {
    let served = Served::without_limits();
    let mut client = served.client();
    served.runtime.block_on(async {
        let query =
            CommandStatementQuery { query: "SELECT method, rsum FROM test.summary".to_owned(), transaction_id: None };
        let descriptor = FlightDescriptor::new_cmd(query.as_any().encode_to_vec());
        let schema = client.inner_mut().get_schema(descriptor).await.unwrap().into_inner();
        let schema = arrow::datatypes::Schema::try_from(&schema).unwrap();
        assert_eq!(schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["method", "rsum"]);
    });
}

#[test]
fn only_actions_that_exist_are_listed() {
    let served = Served::without_limits();
    let mut client = served.client();
    served.runtime.block_on(async {
        let actions = client.inner_mut().list_actions(Empty {}).await.unwrap().into_inner();
        let mut names: Vec<String> = actions.map_ok(|action| action.r#type).try_collect().await.unwrap();
        names.sort_unstable();
        assert_eq!(
            names,
            ["CancelFlightInfo", "CancelQuery", "ClosePreparedStatement", "CloseSession", "CreatePreparedStatement"]
        );
    });
}
