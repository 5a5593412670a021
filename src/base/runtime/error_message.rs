//! Errors as messages between processes.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorCategory};

/// An error, as sent to another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorMessage {
    kind: String,
    message: String,
    hint: Option<String>,
    peer: bool,
}

/// Error categories by their names in messages.
const KINDS: [(&str, ErrorCategory); 6] = [
    ("expectation", ErrorCategory::Expectation),
    ("usage", ErrorCategory::Usage),
    ("data", ErrorCategory::Data),
    ("stage", ErrorCategory::Stage),
    ("interrupted", ErrorCategory::Interrupted),
    ("internal", ErrorCategory::Internal),
];

impl From<&Error> for ErrorMessage {
    fn from(error: &Error) -> Self {
        let kind =
            KINDS.iter().find(|(_, kind)| *kind == error.category()).map_or("internal", |(name, _)| name).to_owned();
        let hint = error.hint_text().map(str::to_owned);
        Self { kind, message: error.to_string(), hint, peer: error.is_peer() }
    }
}

impl From<ErrorMessage> for Error {
    fn from(failure: ErrorMessage) -> Self {
        let kind =
            KINDS.iter().find(|(name, _)| *name == failure.kind).map_or(ErrorCategory::Internal, |(_, kind)| *kind);
        let error = if failure.peer { Error::peer(failure.message) } else { Error::new(kind, failure.message) };
        match failure.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive_the_round_trip() {
        for (_, kind) in KINDS {
            let text = serde_json::to_string(&ErrorMessage::from(&Error::new(kind, "broken").hint("mend it"))).unwrap();
            let back = Error::from(serde_json::from_str::<ErrorMessage>(&text).unwrap());
            assert_eq!(
                (back.category(), back.to_string().as_str(), back.hint_text()),
                (kind, "broken", Some("mend it"))
            );
            assert!(!back.is_peer());
        }
        assert!(Error::from(ErrorMessage::from(&Error::peer("gone"))).is_peer());
    }
}
