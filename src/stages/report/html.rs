//! The HTML page: one file that needs nothing else. maud escapes every text; captions are whatever people wrote.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::content::Content;
use super::elements::{DIRECTIONS, ResultRow, tenth};
use super::{cards, course, hub_section, meaning, plots};
use crate::error::Result;
use crate::kernels::measure::recall::Retrieval;

const STYLE: &str = include_str!("style.css");

/// The page.
///
/// # Errors
/// A plot cannot be drawn.
pub(super) fn page(content: &Content) -> Result<String> {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:";
                title { (content.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (content.title) }
                    (headline(content))
                    @if !content.results.is_empty() { (results(content)) }
                    @for sheet in &content.sheets { (sheet.html()) }
                    (curves(content)?)
                    (hub_section::html(content)?)
                    (meaning::sections(content)?)
                    @for (direction, examples) in DIRECTIONS.iter().zip(&content.examples) {
                        (cards::section(direction, examples))
                    }
                    footer { "Made by Pairloom " (env!("CARGO_PKG_VERSION")) "." }
                }
            }
        }
    };
    // HTML knows no such character, and captions are whatever people wrote.
    Ok(markup.into_string().replace('\0', "\u{fffd}"))
}

/// The numbers that people look for first, of the first row.
fn headline(content: &Content) -> Markup {
    let Some(row) = content.results.first() else { return html! {} };
    let chance = row.chance(&content.cutoffs);
    let first = content.cutoffs.first().copied().unwrap_or(1);
    let figure = |name: &str, value: f64, chance: Option<f64>| {
        html! {
            div {
                dt { (name) }
                dd { (tenth(value)) }
                @if let Some(chance) = chance { dd.chance { "chance " (tenth(chance)) } }
            }
        }
    };
    html! {
        p.lead {
            "Protocol " code { (row.protocol) } ", method " code { (row.method) } ": "
            (row.n_images) " images, " (row.n_captions) " captions in the pool."
        }
        dl.figures {
            (figure("rsum", row.rsum, chance.as_ref().map(|c| c.1)))
            @for (side, direction) in DIRECTIONS.iter().enumerate() {
                (figure(&format!("{direction} R@{first}"), row.directions[side].recalls[0], chance.as_ref().map(|c| c.0[side].recalls[0])))
            }
        }
    }
}

fn results(content: &Content) -> Markup {
    html! {
        section {
            h2 { "Results" }
            div.wide {
                table {
                    thead {
                        tr {
                            th rowspan="2" { "protocol" }
                            th rowspan="2" { "method" }
                            @for direction in DIRECTIONS { th colspan=(content.cutoffs.len() + 2) .group { (direction) } }
                            th rowspan="2" .n { "rsum" }
                            th rowspan="2" .n { "hs-sum" }
                        }
                        tr {
                            @for _ in DIRECTIONS {
                                @for k in &content.cutoffs { th.n { "R@" (k) } }
                                th.n { "med r" }
                                th.n { "mean r" }
                            }
                        }
                    }
                    tbody {
                        @for row in &content.results {
                            tr {
                                th scope="row" { (row.protocol) }
                                td { (row.method) @if row.transductive { " (transductive)" } }
                                @for side in 0..2 { (cells(&row.directions[side], Some((row, side)))) }
                                td.n.sum { (tenth(row.rsum)) }
                                td.n { (format!("{:.2}", row.hs_sum)) }
                            }
                            @if let Some((directions, rsum)) = row.chance(&content.cutoffs).filter(|_| content.is_last_of_pool(row)) {
                                tr.muted {
                                    th scope="row" { "chance" }
                                    td {}
                                    @for direction in &directions { (cells(direction, None)) }
                                    td.n { (tenth(rsum)) }
                                    td {}
                                }
                            }
                        }
                    }
                }
            }
            p.note {
                "R@K: percentage of queries whose best match is among the first K items. med r, mean r: median and mean \
                 rank, from 1. rsum: sum of the recalls. hs-sum: sum of the skewness of hubs at the same K, both ways. Chance: a random order of the same pool."
                @if content.results.iter().any(ResultRow::has_intervals) {
                    " Small figures: 95 % confidence interval (Wilson), queries taken as independent."
                }
                @if content.results.iter().any(|row| row.transductive) {
                    " Transductive: the method saw the test queries together."
                }
            }
        }
    }
}

/// The cells of a direction; with intervals for the row and side that they belong to.
fn cells(direction: &Retrieval, row: Option<(&ResultRow, usize)>) -> Markup {
    html! {
        @for (cutoff, recall) in direction.recalls.iter().enumerate() {
            td.n {
                (tenth(*recall))
                @if let Some((low, high)) = row.and_then(|(row, side)| row.intervals[side][cutoff]) {
                    small { (tenth(low)) "–" (tenth(high)) }
                }
            }
        }
        td.n { (tenth(direction.medr)) }
        td.n { (tenth(direction.meanr)) }
    }
}

fn curves(content: &Content) -> Result<Markup> {
    let best = content.best_epoch();
    let knows_collapse = content.history.iter().any(|step| step.collapsed_loss.is_some());
    let figures = [
        (
            course::losses(content)?,
            "Training loss",
            html! {
                (swatch("muted", "each step (means of neighbours)")) (swatch("a", "smoothed"))
                @if knows_collapse { (swatch("b", "if all scores were equal")) }
            },
        ),
        (
            course::gradient_norms(content)?,
            "Norm of the gradient, before clipping",
            html! {
                (swatch("muted", "each step (means of neighbours)")) (swatch("a", "smoothed"))
            },
        ),
        (course::learning_rates(content)?, "Learning rate", html! {}),
        (
            course::validation(content)?,
            "Validation rsum",
            html! {
                @if let Some(best) = best {
                    (swatch("b", &format!("best: {} after epoch {} (mean loss {:.3})", tenth(best.rsum), best.number, best.loss)))
                }
            },
        ),
        (
            course::recalls(content)?,
            "Validation recall, percent",
            html! {
                (swatch("a", DIRECTIONS[0])) (swatch("b", DIRECTIONS[1])) span { "from thick to thin: R@1, R@5, R@10" }
                @if best.is_some() { (swatch("muted", "the epoch that was kept")) }
            },
        ),
        (
            plots::ranks(content)?,
            "Queries with a match among the first k items, percent",
            html! {
                (swatch("a", DIRECTIONS[0])) (swatch("b", DIRECTIONS[1])) (swatch("muted", "chance"))
            },
        ),
    ];
    Ok(html! {
        @if figures.iter().any(|figure| figure.0.is_some()) {
            section {
                h2 { "Curves" }
                div.plots {
                    @for (svg, title, legend) in &figures {
                        @if let Some(svg) = svg {
                            figure role="group" aria-label=(title) {
                                figcaption { strong { (title) } div.legend { (legend) } }
                                (PreEscaped(svg))
                            }
                        }
                    }
                }
            }
        }
    })
}

fn swatch(class: &str, text: &str) -> Markup {
    html! { span { i class=(class) {} (text) } }
}
