//! Errors of executors, which arrive as the debug text of Rust.

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;

use pairloom_base::error::{Error, ErrorCategory};

/// Error of an executor from the text in which the scheduler passes it on.
///
/// The text names the kind of the error and quotes its message, as in `Shared(Execution("no such file"))`. The whole text is
/// the message if the first quoted text belongs to another kind.
pub(super) fn executor_error(text: &str) -> DataFusionError {
    let before_message = text.split_once('"').map_or(text, |(before, _)| before);
    if before_message.contains("DivideByZero") {
        return ArrowError::DivideByZero.into();
    }
    if let Some(error) = own_error(text) {
        return DataFusionError::External(Box::new(error));
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
        // Of Parquet's reader.
        "General" => DataFusionError::Execution(format!("the cluster failed: {message}")),
        "Execution" => DataFusionError::Execution(message),
        _ => other(),
    }
}

/// Error of ours in such a text, with its hint.
fn own_error(text: &str) -> Option<Error> {
    let (_, fields) = text.split_once("Error { kind: ")?;
    let (kind, rest) = fields.split_once(", ")?;
    let category = match kind {
        "Usage" => ErrorCategory::Usage,
        "Data" => ErrorCategory::Data,
        "Internal" => ErrorCategory::Internal,
        "Interrupted" => ErrorCategory::Interrupted,
        _ => ErrorCategory::Stage,
    };
    let (message, rest) = quoted(rest.strip_prefix("message: \"")?)?;
    let error = Error::new(category, message);
    let hint = rest.strip_prefix(", hint: Some(\"").and_then(quoted);
    Some(match hint {
        Some((hint, _)) => error.hint(hint),
        None => error,
    })
}

/// Message that such a text quotes first.
pub(super) fn quoted_message(text: &str) -> Option<String> {
    first_message(text).map(|(_, message)| message)
}

/// First quoted text, and the name before it.
fn first_message(text: &str) -> Option<(&str, String)> {
    let (before, rest) = text.split_once('"')?;
    let (message, _) = quoted(rest)?;
    let name = before.strip_suffix('(').or_else(|| before.strip_suffix(": "))?;
    let start = name.rfind(|c: char| !c.is_alphanumeric()).map_or(0, |at| at + 1);
    Some((&name[start..], message))
}

/// Text up to the next quotation mark without its escapes, and what follows the mark.
fn quoted(text: &str) -> Option<(String, &str)> {
    let end = text.char_indices().scan(false, |is_escaped, (at, c)| {
        let is_end = c == '"' && !*is_escaped;
        *is_escaped = c == '\\' && !*is_escaped;
        Some(is_end.then_some(at))
    });
    let end = end.flatten().next()?;
    // The escapes of Rust's debug text are those of JSON, except for rare characters.
    let content = &text[..end];
    let unescaped = serde_json::from_str(&format!("\"{content}\"")).unwrap_or_else(|_| content.to_owned());
    Some((unescaped, &text[end + 1..]))
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
    fn errors_of_this_program_keep_their_category_and_hint() {
        for hint in [Some("say \"again\", hint: none"), None] {
            let mut own = Error::data("section 3, hint: Some(\"x\"), is damaged");
            if let Some(hint) = hint {
                own = own.hint(hint);
            }
            let text =
                format!("{:?}", DataFusionError::Shared(std::sync::Arc::new(DataFusionError::External(Box::new(own)))));
            let DataFusionError::External(error) = executor_error(&text) else { panic!("expected an error of ours") };
            let error = error.downcast_ref::<Error>().expect("ours");
            assert_eq!(error.to_string(), "section 3, hint: Some(\"x\"), is damaged");
            assert_eq!((error.category(), error.hint_text()), (ErrorCategory::Data, hint));
        }
    }

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
        let missing = r#"DataFusionError(Shared(ParquetError(General("no part at `a`"))))"#;
        assert_eq!(got(missing), "Execution error: the cluster failed: no part at `a`");
        let memory = executor_error(r#"Shared(ResourcesExhausted("too large"))"#);
        assert!(matches!(memory, DataFusionError::ResourcesExhausted(text) if text == "too large"));
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
