//! Methods against hubs in a query.

use datafusion::common::plan_err;
use datafusion::error::Result;
use serde_json::{Map, Value};

use crate::retrieval::Method;

/// Method of a text: its name, or JSON in the form of a pipeline file, `{"csls": {"k": 5}}`.
///
/// # Errors
/// There is no such method, or a setting of it is wrong.
pub(in crate::sql) fn join_method(text: &str) -> Result<Method> {
    let wanted = "wanted its name, or its settings as in a pipeline file: `{\"csls\": {\"k\": 5}}`";
    let value = if text.trim_start().starts_with('{') {
        match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return plan_err!("the method `{text}` is no JSON ({error}), {wanted}"),
        }
    } else {
        // Settings that are left out have their defaults.
        Value::Object(Map::from_iter([(text.trim().to_owned(), Value::Object(Map::new()))]))
    };
    serde_json::from_value(value).or_else(|error| plan_err!("the method `{text}`: {error}; {wanted}"))
}
