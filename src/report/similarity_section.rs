//! Section of caption similarity: distribution of φ, and its most extreme pairs.

use plotters::coord::combinators::IntoLogRange;

use super::card::{Card, CardItem, CardList, CardQuality};
use super::document::{PageBlock, Section};
use super::figure::Series::{A, B};
use super::figure::{Figure, legend_entry};
use super::plots::{Curve, draw, value_range};
use super::similarity::{ExtremePair, SimilaritySummary};
use super::table::PageTable;
use super::text::Span::{Plain, Strong};
use pairloom_base::error::Result;

/// Names of the two groups of pairs.
const GROUPS: [&str; 2] = ["captions of the image itself", "captions of other images"];

/// Section of caption similarity.
pub(super) fn section(similarity: &SimilaritySummary) -> Result<Section> {
    let mut table = PageTable::new(&["pairs of an image with"], &["pairs", "mean", "5 %", "median", "95 %"]);
    for (name, histogram) in GROUPS.iter().zip(&similarity.histograms) {
        let values = [histogram.mean(), histogram.quantile(0.05), histogram.quantile(0.5), histogram.quantile(0.95)];
        let values = values.map(|value| value.map_or_else(String::new, |value| format!("{value:.3}")));
        table.push([(*name).to_owned(), histogram.count.to_string()].into_iter().chain(values));
    }
    let note = format!(
        "φ(image, caption) is {} with the captions of the image as references, tokenizer {}; quantiles are \
         rounded down to a thousandth of the scale.",
        similarity.measure, similarity.tokenizer
    );
    let mut blocks = vec![PageBlock::Table(table), PageBlock::Note(note)];
    blocks.extend(distribution(similarity)?.map(|figure| PageBlock::Figures(vec![figure])));
    for (title, grade, pairs) in [
        ("Captions of other images with the largest φ", CardQuality::Middling, &similarity.high),
        ("Captions of the image itself with the smallest φ", CardQuality::Bad, &similarity.low),
    ] {
        if !pairs.is_empty() {
            let cards = pairs.iter().map(|pair| card(grade, pair)).collect();
            blocks.extend([PageBlock::Heading(title.to_owned()), PageBlock::Cards(cards)]);
        }
    }
    Ok(Section::new(format!("Caption similarity: {}", similarity.measure), blocks))
}

/// Plots the percentage of pairs by φ, on a logarithmic axis.
fn distribution(similarity: &SimilaritySummary) -> Result<Option<Figure>> {
    let [own, others] = similarity.curves();
    let points = || own.iter().chain(&others);
    if points().count() < 2 {
        return Ok(None);
    }
    // Empty bins are drawn on the axis.
    let least = points().map(|p| p.1).filter(|&share| share > 0.0).fold(100.0, f64::min) / 2.0;
    let above = |points: &[(f64, f64)]| points.iter().map(|p| (p.0, p.1.max(least))).collect::<Vec<_>>();
    let lines = [Curve::new(above(&others), B, 2), Curve::new(above(&own), A, 2)];
    let x = value_range(points().map(|p| p.0).chain([0.0]));
    let lines: Vec<Curve> = lines.into_iter().filter(|line| !line.points.is_empty()).collect();
    let svg = draw(x.0..x.1, (least..100.0).log_scale().base(10.0), "φ", &lines, &[])?;
    let legend = vec![legend_entry(A, GROUPS[0]), legend_entry(B, GROUPS[1])];
    Ok(Some(Figure { title: "Distribution of φ, percent of pairs".to_owned(), legend, svg }))
}

fn card(grade: CardQuality, pair: &ExtremePair) -> Card {
    let value = Strong(format!("{:.3}", pair.value));
    let item = |text: &String| CardItem { label: text.into(), score: None, is_match: false };
    Card {
        quality: grade,
        heading: pair.caption.clone().into(),
        result: vec![Plain("φ = ".to_owned()), value, Plain(" with the captions".to_owned())],
        lists: vec![CardList { title: None, ordered: false, items: pair.references.iter().map(item).collect() }],
    }
}
