//! Matrix products on the widest vectors that the processor has, in pieces that fit its registers and caches.
//!
//! Both factors are first rearranged into panels ([`Left`], [`Right`]), in the order in which [`tile`] then reads them:
//! Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008. Whoever multiplies
//! loops over tiles, and does with each what is to be done while it is in the cache: that is why this is not a call into
//! a library. A value of a product depends on its row and its column alone, not on how the loops are cut among threads.

mod error;
mod lanes;
mod pack;
mod tile;
mod violation;

pub use error::{Extent, product_error};
pub use lanes::Lanes;
pub use pack::{Left, Right};
pub use tile::{COLUMNS, ROWS, Tile, tile, vectors};
pub use violation::{Violation, violations};
