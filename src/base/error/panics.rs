//! Panics as errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Error, Result};

/// Turns a panic into an internal error, so that one bad item does not end the process.
///
/// # Errors
/// That of `function`, or its panic.
pub fn catch_panic<U>(function: impl FnOnce() -> Result<U>) -> Result<U> {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|panic| Err(panic_error(&*panic)))
}

/// Error of a panic with this payload.
pub fn panic_error(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Error::internal(format!("panicked: {}", text.unwrap_or("no message")))
}
