//! The stages, in the order of the flow, and the one list of them.

pub mod ingest;
pub mod compare;
pub mod extract;
pub mod train;
pub mod convert;
pub mod embed;
pub mod evaluate;
pub mod contrast;
pub mod correlate;
pub mod report;
mod registry;
#[cfg(test)]
pub(crate) mod testing;

pub use registry::AnyStage;
