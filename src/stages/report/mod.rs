//! `report`: any results → `page` (`report.md`, `report.html`).

mod settings;

pub use settings::Report;
