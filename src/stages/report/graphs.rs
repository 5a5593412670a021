//! Scene graphs of a few captions, read from a table and drawn: objects in a row, attributes below, relations as arcs.

use std::collections::HashMap;

use maud::{Markup, html};

use super::document::{Block, Section};
use super::figure::Drawing;
use crate::error::Result;
use crate::kernels::sample::Sample;
use crate::stage::Cx;
use crate::tables::{self, scene_graphs::Row};

/// A caption and its graph.
#[derive(Debug, Clone, Default)]
struct Graph {
    caption_id: i64,
    text: String,
    graph: Row,
}

/// The section of some graphs, where there is one.
///
/// # Errors
/// A column is missing.
pub(super) fn section(cx: &mut Cx<'_>, count: usize, seed: u64) -> Result<Option<Section>> {
    let mut graphs = read(cx, count, seed)?;
    texts(cx, &mut graphs)?;
    let drawings = graphs.into_iter().map(|Graph { text, graph, .. }| {
        let words = sentence(&graph);
        Drawing { text, svg: picture(&graph, &words), words }
    });
    let drawings: Vec<Drawing> = drawings.collect();
    Ok((!drawings.is_empty()).then(|| Section::new("Scene graphs", vec![Block::Drawings(drawings)])))
}

/// Draws `count` graphs that have a relation, in the order of the table (Vitter, "Random sampling with a reservoir", 1985).
fn read(cx: &mut Cx<'_>, count: usize, seed: u64) -> Result<Vec<Graph>> {
    let mut kept: Vec<Graph> = Vec::new();
    let (mut sample, mut seen) = (Sample::new(seed, &[2]), 0);
    while let Some(batch) = cx.next("graphs")? {
        let ids = tables::ids(&batch, "caption_id")?;
        for (row, graph) in tables::scene_graphs::rows(&batch)?.into_iter().enumerate() {
            if graph.relations.is_empty() {
                continue;
            }
            seen += 1;
            let place = if kept.len() < count { kept.len() } else { sample.below(seen) };
            if place >= count {
                continue;
            }
            let graph = Graph { caption_id: ids.value(row), text: String::new(), graph };
            if place == kept.len() { kept.push(graph) } else { kept[place] = graph }
        }
    }
    kept.sort_by_key(|graph| graph.caption_id);
    Ok(kept)
}

/// Fills in the captions of the graphs.
fn texts(cx: &mut Cx<'_>, graphs: &mut [Graph]) -> Result<()> {
    let mut wanted: HashMap<i64, &mut Graph> = graphs.iter_mut().map(|graph| (graph.caption_id, graph)).collect();
    while let Some(batch) = cx.next("captions")? {
        let (ids, texts) = (tables::ids(&batch, "caption_id")?, tables::texts(&batch, "text")?);
        for row in 0..batch.num_rows() {
            if let Some(graph) = wanted.get_mut(&ids.value(row)) {
                texts.value(row).clone_into(&mut graph.text);
            }
        }
    }
    Ok(())
}

/// Width of a letter, height of a line, in pixels: an estimate that suits most fonts.
const LETTER: f64 = 7.6;
const LINE: f64 = 18.0;
/// Space between objects.
const GAP: f64 = 34.0;

/// An object's box.
struct Node<'g> {
    name: &'g str,
    left: f64,
    width: f64,
    attributes: Vec<&'g str>,
}

impl Node<'_> {
    fn middle(&self) -> f64 {
        self.left + self.width / 2.0
    }
}

/// The picture of a graph, described in words.
fn picture(graph: &Row, words: &str) -> Markup {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    let mut left = 4.0;
    for name in &graph.objects {
        let attributes: Vec<&str> = graph
            .attributes
            .iter()
            .filter(|[object, _]| object == name)
            .map(|[_, attribute]| attribute.as_str())
            .collect();
        let longest = attributes.iter().map(|a| a.chars().count()).chain([name.chars().count()]).max().unwrap_or(1);
        let width = text_width(longest) + 20.0;
        nodes.push(Node { name, left, width, attributes });
        left += width + GAP;
    }
    let at = |name: &str| nodes.iter().position(|node| node.name == name);
    let mut arcs: Vec<(usize, usize, &str)> = Vec::new();
    for [subject, relation, object] in &graph.relations {
        if let (Some(from), Some(to)) = (at(subject), at(object)) {
            arcs.push((from, to, relation));
        }
    }
    // Arcs over few objects lie below those over many; each has a height of its own, so that labels do not meet.
    arcs.sort_by_key(|&(from, to, _)| from.abs_diff(to));
    let levels = arcs.len();
    let base = 14.0 + LINE * 1.5 * f64_of(levels);
    let most = nodes.iter().map(|node| node.attributes.len()).max().unwrap_or(0);
    let labels = arcs.iter().map(|&(from, to, label)| {
        f64::midpoint(nodes[from].middle(), nodes[to].middle()) + text_width(label.chars().count()) / 2.0 + 8.0
    });
    let width = labels.fold(left - GAP + 4.0, f64::max);
    let height = base + 30.0 + LINE * f64_of(most) + 8.0;
    html! {
        svg viewBox=(format!("0 0 {width:.0} {height:.0}")) style=(format!("max-width: {width:.0}px")) role="img" aria-label=(words) {
            @for (level, (from, to, label)) in arcs.iter().enumerate() {
                (arc(&nodes[*from], &nodes[*to], label, base, base - 8.0 - LINE * 1.5 * f64_of(level + 1)))
            }
            @for node in &nodes {
                rect.node x=(node.left) y=(base) width=(node.width) height="26" rx="6" {}
                text x=(node.middle()) y=(base + 18.0) text-anchor="middle" font-size="14" { (node.name) }
                @for (line, attribute) in node.attributes.iter().enumerate() {
                    text.attribute x=(node.middle()) y=(base + 28.0 + LINE * f64_of(line + 1)) text-anchor="middle" font-size="13" { (attribute) }
                }
            }
        }
    }
}

fn arc(from: &Node<'_>, to: &Node<'_>, label: &str, base: f64, top: f64) -> Markup {
    // Arcs leave to the right of the middle and arrive to the left of it, or the other way round.
    let side = if from.left <= to.left { 7.0 } else { -7.0 };
    let (start, end) = (from.middle() + side, to.middle() - side);
    let path = format!("M{start:.1},{base:.1} C{start:.1},{top:.1} {end:.1},{top:.1} {end:.1},{base:.1}");
    let head = format!("{end:.1},{base:.1} {:.1},{:.1} {:.1},{:.1}", end - 4.0, base - 8.0, end + 4.0, base - 8.0);
    // A cubic curve reaches three quarters of the way to its control points.
    let y = base - 0.75 * (base - top);
    html! {
        path.relation d=(path) fill="none" {}
        polygon.head points=(head) {}
        text.label x=(f64::midpoint(start, end)) y=(format!("{:.1}", y - 4.0)) text-anchor="middle" font-size="13" { (label) }
    }
}

/// The graph in words, for those who do not see it.
fn sentence(graph: &Row) -> String {
    let attributes = graph.attributes.iter().map(|[object, attribute]| format!("{object} is {attribute}"));
    let relations = graph.relations.iter().map(|[subject, relation, object]| format!("{subject} {relation} {object}"));
    attributes.chain(relations).collect::<Vec<_>>().join("; ")
}

fn text_width(letters: usize) -> f64 {
    LETTER * f64_of(letters)
}

#[expect(clippy::cast_precision_loss, reason = "letters and lines are few")]
fn f64_of(count: usize) -> f64 {
    count as f64
}
