//! Summary that is printed at the end of a run.

use std::fmt::Write as _;

use super::console::{Console, align_columns, one_line};
use super::instance_groups::{counts, stage_groups};
use super::open::relative_to_current;
use super::progress::{EventSummary, ProgressDisplay};
use super::units::{format_bytes, format_count, format_duration, format_items, format_number};
use pairloom_base::error::{Result, TruncatedList};
use pairloom_engine::run_record::RunSummary;
use pairloom_stage::INSTANCE_SIGN;
use pairloom_store::record::StageRecord;
use pairloom_store::{Manifest, Store};

/// Significant digits of the values of expectations that held.
const EXPECTATION_DIGITS: usize = 6;
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
    text.push_str(&stage_table(summary, &seen, console.verbose));
    write_warnings(&seen, console.verbose, &mut text);
    // The run ends with its first error, and with `--keep-going` there can be others.
    if seen.failures.len() > 1 {
        let lines = seen.failures.iter().map(|(stage, error)| format!("failed: `{stage}`: {}", one_line(error)));
        let _ = writeln!(text, "{}", TruncatedList::from_iter(lines).join("\n"));
    }
    if let Some(options) = options_without_failures(summary, &seen) {
        let _ = writeln!(text, "to report the other rows, run the same command with {options}");
    }
    for expectation in &summary.record.expectations {
        let verdict = if expectation.held { "held" } else { "did not hold" };
        let value = expectation_value(expectation.value, expectation.held);
        let sql = one_line(&expectation.sql);
        let _ = writeln!(text, "expectation {verdict}: {value}, wanted {}: {sql}", expectation.wanted);
    }
    text.push_str(&closing_line(summary, &seen, console.verbose));
    for (stage, page) in html_pages(store, summary) {
        let _ = writeln!(text, "report of `{stage}`: {page}");
    }
    console.info(&text);
    Ok(())
}

/// Options that leave out the instances of the matrix that failed; `None` if another stage failed, or none did.
fn options_without_failures(summary: &RunSummary, seen: &EventSummary) -> Option<String> {
    let mut options: Vec<String> = Vec::new();
    for stage in summary.record.stages.iter().filter(|stage| seen.failures.contains_key(&stage.name)) {
        let (_, values) = stage.name.split_once(INSTANCE_SIGN)?;
        let option = format!("--except {values}");
        if !options.contains(&option) {
            options.push(option);
        }
    }
    (!options.is_empty()).then(|| options.join(" "))
}

/// Value of an expectation for display. A value that failed is exact, since rounding could hide by how little.
fn expectation_value(value: Option<f64>, held: bool) -> String {
    match value {
        None => "no value".to_owned(),
        Some(value) if held => format_number(value, EXPECTATION_DIGITS),
        Some(value) => value.to_string(),
    }
}

/// Line with the number of stages that ran, were reused, failed and were not finished, the time, and the name of the run.
fn closing_line(summary: &RunSummary, seen: &EventSummary, has_peak: bool) -> String {
    let stages = &summary.record.stages;
    let reused = stages.iter().filter(|stage| stage.reused).count();
    let unfinished = stages.iter().filter(|stage| !summary.manifests.contains_key(&stage.name)).count();
    let ran = stages.len() - reused - unfinished;
    let failed = seen.failures.len();
    let mut line = format!("{ran} of {} ran", format_items(stages.len(), "stages"));
    if ran + unfinished > 0 {
        let _ = write!(line, " in {}", format_duration(seen.seconds));
    }
    let not_finished = unfinished.saturating_sub(failed);
    for (number, what) in [(reused, "reused"), (failed, "failed"), (not_finished, "not finished")] {
        if number > 0 {
            let _ = write!(line, ", {number} {what}");
        }
    }
    if has_peak && ran > 0 {
        let _ = write!(line, ", at most {} between threads", format_bytes(summary.peak_bytes_in_flight));
    }
    line + &format!("; run {}\n", summary.record.run)
}

/// Table with a row for each stage. Instances of a stage are one row, with the sum of their times.
fn stage_table(summary: &RunSummary, seen: &EventSummary, is_verbose: bool) -> String {
    let title = ["stage", "kind", "was", "rows", "time"].map(str::to_owned).to_vec();
    let mut rows = vec![title];
    for group in stage_groups(&summary.record.stages, is_verbose) {
        let was = |stage: &StageRecord| {
            let is_resumed = seen.resumed.contains_key(&stage.name);
            match (stage.reused, summary.manifests.contains_key(&stage.name), is_resumed) {
                (true, ..) => "reused",
                (false, false, _) if seen.failures.contains_key(&stage.name) => "failed",
                (false, false, _) => "not finished",
                (false, true, true) => "resumed",
                (false, true, false) => "run",
            }
        };
        // A stage that writes files only, such as a report, has no rows.
        let manifests = group.members.iter().filter_map(|stage| summary.manifests.get(&stage.name));
        let there: Vec<u64> = manifests.filter(|manifest| !manifest.tables.is_empty()).map(Manifest::rows).collect();
        let there = if there.is_empty() { String::new() } else { format_count(there.iter().sum()) };
        let seconds: Vec<f64> = group.members.iter().filter_map(|stage| stage.seconds).collect();
        let time = if seconds.is_empty() { String::new() } else { format_duration(seconds.iter().sum()) };
        let was = counts(group.members.iter().map(|stage| was(stage)));
        rows.push(vec![group.name.clone(), group.members[0].kind.clone(), was, there, time]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_expectations_are_rounded_if_they_held() {
        assert_eq!(expectation_value(Some(125.600_000_000_000_01), true), "125.6");
        assert_eq!(expectation_value(Some(8.0), true), "8");
        assert_eq!(expectation_value(Some(149.999_999), false), "149.999999");
        assert_eq!(expectation_value(None, false), "no value");
    }
}
