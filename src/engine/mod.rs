//! The engine: checks a plan, and runs what is missing of it. It knows the contract ([`crate::stage`]), and no stage by
//! name.
//!
//! ```text
//! Plan ──► key of every stage ──► Status: reuse, resume or run ──► execute: one thread a stage
//!                                                                    reader ─► stage ─► writer ─► journal ─► feed
//! ```
//!
//! A stage's key names its artefact, a folder of the [`store`](crate::store). Its writer publishes parts one by one and records each in
//! the [`journal`](crate::store::journal); the [`feed`] tells the stages downstream. Resuming is a fold over the journal.

pub mod sources;
pub mod status;
pub mod event;
pub mod cache;
pub mod feed;
pub mod flow;
mod inputs;
mod reader;
mod writer;
mod map;
mod meter;
mod turn;
mod world;
pub mod run;
pub mod ranks;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
