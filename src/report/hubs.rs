//! Section of hubs of two methods: distributions of k-occurrences, recall by the λ of a relaxed matching, and the largest
//! hubs.

use std::collections::{BTreeMap, HashMap, HashSet};

use maud::Markup;
use plotters::coord::combinators::IntoLogRange;

use super::document::Series::{A, B, Muted};
use super::document::{Cell, Figure, LegendEntry, PageBlock, PageColumn, PageLabel, PageTable, Section, legend_entry};
use super::item_labels::ItemLabels;
use super::page_data::{self, DIRECTIONS, ResultRow, SummaryResults};
use super::plots::{Curve, axis_base, draw};
use pairloom_base::error::{Error, Result};
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Number of hubs shown in each direction.
const SHOWN_HUBS: usize = 6;

/// k-occurrences of items under the first method of the results, and under the best of the other methods.
#[derive(Debug)]
pub(super) struct HubComparison {
    /// Cut-offs, ascending.
    pub(super) cutoffs: Vec<usize>,
    /// One or two methods.
    pub(super) methods: Vec<String>,
    /// Captions retrieved by images, and images retrieved by captions.
    pub(super) directions: [DirectionHubs; 2],
}

/// Items of a direction.
#[derive(Debug, Default)]
pub(super) struct DirectionHubs {
    /// Distribution of k-occurrences at the first and at the last cut-off, for each method: (N, percentage of items
    /// that at least N queries have among their first k).
    pub(super) shares: [Vec<Vec<(f64, f64)>>; 2],
    /// Largest hubs of the first method.
    pub(super) hubs: Vec<Hub>,
}

/// Item with many k-occurrences.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) item: PageLabel,
    /// k-occurrences by method and cut-off.
    pub(super) counts: Vec<Vec<i64>>,
    /// Number of queries that the item matches.
    pub(super) matches: i64,
}

/// Matching queries, and k-occurrences by method and cut-off, of every (fold, item).
type HubCounts = BTreeMap<(i64, i64), (i64, Vec<Vec<i64>>)>;

/// Reads the hubs of the first protocol of the results.
///
/// # Errors
/// A table cannot be read. An image that cannot be decoded is a warning.
pub(super) fn read(
    cx: &mut StageContext<'_>,
    results: &[ResultRow],
    labels: &mut ItemLabels,
) -> Result<Option<HubComparison>> {
    let Some(first) = results.first() else { return Ok(None) };
    let others = results.iter().filter(|row| row.protocol == first.protocol && row.method != first.method);
    let best = others.reduce(|best, row| if row.rsum > best.rsum { row } else { best });
    let methods: Vec<String> = [Some(first), best].into_iter().flatten().map(|row| row.method.clone()).collect();
    let mut counts = [HubCounts::new(), HubCounts::new()];
    let mut cutoffs = Vec::new();
    while let Some(batch) = cx.read_next("hubs")? {
        let (protocols, directions) =
            (tables::text_column(&batch, "protocol")?, tables::text_column(&batch, "direction")?);
        let number = |name: &str| tables::int_column(&batch, name);
        let (folds, items, matches) = (number("fold")?, number("item_id")?, number("n_matches")?);
        cutoffs = tables::hubs::cutoffs(&batch.schema());
        if cutoffs.is_empty() {
            return Err(Error::data("`hubs` has no counts, expected a column such as `n1`"));
        }
        let k_occurrences = cutoffs.iter().map(|k| number(&format!("n{k}"))).collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let direction = ["i2t", "t2i"].iter().position(|name| *name == directions.value(row));
            let name = page_data::method_of_row(&batch, row)?;
            let method = methods.iter().position(|method| *method == name);
            let (Some(direction), Some(method)) = (direction, method) else { continue };
            if protocols.value(row) != first.protocol {
                continue;
            }
            let new_entry = || (matches.value(row), vec![vec![0; cutoffs.len()]; methods.len()]);
            let entry = counts[direction].entry((folds.value(row), items.value(row))).or_insert_with(new_entry);
            entry.1[method] = k_occurrences.iter().map(|counts| counts.value(row)).collect();
        }
    }
    let largest: [Vec<_>; 2] = counts.each_ref().map(most_frequent);
    let shown = |direction: usize| -> HashSet<i64> { largest[direction].iter().map(|(id, ..)| *id).collect() };
    labels.read_captions(cx, &shown(0), &HashSet::new())?;
    labels.read_images(cx, &shown(1))?;
    let mut directions = counts.each_ref().map(|counts| DirectionHubs {
        shares: [0, cutoffs.len().saturating_sub(1)].map(|k| shares(counts, methods.len(), k)),
        hubs: vec![],
    });
    for (direction, largest) in largest.into_iter().enumerate() {
        let hub = |(id, matches, counts): (i64, i64, Vec<Vec<i64>>)| {
            let item = if direction == 0 { labels.caption(id) } else { labels.image(id) };
            Hub { item, counts, matches }
        };
        directions[direction].hubs = largest.into_iter().map(hub).collect();
    }
    Ok(Some(HubComparison { cutoffs, methods, directions }))
}

/// Items with the most k-occurrences under the first method at the last cut-off.
fn most_frequent(counts: &HubCounts) -> Vec<(i64, i64, Vec<Vec<i64>>)> {
    let mut all: Vec<_> = counts.iter().map(|(&(_, id), (matches, counts))| (id, *matches, counts.clone())).collect();
    all.sort_by_key(|(id, _, counts)| (std::cmp::Reverse(counts.first().and_then(|first| first.last().copied())), *id));
    all.truncate(SHOWN_HUBS);
    all
}

/// Distribution of k-occurrences by method: (N, percentage of items with at least N). `k` is the index of the cut-off.
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
fn shares(counts: &HubCounts, methods: usize, k: usize) -> Vec<Vec<(f64, f64)>> {
    let share = |method: usize| {
        let mut histogram: HashMap<i64, usize> = HashMap::new();
        for (_, counts) in counts.values() {
            *histogram.entry(counts[method][k]).or_default() += 1;
        }
        let mut numbers: Vec<(i64, usize)> = histogram.into_iter().filter(|&(number, _)| number > 0).collect();
        numbers.sort_unstable();
        let mut above: usize = numbers.iter().map(|(_, items)| items).sum();
        let mut points = Vec::with_capacity(numbers.len());
        for (number, items) in numbers {
            points.push((number as f64, 100.0 * above as f64 / counts.len() as f64));
            above -= items;
        }
        points
    };
    (0..methods).map(share).collect()
}

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
    let all = page_data::relaxations(&results.rows);
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
