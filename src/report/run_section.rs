//! Section about a run. It is added to a page when the page is shown, since a page depends on its key only, and one run
//! may reuse the page of another.

use super::document::{Cell, PageTable};
use super::document::{PageBlock, Section};
use super::document::{SettingEntry, SettingsCard};
use super::{html, markdown};

/// Facts of a run, as texts.
#[derive(Debug, Default)]
pub struct RunFacts {
    /// Name of the run.
    pub run: String,
    /// Names and values: `pipeline`, `started`.
    pub facts: Vec<(&'static str, String)>,
    /// Stages of the run.
    pub stages: Vec<StageFacts>,
}

/// Facts of a stage of a run, as texts.
#[derive(Debug, Default)]
pub struct StageFacts {
    /// Name in the pipeline file.
    pub name: String,
    /// Kind of the stage.
    pub kind: String,
    /// Start of the key of its artefact.
    pub key: String,
    /// Number of rows of its tables.
    pub rows: String,
    /// Number of its warnings: each image that was left out is one.
    pub warnings: String,
    /// Duration in this run, or the reason why there is none.
    pub seconds: String,
}

/// Adds the section to a page in HTML that `report` wrote.
#[must_use]
pub fn add_run_to_html(page: &str, run: &RunFacts) -> String {
    let section = html::section(&section(run)).into_string().replace('\0', "\u{fffd}");
    // Texts of the page are escaped, so they contain no tags.
    let end = page.rfind("<footer>").or_else(|| page.rfind("</main>")).unwrap_or(page.len());
    [&page[..end], &section, &page[end..]].concat()
}

/// Adds the section to a page in Markdown that `report` wrote.
#[must_use]
pub fn add_run_to_markdown(page: &str, run: &RunFacts) -> String {
    page.to_owned() + &markdown::section(&section(run))
}

fn section(run: &RunFacts) -> Section {
    let open = run.facts.iter().map(|(name, value)| SettingEntry::new(name, value)).collect();
    let (title, remark) = ("run".to_owned(), run.run.clone());
    let card = SettingsCard { title, remark, open, folded: Vec::new(), folded_title: "" };
    let mut table = PageTable::new(&["stage", "kind", "key"], &["rows", "warnings", "seconds"]);
    for StageFacts { name, kind, key, rows, warnings, seconds } in &run.stages {
        table.push([name, kind, key, rows, warnings, seconds].map(|text| Cell::from(text.clone())));
    }
    Section::new("Run", vec![PageBlock::Settings(vec![card]), PageBlock::Table(table)])
}
