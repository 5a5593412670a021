//! What every other crate uses.

pub mod error;
pub mod runtime;
pub mod suggest;
