//! What captions mean, on the HTML page: how φ is distributed, pairs at its ends, scene graphs.

use maud::{Markup, PreEscaped, html};

use super::content::Content;
use super::graphs::{self, Graph};
use super::plots;
use super::similarity::{Pair, Side, Similarity};
use crate::error::Result;

/// Names of the two kinds of pairs.
pub(super) const SIDES: [&str; 2] = ["captions of the image itself", "captions of other images"];

/// The sections, where the page has their tables.
///
/// # Errors
/// A plot cannot be drawn.
pub(super) fn sections(content: &Content) -> Result<Markup> {
    let similarity = content.similarity.as_ref().map(similarity).transpose()?;
    Ok(html! {
        @if let Some(similarity) = similarity { (similarity) }
        @if !content.graphs.is_empty() { (scene_graphs(&content.graphs)) }
    })
}

fn similarity(found: &Similarity) -> Result<Markup> {
    Ok(html! {
        section {
            h2 { "Caption similarity" }
            p.lead { "φ is " code { (found.measure) } " on words cut by " code { (found.tokenizer) } "." }
            div.plots {
                @if let Some(svg) = plots::similarity(found)? {
                    figure role="group" aria-label="Distribution of φ" {
                        figcaption {
                            strong { "Distribution of φ, percent of pairs" }
                            div.legend { span { i.a {} (SIDES[0]) } span { i.b {} (SIDES[1]) } }
                        }
                        (PreEscaped(svg))
                    }
                }
                (table(found))
            }
            div.examples {
                (pairs("Captions of other images with the largest φ", "middling", &found.high))
                (pairs("Captions of the image itself with the smallest φ", "bad", &found.low))
            }
        }
    })
}

/// The numbers of the distribution.
fn table(found: &Similarity) -> Markup {
    html! {
        div.wide {
            table {
                thead { tr { th { "pairs of an image with" } th.n { "pairs" } @for name in COLUMNS { th.n { (name) } } } }
                tbody {
                    @for (name, side) in SIDES.iter().zip(&found.sides) {
                        tr {
                            th scope="row" { (name) }
                            td.n { (side.count) }
                            @for value in columns(side) { td.n { (value) } }
                        }
                    }
                }
            }
        }
    }
}

/// Names of [`columns`].
pub(super) const COLUMNS: [&str; 4] = ["mean", "5 %", "median", "95 %"];

/// Mean and quantiles as text, empty where there are no pairs.
pub(super) fn columns(side: &Side) -> [String; 4] {
    let values = [side.mean(), side.quantile(0.05), side.quantile(0.5), side.quantile(0.95)];
    values.map(|value| value.map_or_else(String::new, |value| format!("{value:.3}")))
}

fn pairs(title: &str, class: &str, pairs: &[Pair]) -> Markup {
    html! {
        @for pair in pairs {
            article class=(class) {
                header {
                    div {
                        p.query { "“" (pair.caption) "”" }
                        p.verdict { (title) ": " strong { (format!("{:.3}", pair.value)) } }
                    }
                }
                ul.texts { @for reference in &pair.references { li { span { (reference) } } } }
            }
        }
    }
}

fn scene_graphs(graphs: &[Graph]) -> Markup {
    html! {
        section {
            h2 { "Scene graphs" }
            div.graphs {
                @for graph in graphs {
                    figure { figcaption { "“" (graph.text) "”" } (graphs::picture(graph)) }
                }
            }
        }
    }
}
