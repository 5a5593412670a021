//! Scan of all scores: blocks of rows on several threads, and what is taken from them while they lie in the cache.

mod stripes;
mod blocks;
mod candidates;
mod ranks;
mod nearest;
mod in_order;
mod sums;
mod resume;
mod find;
mod rows;

pub(super) use blocks::{Forced, Scan, Visitor};
pub(super) use find::{candidates, find};
pub(super) use in_order::InOrder;
pub(super) use rows::{map_rows, rank_corrected};
pub(super) use stripes::stripes;
pub(super) use sums::narrow;
