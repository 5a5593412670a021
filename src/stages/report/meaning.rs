//! What captions mean, on both pages: how φ is distributed, pairs at its ends, scene graphs.

use std::fmt::{self, Write as _};

use maud::{Markup, PreEscaped, html};

use super::content::Content;
use super::escape::escaped;
use super::graphs::{self, Graph};
use super::plots;
use super::sheet::Sheet;
use super::similarity::{Pair, Similarity};
use crate::error::Result;

/// Names of the examples.
const ENDS: [&str; 2] =
    ["Captions of other images with the largest φ", "Captions of the image itself with the smallest φ"];

/// Names of the two kinds of pairs.
const SIDES: [&str; 2] = ["captions of the image itself", "captions of other images"];

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
            h2 { "Caption similarity: " code { (found.measure) } }
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
            }
            div.examples {
                (pairs(ENDS[0], "middling", &found.high))
                (pairs(ENDS[1], "bad", &found.low))
            }
        }
    })
}

/// The numbers of the distribution, as a table of both pages.
pub(super) fn sheet(found: &Similarity) -> Sheet {
    let columns = ["pairs of an image with", "pairs", "mean", "5 %", "median", "95 %"];
    let rows = SIDES.iter().zip(&found.sides).map(|(name, side)| {
        let values = [side.mean(), side.quantile(0.05), side.quantile(0.5), side.quantile(0.95)];
        let values = values.map(|value| value.map_or_else(String::new, |value| format!("{value:.3}")));
        [(*name).to_owned(), side.count.to_string()].into_iter().chain(values).collect()
    });
    Sheet {
        title: "Caption similarity".to_owned(),
        columns: columns.map(str::to_owned).into(),
        texts: 1,
        rows: rows.collect(),
        note: format!(
            "φ(image, caption) is {} with the captions of the image as references, on words cut by {}; quantiles are \
             rounded down to a thousandth of the scale.",
            found.measure, found.tokenizer
        ),
    }
}

/// Pairs and graphs in Markdown.
pub(super) fn markdown(page: &mut String, content: &Content) -> fmt::Result {
    if let Some(found) = &content.similarity {
        for (title, pairs) in ENDS.iter().zip([&found.high, &found.low]) {
            if pairs.is_empty() {
                continue;
            }
            writeln!(page, "\n## {title}")?;
            for pair in pairs {
                writeln!(page, "\n**{}** (φ = {:.3}) with the captions\n", escaped(&pair.caption), pair.value)?;
                for reference in &pair.references {
                    writeln!(page, "- {}", escaped(reference))?;
                }
            }
        }
    }
    if !content.graphs.is_empty() {
        writeln!(page, "\n## Scene graphs\n")?;
        for graph in &content.graphs {
            writeln!(page, "- **{}**: {}", escaped(&graph.text), escaped(&graph.sentence()))?;
        }
    }
    Ok(())
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
