//! What is made of scores while they lie in the cache: panels of [`COLUMNS`](super::product::COLUMNS) columns, a few rows
//! at a time, looked at along both directions.

mod exp;
mod log_sum_exp;
mod moments;
mod threshold;

pub use log_sum_exp::{ColumnSums, LogSum, add_along_columns, add_along_rows};
pub use moments::{ColumnMoments, Moments, add_moments};
pub use threshold::{Columns, Hit, Row, find};
