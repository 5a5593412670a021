//! Errors of executors, which arrive as the debug text of Rust.

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;

/// Error of an executor from the text in which the scheduler passes it on.
///
/// The text names the kind of the error and quotes its message, as in `Shared(Execution("no such file"))`. The whole text is
/// the message if the first quoted text belongs to another kind.
pub(super) fn executor_error(text: &str) -> DataFusionError {
    let before_message = text.split_once('"').map_or(text, |(before, _)| before);
    if before_message.contains("DivideByZero") {
        return ArrowError::DivideByZero.into();
    }
    let other = || DataFusionError::Execution(format!("the cluster failed: {}", reason(text)));
    let Some((kind, message)) = first_message(text) else { return other() };
    match kind {
        "CastError" => ArrowError::CastError(message).into(),
        "ParseError" => ArrowError::ParseError(message).into(),
        "InvalidArgumentError" => ArrowError::InvalidArgumentError(message).into(),
        "ComputeError" => ArrowError::ComputeError(message).into(),
        "ArithmeticOverflow" => ArrowError::ArithmeticOverflow(message).into(),
        "ResourcesExhausted" => DataFusionError::ResourcesExhausted(message),
        "Plan" => DataFusionError::Plan(message),
        "Internal" => DataFusionError::Internal(message),
        // An error of ours has a field of this name.
        "Execution" | "message" => DataFusionError::Execution(message),
        _ => other(),
    }
}

/// Message that such a text quotes first.
pub(super) fn quoted_message(text: &str) -> Option<String> {
    first_message(text).map(|(_, message)| message)
}

/// First quoted text, and the name before it.
fn first_message(text: &str) -> Option<(&str, String)> {
    let (before, rest) = text.split_once('"')?;
    let end = rest.char_indices().scan(false, |is_escaped, (at, c)| {
        let is_end = c == '"' && !*is_escaped;
        *is_escaped = c == '\\' && !*is_escaped;
        Some(is_end.then_some(at))
    });
    let end = end.flatten().next()?;
    // The escapes of Rust's debug text are those of JSON, except for rare characters.
    let quoted = &rest[..end];
    let message = serde_json::from_str(&format!("\"{quoted}\"")).unwrap_or_else(|_| quoted.to_owned());
    let name = before.strip_suffix('(').or_else(|| before.strip_suffix(": "))?;
    let start = name.rfind(|c: char| !c.is_alphanumeric()).map_or(0, |at| at + 1);
    Some((&name[start..], message))
}

/// Reason of a failed job without the names of its stages.
fn reason(error: &str) -> &str {
    let after = |text: &'static str| error.rsplit_once(text).map(|(_, reason)| reason);
    after("runtime execution error: ").or_else(|| after("Task failed due to ")).unwrap_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_messages_are_those_of_the_executor() {
        let got = |text| executor_error(text).strip_backtrace();
        let division = executor_error("Job failed: DataFusionError(Shared(External(ArrowError(DivideByZero))))");
        assert!(
            matches!(division, DataFusionError::ArrowError(error, _) if matches!(*error, ArrowError::DivideByZero))
        );
        let cast = r#"DataFusionError(Shared(External(ArrowError(CastError("Cannot cast string 'nns' to value of Int32 type")))))"#;
        assert_eq!(got(cast), "Arrow error: Cast error: Cannot cast string 'nns' to value of Int32 type");
        let nested = r#"DataFusionError(Execution("a \"quoted\" name\nand \\ a line"))"#;
        assert_eq!(got(nested), "Execution error: a \"quoted\" name\nand \\ a line");
        let memory = executor_error(r#"Shared(ResourcesExhausted("too large"))"#);
        assert!(matches!(memory, DataFusionError::ResourcesExhausted(text) if text == "too large"));
        let own = r#"External(Error { category: Data, message: "section 3 is damaged", hint: Some("run again") })"#;
        assert_eq!(got(own), "Execution error: section 3 is damaged");
        let cast = r#"ArrowError(CastError("Cannot cast string 'DivideByZero'"))"#;
        assert_eq!(got(cast), "Arrow error: Cast error: Cannot cast string 'DivideByZero'");
        let bucket = r#"ObjectStore(Generic { store: "S3", source: Timeout })"#;
        assert_eq!(got(bucket), format!("Execution error: the cluster failed: {bucket}"));
        let lost = "Job failed: Task failed due to executor lost";
        assert_eq!(got(lost), "Execution error: the cluster failed: executor lost");
        assert_eq!(
            got("Shared(Execution(\"never ends"),
            "Execution error: the cluster failed: Shared(Execution(\"never ends"
        );
    }
}
