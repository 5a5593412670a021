//! Cache of the vectors that the queries of a session have read.
//!
//! Decoding vectors from Parquet takes most of the time of a nearest-neighbour query, and an artefact never changes. So a
//! session of many queries keeps the rows of whole scans with vectors: `rule` finds such scans, `scan` reads them from
//! `cache` or adds them to it.

mod cache;
mod rule;
mod scan;
#[cfg(test)]
mod tests;

pub use cache::VECTOR_CACHE_BYTES;
pub(super) use cache::VectorCache;
pub(super) use rule::with_cached_scans;
