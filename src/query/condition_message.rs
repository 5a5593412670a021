//! Message of the reader of Parquet about a condition that it could not evaluate.

use pairloom_base::error::ErrorCategory;

/// Start of a message of the reader of Parquet about a condition that it evaluates.
const CONDITION: &str = "Parquet error: External: Compute error: Error evaluating filter predicate: ";

/// Message about a condition that the reader of Parquet evaluates. The error is written in the form of `Debug`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConditionMessage {
    /// Message of the error.
    pub(super) text: String,
    /// Category of the error.
    pub(super) category: ErrorCategory,
    /// Its hint, if it is one of ours.
    pub(super) hint: Option<String>,
}

impl ConditionMessage {
    /// True for a message that [`Self::parse`] reads.
    pub(super) fn is_one(message: &str) -> bool {
        message.starts_with(CONDITION)
    }

    pub(super) fn parse(message: &str) -> Option<Self> {
        let error = message.strip_prefix(CONDITION)?;
        if let Some((kind, ours)) = error.strip_prefix("External(Error { kind: ").and_then(|rest| rest.split_once('"'))
        {
            let (text, rest) = unescaped(ours);
            let hint = rest.strip_prefix(", hint: Some(\"").map(|hint| unescaped(hint).0);
            let category = match kind.split_once(',') {
                Some(("Usage", _)) => ErrorCategory::Usage,
                Some(("Data", _)) => ErrorCategory::Data,
                Some(("Stage", _)) => ErrorCategory::Stage,
                Some(("Interrupted", _)) => ErrorCategory::Interrupted,
                _ => ErrorCategory::Internal,
            };
            return Some(Self { text, category, hint });
        }
        let category = match error.split_once('(') {
            Some(("Internal", _)) => ErrorCategory::Internal,
            Some(("ResourcesExhausted", _)) => ErrorCategory::Stage,
            _ => ErrorCategory::Usage,
        };
        let text = match error.split_once('"') {
            _ if error.starts_with("ArrowError(DivideByZero") => "Divide by zero error".to_owned(),
            Some((kind, text)) if kind.ends_with("CastError(") => format!("Cast error: {}", unescaped(text).0),
            Some((_, text)) => unescaped(text).0,
            None => error.to_owned(),
        };
        Some(Self { text, category, hint: None })
    }
}

/// Text of a string literal whose opening quote was read, and what follows its closing quote.
fn unescaped(literal: &str) -> (String, &str) {
    let mut text = String::new();
    let mut chars = literal.char_indices();
    while let Some((place, char)) = chars.next() {
        match char {
            '"' => return (text, &literal[place + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n' | 't' | 'r')) => text.push(' '),
                Some((_, other)) => text.push(other),
                None => {}
            },
            other => text.push(other),
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_conditions_are_those_of_the_query() {
        let parse = |error: &str| ConditionMessage::parse(&format!("{CONDITION}{error}")).unwrap();
        let of = |text: &str, category| ConditionMessage { text: text.to_owned(), category, hint: None };
        let usage = |text: &str| of(text, ErrorCategory::Usage);
        let got = parse(r#"ArrowError(CastError("Cannot cast string 'a\"b' to value of Int32 type"), Some(""))"#);
        assert_eq!(got, usage("Cast error: Cannot cast string 'a\"b' to value of Int32 type"));
        let got =
            parse(r#"ArrowError(CastError("Cannot cast string 'DivideByZero' to value of Int32 type"), Some(""))"#);
        assert_eq!(got, usage("Cast error: Cannot cast string 'DivideByZero' to value of Int32 type"));
        assert_eq!(parse(r#"ArrowError(DivideByZero, Some(""))"#), usage("Divide by zero error"));
        assert_eq!(parse(r#"Execution("no \\ value\nhere")"#), usage("no \\ value here"));
        assert_eq!(parse(r#"Internal("not \"valid\"")"#), of("not \"valid\"", ErrorCategory::Internal));
        assert_eq!(parse(r#"ResourcesExhausted("none left")"#), of("none left", ErrorCategory::Stage));
        let of_ours = |kind: &str| {
            let fields = r#"message: "SQL: too long", hint: Some("shorter"), peer: false"#;
            parse(&format!("External(Error {{ kind: {kind}, {fields} }})"))
        };
        for category in [ErrorCategory::Usage, ErrorCategory::Data, ErrorCategory::Stage, ErrorCategory::Interrupted] {
            let wanted = ConditionMessage { hint: Some("shorter".to_owned()), ..of("SQL: too long", category) };
            assert_eq!(of_ours(&format!("{category:?}")), wanted);
        }
        assert_eq!(ConditionMessage::parse("Parquet error: EOF"), None);
        let of_a_text = format!("Arrow error: Cast error: Cannot cast string '{CONDITION}' to value of Int32 type");
        assert_eq!(ConditionMessage::parse(&of_a_text), None);
    }
}
