//! Sweep of a report: rows with their repetitions as a table, beside printed rows, and the curves of all rows.

mod settings;
mod measures;
mod read;
mod printed;
mod table;
mod section;
mod latex;
mod curves;
mod row_settings;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod printed_tests;

pub(super) use latex::file as latex_file;
pub(super) use read::SweepReport;
pub(super) use row_settings::without_other_runs;
pub(super) use section::{intro, sections};
pub use settings::ReportSweep;
