//! The engine: checks a plan, and runs what is missing of it. It knows the contract ([`crate::stage`]), and no stage by
//! name.
//!
//! ```text
//! Plan ──► key of every stage ──► Status: reuse, resume or run ──► execute: one thread a stage
//!                                                                    reader ─► stage ─► writer ─► journal ─► feed
//! ```
//!
//! A stage's key names its artefact, a folder of the [`store`]. Its writer publishes parts one by one and records each in
//! the [`journal`]; the [`feed`] tells the stages downstream. Resuming is a fold over the journal.

pub mod plan;
pub mod key;
pub mod sources;
pub mod store;
pub mod journal;
pub mod status;
pub mod event;
pub mod cache;
pub mod cancel;
pub mod claim;
pub mod feed;
pub mod flow;
mod reader;
mod writer;
mod turn;
mod world;
pub mod run;
pub mod ranks;
pub mod record;
pub mod gc;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
