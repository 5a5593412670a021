//! The results: the numbers that people look for first, and the table of all.

use super::document::{Block, Section};
use super::elements::{DIRECTIONS, ResultRow, Results, tenth};
use super::table::{Cell, Column, Kind, Row, Table};
use super::text::Span::{Code, Plain};

/// The opening of the page: the pool, and the largest numbers of the first row.
pub(super) fn lead(results: &Results) -> Vec<Block> {
    let Some(row) = results.rows.first() else { return Vec::new() };
    let pool = format!(": {} images, {} captions in the pool.", row.n_images, row.n_captions);
    let protocol = [Plain("Protocol ".to_owned()), Code(row.protocol.clone())];
    let method = [Plain(", method ".to_owned()), Code(row.method.clone()), Plain(pool)];
    let chance = row.chance(&results.cutoffs);
    let number = |value: f64, chance: Option<f64>| Cell {
        small: chance.map(|chance| format!("chance {}", tenth(chance))),
        ..tenth(value).into()
    };
    let first = results.cutoffs.first().copied().unwrap_or(1);
    let mut numbers = vec![("rsum".to_owned(), number(row.rsum, chance.as_ref().map(|chance| chance.rsum)))];
    for (side, direction) in DIRECTIONS.iter().enumerate() {
        let chance = chance.as_ref().map(|chance| chance.directions[side].recalls[0]);
        numbers.push((format!("{} R@{first}", direction.name), number(row.directions[side].recalls[0], chance)));
    }
    vec![Block::Lead(protocol.into_iter().chain(method).collect()), Block::Numbers(numbers)]
}

/// The section of all rows, and after those of a pool what chance gives there.
pub(super) fn section(results: &Results) -> Section {
    let mut table = Table::new(&["protocol", "method"], &[]);
    for group in DIRECTIONS {
        let names = results.cutoffs.iter().map(|k| format!("R@{k}"));
        table.group(group, names.chain(["med r".to_owned(), "mean r".to_owned()]));
    }
    table.columns.extend([Column { kind: Kind::Sum, ..Column::number("rsum") }, Column::number("hs-sum")]);
    for (number, row) in results.rows.iter().enumerate() {
        table.push(cells(row));
        let last = results.rows[number + 1..].iter().all(|later| later.protocol != row.protocol);
        if let Some(chance) = row.chance(&results.cutoffs).filter(|_| last) {
            table.rows.push(Row { cells: cells(&chance), muted: true });
        }
    }
    let mut note = NOTE.to_owned();
    note.push_str(" In small print or brackets: images × captions of the pool.");
    if results.rows.iter().any(|row| row.intervals.iter().flatten().any(Option::is_some)) {
        note.push_str(" So is the 95 % confidence interval (Wilson) of a recall, queries taken as independent.");
    }
    if results.rows.iter().any(|row| row.transductive) {
        note.push_str(" Transductive: the method saw the test queries together.");
    }
    Section::new("Results", vec![Block::Table(table), Block::Note(note)])
}

const NOTE: &str = "R@K: percentage of queries whose best match is among the first K items. med r, mean r: median and mean rank, from \
     1. rsum: sum of the recalls. hs-sum: sum of the skewness of hubs at the same K, both ways. Chance: a random order \
     of the same pool.";

fn cells(row: &ResultRow) -> Vec<Cell> {
    let method = format!("{}{}", row.method, if row.transductive { " (transductive)" } else { "" });
    let pool = Some(format!("{} × {}", row.n_images, row.n_captions));
    let mut cells = vec![Cell { small: pool, ..row.protocol.clone().into() }, method.into()];
    for (direction, intervals) in row.directions.iter().zip(&row.intervals) {
        for (number, &recall) in direction.recalls.iter().enumerate() {
            let interval = intervals.get(number).copied().flatten();
            let small = interval.map(|(low, high)| format!("{}–{}", tenth(low), tenth(high)));
            cells.push(Cell { small, ..tenth(recall).into() });
        }
        cells.extend([direction.medr, direction.meanr].map(|rank| tenth(rank).into()));
    }
    let hs_sum = if row.hs_sum.is_nan() { String::new() } else { format!("{:.2}", row.hs_sum) };
    cells.extend([tenth(row.rsum), hs_sum].map(Cell::from));
    cells
}
