//! What every other crate uses: errors with hints, facts of the process, and the nearest known name.
//!
//! - [`error`]: a category, which decides the exit code, a message and a hint. All mistakes of a file are one error.
//! - [`runtime`]: cancellation, threads, device, ranks, and the identity of the build.
//! - [`suggest`]: "did you mean …?"
//!
//! No files and no servers. Threads share data through locks and channels only; an atomic is a flag or a number for display.

pub mod error;
pub mod runtime;
pub mod suggest;
