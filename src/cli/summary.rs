//! Summary that is printed at the end of a run.

use std::fmt::Write as _;

use super::console::{Console, align_columns, one_line};
use super::open::relative_to_current;
use super::progress::{EventSummary, ProgressDisplay};
use super::units::{format_bytes, format_count, format_duration};
use crate::engine::run::RunSummary;
use crate::error::{Result, TruncatedList};
use crate::store::Store;

/// Warnings shown per stage without `--verbose`.
const SHOWN_WARNINGS: usize = 5;

/// Prints the summary as text; with `--json` the expectations only, since events were printed before.
///
/// # Errors
/// stdout cannot be written.
pub(super) fn show_summary(
    store: &Store,
    summary: &RunSummary,
    progress: &ProgressDisplay,
    console: Console,
) -> Result<()> {
    if console.json {
        for expectation in &summary.record.expectations {
            console.print_json(&serde_json::json!({
                "event": "expectation", "sql": expectation.sql, "value": expectation.value,
                "wanted": expectation.wanted, "held": expectation.held,
            }))?;
        }
        return Ok(());
    }
    let seen = progress.summary();
    let mut text = String::from("\n");
    text.push_str(&stage_table(summary, &seen));
    write_warnings(&seen, console.verbose, &mut text);
    for expectation in &summary.record.expectations {
        let verdict = if expectation.held { "held" } else { "did not hold" };
        let value = expectation.value.map_or("no value".to_owned(), |value| value.to_string());
        let _ = writeln!(
            text,
            "expectation {verdict}: {value}, wanted {}: {}",
            expectation.wanted,
            one_line(&expectation.sql)
        );
    }
    let finished = |name: &String| summary.manifests.contains_key(name);
    let ran = summary.record.stages.iter().filter(|stage| !stage.reused && finished(&stage.name)).count();
    let peak = if ran > 0 {
        format!(", at most {} in flight", format_bytes(summary.peak_bytes_in_flight))
    } else {
        String::new()
    };
    let _ =
        writeln!(text, "{ran} of {} stages ran, {}{peak}", summary.record.stages.len(), format_duration(seen.seconds));
    for (stage, page) in html_pages(store, summary) {
        let _ = writeln!(text, "report of `{stage}`: {page}");
    }
    console.info(&text);
    Ok(())
}

/// Table with a row for each stage.
fn stage_table(summary: &RunSummary, seen: &EventSummary) -> String {
    let title = ["stage", "kind", "was", "rows", "time"].map(str::to_owned).to_vec();
    let mut rows = vec![title];
    for stage in &summary.record.stages {
        let manifest = summary.manifests.get(&stage.name);
        let was = match (stage.reused, manifest.is_some(), seen.resumed.contains_key(&stage.name)) {
            (true, ..) => "reused",
            (false, false, _) => "not finished",
            (false, true, true) => "resumed",
            (false, true, false) => "run",
        };
        let there = manifest.map(|manifest| format_count(manifest.rows())).unwrap_or_default();
        let time = stage.seconds.map(format_duration).unwrap_or_default();
        rows.push(vec![stage.name.clone(), stage.kind.clone(), was.to_owned(), there, time]);
    }
    align_columns(&rows, &[false, false, false, true, true])
}

/// Appends the first warnings of each stage and the number of the others.
fn write_warnings(seen: &EventSummary, all: bool, text: &mut String) {
    for (stage, warnings) in &seen.warnings {
        let mut lines = TruncatedList::new(if all { usize::MAX } else { SHOWN_WARNINGS });
        lines.extend(warnings.iter().map(|warning| {
            format!("warning: `{stage}`: {}: {}", one_line(&warning.subject), one_line(&warning.message))
        }));
        let rest = if lines.is_truncated() { "; `-v` shows all, SQL has them in `store.warnings`" } else { "" };
        let _ = writeln!(text, "{}{rest}", lines.join("\n"));
    }
}

/// Paths of HTML reports, with their stages.
fn html_pages(store: &Store, summary: &RunSummary) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    for stage in &summary.record.stages {
        let Some(manifest) = summary.manifests.get(&stage.name) else { continue };
        let files =
            manifest.files.iter().flat_map(|(output, files)| files.iter().map(move |file| (output, &file.name)));
        let html = files.filter(|(_, name)| name.ends_with(".html"));
        let artefact = store.artefact(&stage.kind, &stage.key);
        pages.extend(html.map(|(output, name)| {
            (stage.name.clone(), relative_to_current(artefact.display_path(&format!("{output}/{name}"))))
        }));
    }
    pages
}
