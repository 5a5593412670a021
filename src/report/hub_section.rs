//! Section of hubs: distributions of k-occurrences, recall by the λ of a relaxed matching, and the largest hubs.

use maud::Markup;
use plotters::coord::combinators::IntoLogRange;

use super::document::{PageBlock, Section};
use super::figure::Series::{A, B, Muted};
use super::figure::{Figure, LegendEntry, legend_entry};
use super::hubs::HubComparison;
use super::page_data::{DIRECTIONS, SummaryResults};
use super::plots::{Curve, axis_base, draw};
use super::read;
use super::table::{Cell, PageColumn, PageTable};
use pairloom_base::error::Result;

const NOTE: &str = "Nₖ (k-occurrence): number of queries that have the item among their first k. A hub has a large Nₖ, mostly of queries that \
     it does not match.";

/// Section of hubs.
pub(super) fn section(hubs: &HubComparison, results: &SummaryResults) -> Result<Section> {
    let mut figures = Vec::new();
    let mut ends = vec![hubs.cutoffs.first(), hubs.cutoffs.last()];
    ends.dedup();
    for (place, &k) in ends.into_iter().flatten().enumerate() {
        let among = if k == 1 { "first".to_owned() } else { format!("among their first {k}") };
        for (direction, found) in DIRECTIONS.iter().zip(&hubs.directions) {
            let title = format!("{}: items found by at least N queries {among}, percent", direction.name);
            let legend = [Muted, A]
                .into_iter()
                .zip(&hubs.methods)
                .map(|(series, method)| legend_entry(series, method))
                .collect();
            let plot = distribution(&found.shares[place], &occurrence_symbol(k))?;
            figures.extend(plot.map(|svg| Figure { title, legend, svg }));
        }
    }
    figures.extend(relaxations(results)?);
    let mut blocks = vec![PageBlock::Figures(figures)];
    for (direction, found) in DIRECTIONS.iter().zip(&hubs.directions).filter(|(_, found)| !found.hubs.is_empty()) {
        let mut table = PageTable::new(&["item"], &["matches"]);
        let counts = list(hubs.cutoffs.iter().map(|&k| occurrence_symbol(k)));
        table.columns.extend(hubs.methods.iter().map(|method| PageColumn::number(format!("{counts} by {method}"))));
        for hub in &found.hubs {
            let counts = hub.counts.iter().map(|counts| list(counts.iter().map(i64::to_string)));
            let numbers = [hub.matches.to_string()].into_iter().chain(counts);
            table.push([hub.item.clone().into()].into_iter().chain(numbers.map(Cell::from)));
        }
        blocks.extend([PageBlock::Heading(format!("{}: largest hubs", direction.name)), PageBlock::Table(table)]);
    }
    blocks.push(PageBlock::Note(NOTE.to_owned()));
    Ok(Section::new("Hubs", blocks))
}

/// Symbol of the k-occurrence, such as `N₁₀`.
fn occurrence_symbol(k: usize) -> String {
    let digit = |digit: char| digit.to_digit(10).and_then(|digit| char::from_u32(0x2080 + digit)).unwrap_or(digit);
    std::iter::once('N').chain(k.to_string().chars().map(digit)).collect()
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// Plots the share of items with at least N k-occurrences by N, on logarithmic axes.
fn distribution(shares: &[Vec<(f64, f64)>], name: &str) -> Result<Option<Markup>> {
    let points = || shares.iter().flatten();
    let most = points().map(|point| point.0).fold(1.0, f64::max);
    let least = points().map(|point| point.1).fold(100.0, f64::min);
    if points().count() < 2 || most <= 1.0 {
        return Ok(None);
    }
    let lines: Vec<Curve> =
        shares.iter().zip([Muted, A]).map(|(points, series)| Curve::new(points.clone(), series, 2)).collect();
    let x = (1.0..most * 1.05).log_scale().base(axis_base(most));
    let y = ((least / 1.5).min(50.0)..110.0).log_scale().base(10.0);
    draw(x, y, name, &lines, &[]).map(Some)
}

/// Plots the recalls of relaxed greedy matching by λ.
fn relaxations(results: &SummaryResults) -> Result<Option<Figure>> {
    let all = read::relaxations(&results.rows);
    let [first, .., last] = all.as_slice() else { return Ok(None) };
    let mut lines = Vec::new();
    for (side, series) in [A, B].into_iter().enumerate() {
        for place in 0..results.cutoffs.len() {
            let points = all.iter().map(|(lambda, recalls)| (*lambda, recalls[side][place])).collect();
            lines.push(Curve::new(points, series, [4, 2, 1].get(place).copied().unwrap_or(1)));
        }
    }
    let recalls = list(results.cutoffs.iter().map(|k| format!("R@{k}")));
    let mut legend = vec![legend_entry(A, DIRECTIONS[0].name), legend_entry(B, DIRECTIONS[1].name)];
    legend.push(LegendEntry { series: None, text: format!("from thick to thin: {recalls}") });
    let svg = draw((first.0..last.0).log_scale().base(2.0), 0.0..100.0, "λ", &lines, &[])?;
    Ok(Some(Figure { title: "Relaxed greedy matching: recall over λ, percent".to_owned(), legend, svg }))
}
