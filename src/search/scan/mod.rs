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
mod section;
mod rows;

pub(super) use blocks::{Scan, ScanOverrides, ScoreVisitor};
pub(super) use find::{candidates, find, prepare, results};
pub(super) use ordered_sum::{OrderedSum, parts_per_group};
pub(super) use resume::PassState;
pub(super) use rows::{map_rows, rank_corrected};
pub(super) use section::{KnownColumns, find_section};
pub(super) use stripes::{stripe_count, stripe_rows_range};
pub(super) use sums::to_f32;
