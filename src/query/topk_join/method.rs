//! Methods against hubs in a query.

use datafusion::common::plan_err;
use datafusion::error::Result;
use serde_json::{Map, Value};

use pairloom_retrieval::Method;

/// Method of a text: its name, or JSON in the form of a pipeline file, `{"csls": {"k": 5}}`.
///
/// # Errors
/// There is no such method, or a setting of it is wrong.
pub(crate) fn join_method(text: &str) -> Result<Method> {
    let wanted = "wanted its name, or its settings as in a pipeline file: `{\"csls\": {\"k\": 5}}`";
    let value = if text.trim_start().starts_with('{') {
        match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return plan_err!("the method `{text}` is no JSON ({error}), {wanted}"),
        }
    } else {
        Value::String(text.trim().to_owned())
    };
    serde_json::from_value(with_settings(value)).or_else(|error| plan_err!("the method `{text}`: {error}; {wanted}"))
}

/// Method with settings, also of the methods within it. Those that are left out have their defaults.
fn with_settings(method: Value) -> Value {
    match method {
        Value::String(name) => Value::Object(Map::from_iter([(name, Value::Object(Map::new()))])),
        Value::Object(mut method) => {
            for (setting, value) in method.values_mut().filter_map(Value::as_object_mut).flatten() {
                match (setting.as_str(), value) {
                    ("over", inner) => *inner = with_settings(inner.take()),
                    ("methods", Value::Array(inner)) => {
                        for one in inner {
                            *one = with_settings(one.take());
                        }
                    }
                    _ => {}
                }
            }
            Value::Object(method)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_retrieval::methods::{Csls, RelaxedGreedy};

    #[test]
    fn methods_within_a_method_are_names_or_settings_as_in_a_pipeline_file() {
        let over = |over: Csls| {
            Method::RelaxedGreedy(RelaxedGreedy {
                lambda: 2.0,
                over: Box::new(Method::Csls(over)),
                ..RelaxedGreedy::default()
            })
        };
        let named = r#"{"relaxed_greedy": {"lambda": 2.0, "over": "csls"}}"#;
        assert_eq!(join_method(named).unwrap(), over(Csls::default()));
        let set = r#"{"relaxed_greedy": {"lambda": 2.0, "over": {"csls": {"k": 3}}}}"#;
        assert_eq!(join_method(set).unwrap(), over(Csls { k: 3, ..Csls::default() }));
        let best = join_method(r#"{"best_of": {"methods": ["nns", {"csls": {"k": 3}}]}}"#).unwrap();
        assert_eq!(best.name(), "best_of");
        for wrong in ["nope", r#"{"relaxed_greedy": {"over": "nope"}}"#, "{\"csls\"", r#"{"csls": 3}"#] {
            let error = join_method(wrong).unwrap_err().to_string();
            assert!(error.contains("wanted its name, or its settings as in a pipeline file"), "{error}");
        }
    }
}
