//! Output formats of query results.

mod output_format;
mod text_table;
mod vertical;
mod cells;
#[cfg(test)]
mod tests;

pub use output_format::OutputFormat;
pub use text_table::{FittedForm, write_fitted, write_wrapped};
