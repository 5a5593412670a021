//! `report`: any results → `page` (`report.md`, `report.html`, and of a sweep `table.tex`).
//!
//! The sections build a [`document::Document`], which `html` and `markdown` render.

mod settings;
mod run;
mod read;
mod page_data;
mod text;
mod table;
mod figure;
mod card;
mod settings_card;
mod document;
mod results;
mod graded;
mod significance;
mod agreement;
mod curves;
mod training_plots;
mod ranks;
mod smoothing;
mod plots;
mod validation;
mod sweep;
mod hubs;
mod hub_section;
mod similarity;
mod similarity_section;
mod graphs;
mod rankings;
mod item_labels;
mod attention;
mod attention_drawing;
mod examples;
mod defaults;
mod setting_text;
mod lineage_section;
mod run_section;
mod html;
mod markdown;
mod escape;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod similarity_tests;
#[cfg(test)]
mod attention_tests;
#[cfg(test)]
mod rendering_tests;

pub use run_section::{RunFacts, StageFacts, add_run_to_html, add_run_to_markdown};
pub use settings::{Report, ReportAttention};
pub use sweep::ReportSweep;
