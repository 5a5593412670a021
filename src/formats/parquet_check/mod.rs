//! Checks of Parquet files that others wrote, before the Parquet library decodes them.
//!
//! The library trusts a file: it recurses as deep as the schema is nested, copies the path of each column, decompresses
//! whatever a page holds (gzip, Brotli and LZ4 give more than the page claims), expands a batch of a fixed number of rows,
//! however large a row is, believes numbers of rows, and skips as many elements of an unknown list as that claims to
//! have. So a file of a few hundred bytes can end the process, or keep it busy for ever. The checks read the bytes
//! themselves and limit what comes out of them.

mod varint;
mod thrift;
mod structs;
mod footer;
mod page_header;
mod inflated;
mod int96;
mod levels;
mod delta;
mod text_sizes;
mod chunk;
mod arrow_columns;
mod file;
// Tests of other modules use it too.
#[doc(hidden)]
pub mod forged;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod missing_lists_tests;

pub use arrow_columns::{ArrowColumn, arrow_columns};
pub use chunk::{ChunkSizes, check_chunk};
pub use file::{check_file, check_places};
pub use footer::check_footer;
pub use int96::exceeds_nanoseconds;
