//! The one error type of the crate, and what messages are made of.

pub mod error_type;
pub mod mistakes;
pub mod problem;
pub mod truncated_list;

pub use error_type::{Error, Kind, Result, visible};
pub use mistakes::Mistakes;
pub use problem::Problem;
pub use truncated_list::TruncatedList;
