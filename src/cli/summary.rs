//! What a run did, in a few lines at its end.

use std::fmt::Write as _;

use super::bytes::{count, human, seconds};
use super::open::short;
use super::output::{Output, columns};
use super::progress::{Progress, Seen};
use crate::engine::run::Summary;
use crate::error::{Result, TruncatedList, visible};
use crate::store::Store;

/// Warnings shown of a stage, unless all are asked for.
const SHOWN: usize = 5;

/// Shows a summary for people, or what the events have not said yet as JSON.
///
/// # Errors
/// stdout cannot be written.
pub(super) fn show(store: &Store, summary: &Summary, progress: &Progress, output: Output) -> Result<()> {
    if output.json {
        for expectation in &summary.record.expectations {
            output.object(&serde_json::json!({
                "event": "expectation", "sql": expectation.sql, "value": expectation.value,
                "wanted": expectation.wanted, "held": expectation.held,
            }))?;
        }
        return Ok(());
    }
    let seen = progress.seen();
    let mut text = String::from("\n");
    text.push_str(&stages(summary, &seen));
    warnings(&seen, output.verbose, &mut text);
    for expectation in &summary.record.expectations {
        let verdict = if expectation.held { "held" } else { "did not hold" };
        let value = expectation.value.map_or("nothing".to_owned(), |value| value.to_string());
        let _ = writeln!(
            text,
            "expectation {verdict}: {value}, wanted {}: {}",
            expectation.wanted,
            one_line(&expectation.sql)
        );
    }
    let finished = |name: &String| summary.manifests.contains_key(name);
    let ran = summary.record.stages.iter().filter(|stage| !stage.reused && finished(&stage.name)).count();
    let peak =
        if ran > 0 { format!(", at most {} in flight", human(summary.peak_bytes_in_flight)) } else { String::new() };
    let _ = writeln!(text, "{ran} of {} stages ran, {}{peak}", summary.record.stages.len(), seconds(seen.seconds));
    for (stage, page) in pages(store, summary) {
        let _ = writeln!(text, "page of `{stage}`: {page}");
    }
    output.note(&text);
    Ok(())
}

/// A row for each stage.
fn stages(summary: &Summary, seen: &Seen) -> String {
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
        let there = manifest.map(|manifest| count(manifest.rows())).unwrap_or_default();
        let time = stage.seconds.map(seconds).unwrap_or_default();
        rows.push(vec![stage.name.clone(), stage.kind.clone(), was.to_owned(), there, time]);
    }
    columns(&rows, &[false, false, false, true, true])
}

/// The first warnings of each stage, and how many there are.
fn warnings(seen: &Seen, all: bool, text: &mut String) {
    for (stage, warnings) in &seen.warnings {
        let mut lines = TruncatedList::new(if all { usize::MAX } else { SHOWN });
        lines.extend(warnings.iter().map(|warning| {
            format!("warning: `{stage}`: {}: {}", one_line(&warning.subject), one_line(&warning.message))
        }));
        let rest = if lines.is_truncated() { "; `-v` shows them, `store.warnings` has them in SQL" } else { "" };
        let _ = writeln!(text, "{}{rest}", lines.join("\n"));
    }
}

/// Pages that people can open, by stage.
fn pages(store: &Store, summary: &Summary) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    for stage in &summary.record.stages {
        let Some(manifest) = summary.manifests.get(&stage.name) else { continue };
        let files =
            manifest.files.iter().flat_map(|(output, files)| files.iter().map(move |file| (output, &file.name)));
        let html = files.filter(|(_, name)| name.ends_with(".html"));
        let artefact = store.artefact(&stage.kind, &stage.key);
        pages.extend(
            html.map(|(output, name)| (stage.name.clone(), short(artefact.place(&format!("{output}/{name}"))))),
        );
    }
    pages
}

/// Text without line breaks and without characters that could steer a terminal.
fn one_line(text: &str) -> String {
    visible(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}
