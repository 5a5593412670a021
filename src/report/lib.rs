//! `report`: any results → `page` (`report.md`, `report.html`, and of a sweep `table.tex`).
//!
//! The sections build a [`document::Document`], which `html` and `markdown` render.

mod settings;
mod run;
mod page_data;
mod document;
mod results;
mod curves;
mod plots;
mod sweep;
mod hubs;
mod similarity;
mod graphs;
mod item_labels;
mod attention;
mod examples;
mod setting_text;
mod lineage_section;
mod run_section;
mod html;
mod markdown;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod section_tests;
#[cfg(test)]
mod rendering_tests;

pub use run_section::{RunFacts, StageFacts, add_run_to_html, add_run_to_markdown};
pub use settings::{Report, ReportAttention};
pub use sweep::ReportSweep;
