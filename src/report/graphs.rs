//! Section of example scene graphs, drawn with objects in a row, attributes below them, and relations as arcs.

use std::collections::HashMap;

use maud::{Markup, html};

use super::document::{Drawing, PageBlock, Section};
use pairloom_base::error::Result;
use pairloom_kernels::random::Rng;
use pairloom_stage::StageContext;
use pairloom_tables::{self as tables, scene_graphs::SceneGraphRow};

/// Caption and its scene graph.
#[derive(Debug, Clone, Default)]
struct CaptionGraph {
    caption_id: i64,
    text: String,
    graph: SceneGraphRow,
}

/// Section of `count` example graphs, if the table has a graph with a relation.
pub(super) fn section(cx: &mut StageContext<'_>, count: usize, seed: u64) -> Result<Option<Section>> {
    let mut graphs = read(cx, count, seed)?;
    texts(cx, &mut graphs)?;
    let drawings = graphs.into_iter().map(|CaptionGraph { text, graph, .. }| {
        let words = sentence(&graph);
        Drawing { text, svg: draw_graph(&graph, &words), plain_text: words }
    });
    let drawings: Vec<Drawing> = drawings.collect();
    Ok((!drawings.is_empty()).then(|| Section::new("Scene graphs", vec![PageBlock::Drawings(drawings)])))
}

/// Samples `count` graphs with a relation (Vitter, "Random sampling with a reservoir", 1985), ordered by `caption_id`.
fn read(cx: &mut StageContext<'_>, count: usize, seed: u64) -> Result<Vec<CaptionGraph>> {
    let mut kept: Vec<CaptionGraph> = Vec::new();
    let (mut rng, mut seen) = (Rng::new(seed, &[2]), 0);
    while let Some(batch) = cx.read_next("graphs")? {
        let ids = tables::int_column(&batch, "caption_id")?;
        for (row, graph) in tables::scene_graphs::rows(&batch)?.into_iter().enumerate() {
            if graph.relations.is_empty() {
                continue;
            }
            seen += 1;
            let place = if kept.len() < count { kept.len() } else { rng.uniform_below(seen) };
            if place >= count {
                continue;
            }
            let graph = CaptionGraph { caption_id: ids.value(row), text: String::new(), graph };
            if place == kept.len() { kept.push(graph) } else { kept[place] = graph }
        }
    }
    kept.sort_by_key(|graph| graph.caption_id);
    Ok(kept)
}

/// Fills in the texts of the captions.
fn texts(cx: &mut StageContext<'_>, graphs: &mut [CaptionGraph]) -> Result<()> {
    let mut shown: HashMap<i64, &mut CaptionGraph> = graphs.iter_mut().map(|graph| (graph.caption_id, graph)).collect();
    while let Some(batch) = cx.read_next("captions")? {
        let (ids, texts) = (tables::int_column(&batch, "caption_id")?, tables::text_column(&batch, "text")?);
        for row in 0..batch.num_rows() {
            if let Some(graph) = shown.get_mut(&ids.value(row)) {
                texts.value(row).clone_into(&mut graph.text);
            }
        }
    }
    Ok(())
}

/// Estimated width of a letter, in pixels.
const LETTER: f64 = 7.6;
/// Height of a line, in pixels.
const LINE: f64 = 18.0;
/// Space between objects, in pixels.
const GAP: f64 = 34.0;

/// Box of an object.
struct ObjectBox<'g> {
    name: &'g str,
    left: f64,
    width: f64,
    attributes: Vec<&'g str>,
}

impl ObjectBox<'_> {
    fn middle(&self) -> f64 {
        self.left + self.width / 2.0
    }
}

/// Draws a graph as SVG; `words` is its description for screen readers.
fn draw_graph(graph: &SceneGraphRow, words: &str) -> Markup {
    let mut nodes: Vec<ObjectBox<'_>> = Vec::new();
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
        nodes.push(ObjectBox { name, left, width, attributes });
        left += width + GAP;
    }
    let at = |name: &str| nodes.iter().position(|node| node.name == name);
    let mut arcs: Vec<(usize, usize, &str)> = Vec::new();
    for [subject, relation, object] in &graph.relations {
        if let (Some(from), Some(to)) = (at(subject), at(object)) {
            arcs.push((from, to, relation));
        }
    }
    // Short arcs lie below long ones. Every arc has a height of its own, so that labels do not overlap.
    arcs.sort_by_key(|&(from, to, _)| from.abs_diff(to));
    let levels = arcs.len();
    let base = 14.0 + LINE * 1.5 * to_f64(levels);
    let most = nodes.iter().map(|node| node.attributes.len()).max().unwrap_or(0);
    let labels = arcs.iter().map(|&(from, to, label)| {
        f64::midpoint(nodes[from].middle(), nodes[to].middle()) + text_width(label.chars().count()) / 2.0 + 8.0
    });
    let width = labels.fold(left - GAP + 4.0, f64::max);
    let height = base + 30.0 + LINE * to_f64(most) + 8.0;
    html! {
        svg viewBox=(format!("0 0 {width:.0} {height:.0}")) style=(format!("max-width: {width:.0}px")) role="img" aria-label=(words) {
            @for (level, (from, to, label)) in arcs.iter().enumerate() {
                (arc(&nodes[*from], &nodes[*to], label, base, base - 8.0 - LINE * 1.5 * to_f64(level + 1)))
            }
            @for node in &nodes {
                rect.node x=(node.left) y=(base) width=(node.width) height="26" rx="6" {}
                text x=(node.middle()) y=(base + 18.0) text-anchor="middle" font-size="14" { (node.name) }
                @for (line, attribute) in node.attributes.iter().enumerate() {
                    text.attribute x=(node.middle()) y=(base + 28.0 + LINE * to_f64(line + 1)) text-anchor="middle" font-size="13" { (attribute) }
                }
            }
        }
    }
}

fn arc(from: &ObjectBox<'_>, to: &ObjectBox<'_>, label: &str, base: f64, top: f64) -> Markup {
    // An arc to the right starts right of the middle of a box and ends left of it; an arc to the left is mirrored.
    let side = if from.left <= to.left { 7.0 } else { -7.0 };
    let (start, end) = (from.middle() + side, to.middle() - side);
    let path = format!("M{start:.1},{base:.1} C{start:.1},{top:.1} {end:.1},{top:.1} {end:.1},{base:.1}");
    let head = format!("{end:.1},{base:.1} {:.1},{:.1} {:.1},{:.1}", end - 4.0, base - 8.0, end + 4.0, base - 8.0);
    // The top of this cubic Bézier curve is at three quarters of the height of its control points.
    let y = base - 0.75 * (base - top);
    html! {
        path.relation d=(path) fill="none" {}
        polygon.head points=(head) {}
        text.label x=(f64::midpoint(start, end)) y=(format!("{:.1}", y - 4.0)) text-anchor="middle" font-size="13" { (label) }
    }
}

/// Describes a graph in words.
fn sentence(graph: &SceneGraphRow) -> String {
    let attributes = graph.attributes.iter().map(|[object, attribute]| format!("{object} is {attribute}"));
    let relations = graph.relations.iter().map(|[subject, relation, object]| format!("{subject} {relation} {object}"));
    attributes.chain(relations).collect::<Vec<_>>().join("; ")
}

fn text_width(letters: usize) -> f64 {
    LETTER * to_f64(letters)
}

#[expect(clippy::cast_precision_loss, reason = "letters and lines are few")]
fn to_f64(count: usize) -> f64 {
    count as f64
}
