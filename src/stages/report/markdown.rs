//! The Markdown page: the tables of the HTML page and its examples as text.

use std::fmt::Write as _;

use super::content::Content;
use super::elements::{DIRECTIONS, Hit, ResultRow, place, tenth};
use super::escape::escaped;
use crate::kernels::measure::recall::Retrieval;

/// The page.
pub(super) fn page(content: &Content) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut page, content);
    page
}

fn write_page(page: &mut String, content: &Content) -> std::fmt::Result {
    writeln!(page, "# {}", escaped(&content.title))?;
    if !content.results.is_empty() {
        write_results(page, content)?;
    }
    for sheet in &content.sheets {
        sheet.markdown(page)?;
    }
    if !content.validation.is_empty() {
        write_validation(page, content)?;
    }
    super::hub_section::markdown(page, content)?;
    super::meaning::markdown(page, content)?;
    write_examples(page, content)
}

fn write_results(page: &mut String, content: &Content) -> std::fmt::Result {
    writeln!(page, "\n## Results\n")?;
    let heads: Vec<String> = ["i→t", "t→i"]
        .iter()
        .flat_map(|side| {
            let recalls = content.cutoffs.iter().map(move |k| format!("{side} R@{k}"));
            recalls.chain([format!("{side} med r"), format!("{side} mean r")])
        })
        .collect();
    writeln!(page, "| protocol | method | images | captions | {} | rsum | hs-sum |", heads.join(" | "))?;
    writeln!(page, "|---|---|---:|---:|{}---:|---:|", "---:|".repeat(heads.len()))?;
    for row in &content.results {
        let method = if row.transductive { format!("{} (transductive)", row.method) } else { row.method.clone() };
        let pool = format!("{} | {}", row.n_images, row.n_captions);
        let (protocol, method) = (escaped(&row.protocol), escaped(&method));
        let sums = format!("{} | {:.2}", tenth(row.rsum), row.hs_sum);
        writeln!(page, "| {protocol} | {method} | {pool} | {} | {sums} |", cells(&row.directions))?;
        if let Some((directions, rsum)) = row.chance(&content.cutoffs).filter(|_| content.is_last_of_pool(row)) {
            writeln!(page, "| chance | | {pool} | {} | {} | |", cells(&directions), tenth(rsum))?;
        }
    }
    if content.results.iter().any(ResultRow::has_intervals) {
        write_intervals(page, content)?;
    }
    Ok(())
}

fn write_examples(page: &mut String, content: &Content) -> std::fmt::Result {
    for (direction, examples) in DIRECTIONS.iter().zip(&content.examples) {
        if examples.is_empty() {
            continue;
        }
        writeln!(page, "\n## Examples: {direction}")?;
        for example in examples {
            writeln!(page, "\n**{}**, best match in {} place:\n", escaped(&example.text), place(example.rank))?;
            for (number, hit) in example.found.iter().enumerate() {
                writeln!(page, "{}. {}", number + 1, line(hit))?;
            }
            if !example.missed.is_empty() {
                writeln!(page, "\nRight would have been:\n")?;
            }
            for hit in &example.missed {
                writeln!(page, "- {}", line(hit))?;
            }
        }
    }
    Ok(())
}

fn cells(directions: &[Retrieval; 2]) -> String {
    let values = directions.iter().flat_map(|side| side.recalls.iter().copied().chain([side.medr, side.meanr]));
    values.map(tenth).collect::<Vec<_>>().join(" | ")
}

fn write_intervals(page: &mut String, content: &Content) -> std::fmt::Result {
    writeln!(page, "\n95 % confidence intervals of the recalls (Wilson), queries taken as independent:\n")?;
    let heads: String = content.cutoffs.iter().map(|k| format!(" R@{k} |")).collect();
    writeln!(page, "| protocol | method | direction |{heads}\n|---|---|---|{}", "---:|".repeat(content.cutoffs.len()))?;
    for row in &content.results {
        for (direction, intervals) in DIRECTIONS.iter().zip(&row.intervals) {
            let text = |(low, high): (f64, f64)| format!("{}–{}", tenth(low), tenth(high));
            let ends: Vec<String> = intervals.iter().map(|ends| ends.map(text).unwrap_or_default()).collect();
            let (protocol, method) = (escaped(&row.protocol), escaped(&row.method));
            writeln!(page, "| {protocol} | {method} | {direction} | {} |", ends.join(" | "))?;
        }
    }
    Ok(())
}

fn write_validation(page: &mut String, content: &Content) -> std::fmt::Result {
    writeln!(page, "\n## Validation\n")?;
    writeln!(page, "| epoch | mean loss | i→t R@1 | R@5 | R@10 | t→i R@1 | R@5 | R@10 | rsum | |")?;
    writeln!(page, "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|")?;
    let best = content.best_epoch().map(|epoch| epoch.number);
    for epoch in &content.validation {
        let recalls: Vec<String> = epoch.recalls.iter().flatten().map(|&recall| tenth(recall)).collect();
        let mark = if Some(epoch.number) == best { "kept" } else { "" };
        let recalls = recalls.join(" | ");
        writeln!(page, "| {} | {:.4} | {recalls} | {} | {mark} |", epoch.number, epoch.loss, tenth(epoch.rsum))?;
    }
    Ok(())
}

fn line(hit: &Hit) -> String {
    let score = hit.score.map_or(String::new(), |score| format!(" ({score:.3})"));
    format!("{}{score}{}", escaped(&hit.text), if hit.right { " ✓" } else { "" })
}
