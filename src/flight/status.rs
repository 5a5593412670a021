//! Errors as the statuses of gRPC.

use tonic::{Code, Status};

use pairloom_base::error::{Error, ErrorCategory};

/// Longest message in bytes. Clients limit the size of headers, in which it travels.
const MAX_MESSAGE_BYTES: usize = 3_000;

/// Status of an error, with its hint.
pub(crate) fn status_of(error: Error) -> Status {
    let code = match error.category() {
        ErrorCategory::Usage | ErrorCategory::Expectation => Code::InvalidArgument,
        ErrorCategory::Data => Code::FailedPrecondition,
        // A query has no stages: its memory or its time is exhausted.
        ErrorCategory::Stage => Code::ResourceExhausted,
        ErrorCategory::Interrupted => Code::Cancelled,
        ErrorCategory::Internal => Code::Internal,
    };
    let hint = error.hint_text().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    let mut message = format!("{error}{hint}");
    if message.len() > MAX_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        message.push('…');
    }
    Status::new(code, message)
}
