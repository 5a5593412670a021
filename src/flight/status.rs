//! Errors as the statuses of gRPC.

use tonic::{Code, Status};

use crate::error::{Error, ErrorCategory};

/// Status of an error, with its hint.
pub(super) fn status(error: &Error) -> Status {
    let code = match error.category() {
        ErrorCategory::Usage | ErrorCategory::Expectation => Code::InvalidArgument,
        ErrorCategory::Data => Code::FailedPrecondition,
        // A query has no stages: its memory or its time is exhausted.
        ErrorCategory::Stage => Code::ResourceExhausted,
        ErrorCategory::Interrupted => Code::Cancelled,
        ErrorCategory::Internal => Code::Internal,
    };
    let hint = error.hint_text().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    Status::new(code, format!("{error}{hint}"))
}
