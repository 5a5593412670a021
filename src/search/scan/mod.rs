//! Scan of all scores: threads compute blocks of rows, and visitors process each panel while it lies in the cache.

mod stripes;
mod blocks;
mod candidates;
mod ranks;
mod nearest;
mod ordered_sum;
mod sums;
mod resume;
mod find;
mod rows;

pub(super) use blocks::{Scan, ScanOverrides, ScoreVisitor};
pub(super) use find::{candidates, find};
pub(super) use ordered_sum::OrderedSum;
pub(super) use rows::{map_rows, rank_corrected};
pub(super) use stripes::stripe_count;
pub(super) use sums::to_f32;
