//! The section of hubs: distributions, recall over the relaxation of a matching, and the items that are found most.

use maud::Markup;
use plotters::coord::combinators::IntoLogRange;

use super::document::{Block, Section};
use super::elements::{DIRECTIONS, Results};
use super::figure::Series::{A, B, Muted};
use super::figure::{Figure, Key, key};
use super::hubs::Hubs;
use super::plots::{Line, base, draw};
use super::read;
use super::table::{Cell, Column, Table};
use crate::error::Result;

const NOTE: &str =
    "Nₖ: in how many queries' lists of the first k an item is. A hub is in many lists, of which few are right.";

/// The section.
pub(super) fn section(hubs: &Hubs, results: &Results) -> Result<Section> {
    let mut figures = Vec::new();
    let mut ends = vec![hubs.cutoffs.first(), hubs.cutoffs.last()];
    ends.dedup();
    for (place, &k) in ends.into_iter().flatten().enumerate() {
        let among = if k == 1 { "first".to_owned() } else { format!("among their first {k}") };
        for (direction, found) in DIRECTIONS.iter().zip(&hubs.directions) {
            let title = format!("{}: items found by at least N queries {among}, percent", direction.name);
            let legend =
                [Muted, A].into_iter().zip(&hubs.methods).map(|(series, method)| key(series, method)).collect();
            let plot = distribution(&found.shares[place], &occurrence(k))?;
            figures.extend(plot.map(|svg| Figure { title, legend, svg }));
        }
    }
    figures.extend(relaxations(results)?);
    let mut blocks = vec![Block::Figures(figures)];
    for (direction, found) in DIRECTIONS.iter().zip(&hubs.directions).filter(|(_, found)| !found.hubs.is_empty()) {
        let mut table = Table::new(&["item"], &["matches"]);
        let counts = list(hubs.cutoffs.iter().map(|&k| occurrence(k)));
        table.columns.extend(hubs.methods.iter().map(|method| Column::number(format!("{counts} by {method}"))));
        for hub in &found.hubs {
            let counts = hub.counts.iter().map(|counts| list(counts.iter().map(i64::to_string)));
            let numbers = [hub.own.to_string()].into_iter().chain(counts);
            table.push([hub.item.clone().into()].into_iter().chain(numbers.map(Cell::from)));
        }
        blocks.extend([Block::Heading(format!("{}: what is found most often", direction.name)), Block::Table(table)]);
    }
    blocks.push(Block::Note(NOTE.to_owned()));
    Ok(Section::new("Hubs", blocks))
}

/// `N₁₀`.
fn occurrence(k: usize) -> String {
    let digit = |digit: char| digit.to_digit(10).and_then(|digit| char::from_u32(0x2080 + digit)).unwrap_or(digit);
    std::iter::once('N').chain(k.to_string().chars().map(digit)).collect()
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// Shares of items over N, both on logarithmic axes.
fn distribution(shares: &[Vec<(f64, f64)>], name: &str) -> Result<Option<Markup>> {
    let points = || shares.iter().flatten();
    let most = points().map(|point| point.0).fold(1.0, f64::max);
    let least = points().map(|point| point.1).fold(100.0, f64::min);
    if points().count() < 2 || most <= 1.0 {
        return Ok(None);
    }
    let lines: Vec<Line> =
        shares.iter().zip([Muted, A]).map(|(points, series)| Line::new(points.clone(), series, 2)).collect();
    let x = (1.0..most * 1.05).log_scale().base(base(most));
    let y = ((least / 1.5).min(50.0)..110.0).log_scale().base(10.0);
    draw(x, y, name, &lines, &[]).map(Some)
}

/// Recalls of a matching over its relaxation.
fn relaxations(results: &Results) -> Result<Option<Figure>> {
    let all = read::relaxations(&results.rows);
    let [first, .., last] = all.as_slice() else { return Ok(None) };
    let mut lines = Vec::new();
    for (side, series) in [A, B].into_iter().enumerate() {
        for place in 0..results.cutoffs.len() {
            let points = all.iter().map(|(lambda, recalls)| (*lambda, recalls[side][place])).collect();
            lines.push(Line::new(points, series, [4, 2, 1].get(place).copied().unwrap_or(1)));
        }
    }
    let recalls = list(results.cutoffs.iter().map(|k| format!("R@{k}")));
    let mut legend = vec![key(A, DIRECTIONS[0].name), key(B, DIRECTIONS[1].name)];
    legend.push(Key { series: None, text: format!("from thick to thin: {recalls}") });
    let svg = draw((first.0..last.0).log_scale().base(2.0), 0.0..100.0, "λ", &lines, &[])?;
    Ok(Some(Figure { title: "Relaxed greedy matching: recall over λ, percent".to_owned(), legend, svg }))
}
