//! Key figures and table of the results.

use super::document::{PageBlock, Section};
use super::page_data::{DIRECTIONS, ResultRow, SummaryResults, one_decimal};
use super::table::{Cell, PageColumn, PageColumnKind, PageRow, PageTable};
use super::text::Span::{Code, Plain};

/// Opening blocks of the page: pool and key figures of the first result.
pub(super) fn intro(results: &SummaryResults) -> Vec<PageBlock> {
    let Some(row) = results.rows.first() else { return Vec::new() };
    let pool = format!(": {} images, {} captions in the pool.", row.n_images, row.n_captions);
    let protocol = [Plain("Protocol ".to_owned()), Code(row.protocol.clone())];
    let method = [Plain(", method ".to_owned()), Code(row.method.clone()), Plain(pool)];
    let chance = row.chance(&results.cutoffs);
    let number = |value: f64, chance: Option<f64>| Cell {
        small: chance.map(|chance| format!("chance {}", one_decimal(chance))),
        ..one_decimal(value).into()
    };
    let first = results.cutoffs.first().copied().unwrap_or(1);
    let mut numbers = vec![("rsum".to_owned(), number(row.rsum, chance.as_ref().map(|chance| chance.rsum)))];
    for (side, direction) in DIRECTIONS.iter().enumerate() {
        let chance = chance.as_ref().map(|chance| chance.directions[side].recalls[0]);
        numbers.push((format!("{} R@{first}", direction.name), number(row.directions[side].recalls[0], chance)));
    }
    vec![PageBlock::Intro(protocol.into_iter().chain(method).collect()), PageBlock::Numbers(numbers)]
}

/// Section of all results. After the rows of a protocol comes a row of the expected results by chance.
pub(super) fn section(results: &SummaryResults) -> Section {
    let mut table = PageTable::new(&["protocol", "method"], &[]);
    for group in DIRECTIONS {
        let names = results.cutoffs.iter().map(|k| format!("R@{k}"));
        table.group(group, names.chain(["med r".to_owned(), "mean r".to_owned()]));
    }
    table
        .columns
        .extend([PageColumn { kind: PageColumnKind::Sum, ..PageColumn::number("rsum") }, PageColumn::number("hs-sum")]);
    for (number, row) in results.rows.iter().enumerate() {
        table.push(result_cells(row));
        let last = results.rows[number + 1..].iter().all(|later| later.protocol != row.protocol);
        if let Some(chance) = row.chance(&results.cutoffs).filter(|_| last) {
            table.rows.push(PageRow { cells: result_cells(&chance), muted: true });
        }
    }
    let mut note = NOTE.to_owned();
    note.push_str(" In small print or brackets: images × captions of the pool.");
    if results.rows.iter().any(|row| row.intervals.iter().flatten().any(Option::is_some)) {
        note.push_str(" So is the 95 % confidence interval of a recall: Wilson's, and for captions that of the bootstrap over images.");
    }
    if results.rows.iter().any(|row| row.transductive) {
        note.push_str(" Transductive: the method uses all test queries together.");
    }
    Section::new("Results", vec![PageBlock::Table(table), PageBlock::Note(note)])
}

const NOTE: &str = "R@K: percentage of queries whose best match is among the first K items. med r, mean r: median and mean rank, from \
     1. rsum: sum of the recalls. hs-sum: sum of the skewness of hubs at the same K, both ways. Chance: a random order \
     of the same pool.";

fn result_cells(row: &ResultRow) -> Vec<Cell> {
    let method = format!("{}{}", row.method, if row.transductive { " (transductive)" } else { "" });
    let pool = Some(format!("{} × {}", row.n_images, row.n_captions));
    let mut cells = vec![Cell { small: pool, ..row.protocol.clone().into() }, method.into()];
    for (direction, intervals) in row.directions.iter().zip(&row.intervals) {
        for (number, &recall) in direction.recalls.iter().enumerate() {
            let interval = intervals.get(number).copied().flatten();
            let small = interval.map(|(low, high)| format!("{}–{}", one_decimal(low), one_decimal(high)));
            cells.push(Cell { small, ..one_decimal(recall).into() });
        }
        cells.extend([direction.medr, direction.meanr].map(|rank| one_decimal(rank).into()));
    }
    let hs_sum = if row.hs_sum.is_nan() { String::new() } else { format!("{:.2}", row.hs_sum) };
    cells.extend([one_decimal(row.rsum), hs_sum].map(Cell::from));
    cells
}
