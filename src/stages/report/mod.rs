//! `report`: any results → `page` (`report.md`, `report.html`).

mod settings;
mod run;
mod read;
mod elements;
mod content;
mod escape;
mod sheet;
mod graded;
mod contrasts;
mod agreement;
mod similarity;
mod graphs;
mod meaning;
mod examples;
mod hubs;
mod hub_section;
mod curves;
mod course;
mod plots;
mod html;
mod cards;
mod markdown;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod meaning_tests;

pub use settings::Report;
