//! The section of caption similarity: the distribution of φ, and pairs at its ends.

use plotters::coord::combinators::IntoLogRange;

use super::card::{Card, Grade, Item, List};
use super::document::{Block, Section};
use super::figure::Series::{A, B};
use super::figure::{Figure, key};
use super::plots::{Line, draw, span};
use super::similarity::{Pair, Similarity};
use super::table::Table;
use super::text::Span::{Plain, Strong};
use crate::error::Result;

/// Names of the two kinds of pairs.
const SIDES: [&str; 2] = ["captions of the image itself", "captions of other images"];

/// The section.
pub(super) fn section(found: &Similarity) -> Result<Section> {
    let mut table = Table::new(&["pairs of an image with"], &["pairs", "mean", "5 %", "median", "95 %"]);
    for (name, side) in SIDES.iter().zip(&found.sides) {
        let values = [side.mean(), side.quantile(0.05), side.quantile(0.5), side.quantile(0.95)];
        let values = values.map(|value| value.map_or_else(String::new, |value| format!("{value:.3}")));
        table.push([(*name).to_owned(), side.count.to_string()].into_iter().chain(values));
    }
    let note = format!(
        "φ(image, caption) is {} with the captions of the image as references, on words cut by {}; quantiles are \
         rounded down to a thousandth of the scale.",
        found.measure, found.tokenizer
    );
    let mut blocks = vec![Block::Table(table), Block::Note(note)];
    blocks.extend(distribution(found)?.map(|figure| Block::Figures(vec![figure])));
    for (title, grade, pairs) in [
        ("Captions of other images with the largest φ", Grade::Middling, &found.high),
        ("Captions of the image itself with the smallest φ", Grade::Bad, &found.low),
    ] {
        if !pairs.is_empty() {
            let cards = pairs.iter().map(|pair| card(grade, pair)).collect();
            blocks.extend([Block::Heading(title.to_owned()), Block::Cards(cards)]);
        }
    }
    Ok(Section::new(format!("Caption similarity: {}", found.measure), blocks))
}

/// Shares of pairs over φ, percent on a logarithmic axis.
fn distribution(found: &Similarity) -> Result<Option<Figure>> {
    let [own, others] = found.curves();
    let points = || own.iter().chain(&others);
    if points().count() < 2 {
        return Ok(None);
    }
    // Empty bins lie on the axis.
    let least = points().map(|p| p.1).filter(|&share| share > 0.0).fold(100.0, f64::min) / 2.0;
    let above = |points: &[(f64, f64)]| points.iter().map(|p| (p.0, p.1.max(least))).collect::<Vec<_>>();
    let lines = [Line::new(above(&others), B, 2), Line::new(above(&own), A, 2)];
    let x = span(points().map(|p| p.0).chain([0.0]));
    let lines: Vec<Line> = lines.into_iter().filter(|line| !line.points.is_empty()).collect();
    let svg = draw(x.0..x.1, (least..100.0).log_scale().base(10.0), "φ", &lines, &[])?;
    let legend = vec![key(A, SIDES[0]), key(B, SIDES[1])];
    Ok(Some(Figure { title: "Distribution of φ, percent of pairs".to_owned(), legend, svg }))
}

fn card(grade: Grade, pair: &Pair) -> Card {
    let value = Strong(format!("{:.3}", pair.value));
    let item = |text: &String| Item { label: text.into(), score: None, right: false };
    Card {
        grade,
        heading: pair.caption.clone().into(),
        verdict: vec![Plain("φ = ".to_owned()), value, Plain(" with the captions".to_owned())],
        lists: vec![List { title: None, ordered: false, items: pair.references.iter().map(item).collect() }],
    }
}
