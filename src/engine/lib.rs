//! The engine: runs the stages of a plan whose results are not in the store. It depends on the contract
//! ([`pairloom_stage`]) and on no particular stage.
//!
//! ```text
//! Plan ──► key of every stage ──► action: reuse, resume or run ──► execute: one thread per stage
//!                                                                    reader ─► stage ─► writer ─► journal ─► feed
//! ```
//!
//! The key of a stage names its artefact, a folder in the [`store`](pairloom_store). The writer publishes the parts of an
//! artefact one by one and records each in the [`journal`](pairloom_store::journal). The feed makes them available to
//! later stages. A run resumes by replaying the journal.

pub mod sources;
pub mod earlier_rows;
pub mod status;
pub mod event;
pub mod inputs;
mod writer;
pub mod map;
mod schedule;
mod stage_host;
pub mod run;
pub mod ranks;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
