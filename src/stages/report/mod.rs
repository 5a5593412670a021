//! `report`: any results → `page` (`report.md`, `report.html`).

mod settings;
mod run;
mod read;
mod content;
mod sheet;
mod graded;
mod agreement;
mod examples;
mod curves;
mod plots;
mod html;
mod cards;
mod markdown;
#[cfg(test)]
mod tests;

pub use settings::Report;
