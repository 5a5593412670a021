//! Search passes whose sections are computed by other processes.
//!
//! ```text
//! distribute ─► job: requests, names of the vectors ─► a task for each section ─► worker: the same scan
//!      ▲                                                                             │
//!      └──────────────────────── results, merged in the order of sections ◄──────────┘
//! ```

mod vectors;
mod job;
mod worker;
mod distribute;
#[cfg(test)]
mod tests;

pub(super) use distribute::distribute;
pub use worker::SearchWorker;
