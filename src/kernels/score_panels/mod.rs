//! Reductions of scores while they are in the cache: over the rows and the columns of panels with a few rows and
//! [`TILE_COLUMNS`](super::product::TILE_COLUMNS) columns.

mod log_sum_exp;
mod moments;
mod threshold;

pub use log_sum_exp::{ColumnLogSumExps, RunningLogSumExp, add_exp_columns, add_exp_rows};
pub use moments::{ColumnMoments, Moments, add_moments};
pub use threshold::{ColumnThresholds, RowThresholds, ThresholdHit, find_hits};
