//! The Markdown page: the tables of the HTML page and its examples as text.

use std::fmt::Write as _;

use super::content::{Content, DIRECTIONS, Hit, ResultRow, place, tenth};
use crate::kernels::measure::recall::{CUTOFFS, Retrieval};

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
            let recalls = CUTOFFS.iter().map(move |k| format!("{side} R@{k}"));
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
        if let Some((directions, rsum)) = row.chance().filter(|_| content.is_last_of_pool(row)) {
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
    let values = directions.iter().flat_map(|side| side.recalls().into_iter().chain([side.medr, side.meanr]));
    values.map(tenth).collect::<Vec<_>>().join(" | ")
}

fn write_intervals(page: &mut String, content: &Content) -> std::fmt::Result {
    writeln!(page, "\n95 % confidence intervals of the recalls (Wilson), queries taken as independent:\n")?;
    writeln!(page, "| protocol | method | direction | R@1 | R@5 | R@10 |\n|---|---|---|---:|---:|---:|")?;
    for row in &content.results {
        for (direction, intervals) in DIRECTIONS.iter().zip(&row.intervals) {
            let ends = intervals.map(|ends| ends.map_or(String::new(), |(l, h)| format!("{}–{}", tenth(l), tenth(h))));
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

/// Text that Markdown shows as it is, on one line.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            escaped.push(' ');
            continue;
        }
        // These mean something at the start of a line only, as in `- item` and `1. item`.
        let starts_a_list = matches!(c, '-' | '+' | '.') && escaped.chars().all(|c| c.is_ascii_digit() || c == ' ');
        let plain = matches!(c, '.' | ',' | '-' | '+' | '\'' | '"' | '?' | ':' | ';' | '/' | '%');
        if starts_a_list || (c.is_ascii_punctuation() && !plain) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        assert_eq!(escaped("a man, 3 dogs - well-fed. Really?"), "a man, 3 dogs - well-fed. Really?");
        assert_eq!(
            escaped("<b>|*x*_y_`z`[q](http://a)\n# h"),
            "\\<b\\>\\|\\*x\\*\\_y\\_\\`z\\`\\[q\\]\\(http://a\\) \\# h"
        );
        assert_eq!(escaped("- x"), "\\- x");
        assert_eq!(escaped("12. x"), "12\\. x");
    }
}
