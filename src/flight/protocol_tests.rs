//! Tests of the calls of Flight that are not those of Flight SQL.

use arrow_flight::sql::{ActionCreatePreparedStatementRequest, CommandStatementQuery, ProstMessageExt};
use arrow_flight::{Action, Empty, FlightDescriptor};
use futures::TryStreamExt;
use prost::Message;
use tonic::Code;

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

/// A text that is not UTF-8, and bytes that are no message.
#[test]
fn damaged_commands_and_actions_are_refused_with_the_form_that_was_wanted() {
    let served = Served::without_limits();
    let mut client = served.client();
    let text = CommandStatementQuery { query: "SELECT 'abc'".to_owned(), transaction_id: None };
    let mut no_text = text.as_any().encode_to_vec();
    let at = no_text.windows(3).position(|bytes| bytes == b"abc").unwrap();
    no_text[at] = 0xff;
    let garbage = vec![0xff; 9];
    served.runtime.block_on(async {
        let client = client.inner_mut();
        for command in [no_text.clone(), garbage.clone()] {
            let refused = client.get_flight_info(FlightDescriptor::new_cmd(command)).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
            let expected = "the command cannot be read, expected a message of Flight SQL with texts in UTF-8";
            assert_eq!(refused.message(), expected);
        }
        let prepare = ActionCreatePreparedStatementRequest { query: "SELECT 'abc'".to_owned(), transaction_id: None };
        let mut prepare = prepare.as_any().encode_to_vec();
        let at = prepare.windows(3).position(|bytes| bytes == b"abc").unwrap();
        prepare[at] = 0xff;
        for (action, body, expected) in [
            ("CreatePreparedStatement", garbage.clone(), "the action cannot be read, expected a message of Flight SQL"),
            ("CreatePreparedStatement", prepare, "the action cannot be read, expected a message of Flight SQL"),
            ("CreatePreparedStatement", text.as_any().encode_to_vec(), "the action cannot be read, expected"),
            ("ClosePreparedStatement", garbage.clone(), "the action cannot be read, expected a message of Flight SQL"),
            ("CancelFlightInfo", garbage, "the query to cancel is damaged, expected the `FlightInfo` of its result"),
        ] {
            let refused = client.do_action(Action::new(action, body)).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{action}");
            assert!(refused.message().contains(expected), "{action}: {}", refused.message());
        }
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
