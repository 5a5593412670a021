//! Errors of executors, which arrive as text.

use datafusion::error::DataFusionError;

use pairloom_query::sent_error;

/// Error of an executor from the text in which the scheduler passes it on.
pub(super) fn executor_error(text: &str) -> DataFusionError {
    match sent_error(text) {
        Some(error) => DataFusionError::External(Box::new(error)),
        None => DataFusionError::Execution(format!("the cluster failed: {}", reason(text))),
    }
}

/// Reason of a failed job without the names of its stages.
fn reason(error: &str) -> &str {
    let after = |text: &'static str| error.rsplit_once(text).map(|(_, reason)| reason);
    after("runtime execution error: ").or_else(|| after("Task failed due to ")).unwrap_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_base::error::Error;
    use pairloom_query::error_to_send;

    #[test]
    fn errors_are_those_of_the_executor_or_of_the_cluster() {
        let own = Error::data("a part is damaged").hint("run it again");
        let text = format!("Job failed: {:?}", error_to_send(DataFusionError::External(Box::new(own))));
        let DataFusionError::External(error) = executor_error(&text) else { panic!("expected an error of ours") };
        let error = error.downcast_ref::<Error>().expect("ours");
        assert_eq!((error.to_string().as_str(), error.hint_text()), ("a part is damaged", Some("run it again")));
        let lost = executor_error("Job failed: Task failed due to executor lost").strip_backtrace();
        assert_eq!(lost, "Execution error: the cluster failed: executor lost");
    }
}
