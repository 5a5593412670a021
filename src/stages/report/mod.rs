//! `report`: any results → `page` (`report.md`, `report.html`).
//!
//! Sections describe the page as a [`document::Document`], which `html` and `markdown` render.

mod settings;
mod run;
mod read;
mod elements;
mod text;
mod table;
mod figure;
mod card;
mod document;
mod results;
mod graded;
mod contrasts;
mod agreement;
mod curves;
mod course;
mod ranks;
mod smoothing;
mod plots;
mod validation;
mod hubs;
mod hub_section;
mod similarity;
mod similarity_section;
mod graphs;
mod rankings;
mod things;
mod examples;
mod html;
mod markdown;
mod escape;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod similarity_tests;
#[cfg(test)]
mod rendering_tests;

pub use settings::Report;
