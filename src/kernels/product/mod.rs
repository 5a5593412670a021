//! Matrix products with the widest vector instructions of the CPU, in tiles that fit its registers and caches.
//!
//! Both factors are first packed into panels ([`LeftFactor`], [`RightFactor`]) in the order in which [`add_product`]
//! reads them: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008.
//! Callers loop over tiles and process each tile while it is in the cache; a matrix product of a library does not allow
//! this. A value of a product depends on its row and its column only, not on how the loops are divided among threads.

mod error_bound;
mod element_type;
mod pack;
mod tile;
mod transpose;
mod order_violation;

pub use element_type::ElementType;
pub use error_bound::{NormBound, product_error_bound};
pub use order_violation::{OrderViolation, add_violations};
pub use pack::{LeftFactor, RightFactor};
pub use tile::{TILE_COLUMNS, TILE_ROWS, Tile, add_product, has_avx512};
