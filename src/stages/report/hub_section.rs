//! Hubs on the pages: distributions, the items that are found most, and recall over the relaxation of a matching.

use std::fmt::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use plotters::coord::combinators::IntoLogRange;

use super::content::Content;
use super::elements::DIRECTIONS;
use super::escape::escaped;
use super::hubs::Hub;
use super::plots::{A, B, Line, MUTED, draw};
use crate::error::Result;

const TITLE: &str = "Hubs";

const NOTE: &str =
    "Nₖ: in how many queries' lists of the first k an item is. A hub is in many lists, of which few are right.";

/// The section of the HTML page.
///
/// # Errors
/// A plot cannot be drawn.
pub(super) fn html(content: &Content) -> Result<Markup> {
    let Some(hubs) = &content.hubs else { return Ok(html! {}) };
    let relaxations = relaxations(content)?;
    let mut plots = Vec::new();
    let mut ends = vec![hubs.cutoffs.first(), hubs.cutoffs.last()];
    ends.dedup();
    for (place, k) in ends.into_iter().flatten().enumerate() {
        let among = if *k == 1 { "first".to_owned() } else { format!("among their first {k}") };
        for (direction, found) in DIRECTIONS.iter().zip(&hubs.directions) {
            plots.push((direction, among.clone(), distribution(&found.shares[place], &occurrence(*k))?));
        }
    }
    Ok(html! {
        section {
            h2 { (TITLE) }
            div.plots {
                @for (direction, among, plot) in plots {
                    @if let Some(svg) = plot {
                        figure role="group" aria-label=(direction) {
                            figcaption {
                                strong { (direction) ": items found by at least N queries " (among) ", percent" }
                                div.legend {
                                    @for (class, method) in ["muted", "a"].iter().zip(&hubs.methods) {
                                        span { i class=(class) {} (method) }
                                    }
                                }
                            }
                            (PreEscaped(svg))
                        }
                    }
                }
                @if let Some(svg) = relaxations {
                    figure role="group" aria-label="Recall over relaxation" {
                        figcaption {
                            strong { "Relaxed greedy matching: recall over λ, percent" }
                            div.legend {
                                span { i.a {} (DIRECTIONS[0]) } span { i.b {} (DIRECTIONS[1]) }
                                span { "from thick to thin: " (recalls(&content.cutoffs)) }
                            }
                        }
                        (PreEscaped(svg))
                    }
                }
            }
            @for (direction, found) in DIRECTIONS.iter().zip(&hubs.directions) {
                @if !found.hubs.is_empty() {
                    h3 { (direction) ": what is found most often" }
                    div.wide { table {
                        thead { tr {
                            th { "item" }
                            th.n { "matches" }
                            @for method in &hubs.methods { th.n { (occurrences(&hubs.cutoffs)) " by " (method) } }
                        } }
                        tbody { @for hub in &found.hubs { tr {
                            th scope="row" { (item(hub)) }
                            td.n { (hub.own) }
                            @for counts in &hub.counts { td.n { (list(counts)) } }
                        } } }
                    } }
                }
            }
            p.note { (NOTE) }
        }
    })
}

fn item(hub: &Hub) -> Markup {
    html! {
        @match &hub.picture {
            Some(picture) => {
                img src=(format!("data:image/jpeg;base64,{}", STANDARD.encode(&picture.0))) alt=(hub.text) title=(hub.text);
            }
            None => { (hub.text) }
        }
    }
}

/// `N₁₀`.
fn occurrence(k: usize) -> String {
    let digit = |digit: char| digit.to_digit(10).and_then(|digit| char::from_u32(0x2080 + digit)).unwrap_or(digit);
    k.to_string().chars().map(digit).fold("N".to_owned(), |name, digit| name + &digit.to_string())
}

fn occurrences(cutoffs: &[usize]) -> String {
    cutoffs.iter().map(|&k| occurrence(k)).collect::<Vec<_>>().join(", ")
}

fn recalls(cutoffs: &[usize]) -> String {
    cutoffs.iter().map(|k| format!("R@{k}")).collect::<Vec<_>>().join(", ")
}

fn list(counts: &[i64]) -> String {
    counts.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

/// The section of the Markdown page.
pub(super) fn markdown(page: &mut String, content: &Content) -> fmt::Result {
    let Some(hubs) = &content.hubs else { return Ok(()) };
    writeln!(page, "\n## {TITLE}")?;
    let counts = occurrences(&hubs.cutoffs);
    for (direction, found) in DIRECTIONS.iter().zip(&hubs.directions) {
        let methods: Vec<String> =
            hubs.methods.iter().map(|method| format!("{counts} by {}", escaped(method))).collect();
        writeln!(page, "\n| {direction} | matches | {} |", methods.join(" | "))?;
        writeln!(page, "|---|---:|{}", "---:|".repeat(methods.len()))?;
        for hub in &found.hubs {
            let counts: Vec<String> = hub.counts.iter().map(|counts| list(counts)).collect();
            writeln!(page, "| {} | {} | {} |", escaped(&hub.text), hub.own, counts.join(" | "))?;
        }
    }
    writeln!(page, "\n{NOTE}")
}

/// Shares of items over N, both on logarithmic axes.
fn distribution(shares: &[Vec<(f64, f64)>], name: &str) -> Result<Option<String>> {
    let points = || shares.iter().flatten();
    let most = points().map(|point| point.0).fold(1.0, f64::max);
    let least = points().map(|point| point.1).fold(100.0, f64::min);
    if points().count() < 2 || most <= 1.0 {
        return Ok(None);
    }
    let lines: Vec<Line> =
        shares.iter().zip([MUTED, A]).map(|(points, colour)| Line::new(points.clone(), colour, 2)).collect();
    let x = (1.0..most * 1.05).log_scale().base(base(most));
    let y = ((least / 1.5).min(50.0)..110.0).log_scale().base(10.0);
    draw(x, y, name, &lines, &[]).map(Some)
}

/// Recalls of a matching over its relaxation.
fn relaxations(content: &Content) -> Result<Option<String>> {
    let all = &content.relaxations;
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return Ok(None) };
    if all.len() < 2 {
        return Ok(None);
    }
    let line = |direction: usize, place: usize, colour| {
        let points = all.iter().map(|(lambda, recalls)| (*lambda, recalls[direction][place])).collect();
        Line::new(points, colour, [4, 2, 1].get(place).copied().unwrap_or(1))
    };
    let lines: Vec<Line> = [(0, A), (1, B)]
        .into_iter()
        .flat_map(|(side, colour)| (0..content.cutoffs.len()).map(move |k| (side, k, colour)))
        .map(|(side, k, colour)| line(side, k, colour))
        .collect();
    draw((first.0..last.0).log_scale().base(2.0), 0.0..100.0, "λ", &lines, &[]).map(Some)
}

fn base(span: f64) -> f64 {
    if span < 2000.0 { 2.0 } else { 10.0 }
}
