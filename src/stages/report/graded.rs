//! Measures beside recall, of `metrics`: what else is relevant, and how much of it was found.

use std::collections::BTreeSet;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;

use super::document::{Block, Section};
use super::elements::{DIRECTIONS, tenth};
use super::read;
use super::table::{Column, Table};
use crate::error::Result;
use crate::stage::Cx;
use crate::tables;

/// Measures shown, and what people call them. The others are variants of these, and left to SQL.
const SHOWN: [(&str, &str); 8] = [
    ("recall", "recall, one hit"),
    ("set_recall", "set recall"),
    ("semantic_recall", "Semantic Recall"),
    ("ncs", "NCS"),
    ("nsum", "NCS"),
    ("map_at_r", "mAP@R"),
    ("mrr", "MRR"),
    ("r_precision", "R-precision"),
];

/// A row of the page: its texts, and its numbers by direction and cut-off.
struct Line {
    texts: [String; 4],
    values: Vec<(String, Option<i64>, f64)>,
}

/// Two sections of `metrics`: measures with cut-offs and measures without. Recall of the queries' own matches stands among
/// the results already.
pub(super) fn sections(cx: &mut Cx<'_>) -> Result<Vec<Section>> {
    let (mut with, mut without): (Vec<Line>, Vec<Line>) = (Vec::new(), Vec::new());
    while let Some(batch) = cx.next("metrics")? {
        let (k, values) = (tables::ids(&batch, "k")?, tables::numbers(&batch, "value")?);
        for row in 0..batch.num_rows() {
            let measure = tables::texts(&batch, "measure")?.value(row);
            let relevance = text(&batch, "relevance", row)?;
            let Some((_, name)) = SHOWN.iter().find(|(shown, _)| *shown == measure) else { continue };
            if relevance.is_none() && measure == "recall" {
                continue;
            }
            let cut = k.is_valid(row) || measure == "nsum";
            let lines = if cut { &mut with } else { &mut without };
            let texts = [
                tables::texts(&batch, "protocol")?.value(row).to_owned(),
                read::method(&batch, row)?,
                relevance.unwrap_or_else(|| "own matches".to_owned()),
                format!("{name}{}", suffix(&batch, row)?),
            ];
            let direction = tables::texts(&batch, "direction")?.value(row).to_owned();
            let value = (direction, k.is_valid(row).then(|| k.value(row)), values.value(row));
            match lines.iter_mut().find(|line| line.texts == texts) {
                Some(line) => line.values.push(value),
                None => lines.push(Line { texts, values: vec![value] }),
            }
        }
    }
    let cutoffs: BTreeSet<i64> = with.iter().flat_map(|line| line.values.iter().filter_map(|value| value.1)).collect();
    let both = |k: Option<i64>| [("i2t", k), ("t2i", k)];
    let mut at: Vec<_> = both(None).iter().flat_map(|(side, _)| cutoffs.iter().map(|&k| (*side, Some(k)))).collect();
    at.push(("both", None));
    let texts = ["protocol", "method", "relevant", "measure"];
    let mut table = Table::new(&texts, &[]);
    for group in DIRECTIONS {
        table.group(group, cutoffs.iter().map(|k| format!("@{k}")));
    }
    table.columns.push(Column::number("sum"));
    let whole = Table::new(&texts, &DIRECTIONS.map(|direction| direction.short));
    let sections = [
        section("Relevance beyond one hit", table, &with, &at, NOTE),
        section("Relevance as a whole", whole, &without, &both(None), NOTE_OF_SETS),
    ];
    Ok(sections.into_iter().flatten().collect())
}

const NOTE: &str = "Percent. Set recall: share of the relevant items among the first K. Semantic Recall: the same of the m \
                    neighbours with the largest φ (paper), or of the items of m neighbouring images (official). NCS: φ of \
                    what was found over φ of what could be found. (N): the query's own matches are deleted. Sum: of NCS at \
                    all K in both directions.";
const NOTE_OF_SETS: &str = "Percent. R is the number of relevant items: a query's own matches, its m neighbours with the \
                            largest φ, or what people rated high enough. MRR: mean of one over the rank of the \
                            best match.";

/// The section of these lines, with the values at directions and cut-offs; none without lines.
fn section(title: &str, mut table: Table, lines: &[Line], at: &[(&str, Option<i64>)], note: &str) -> Option<Section> {
    for line in lines {
        let value = |(direction, k): &(&str, Option<i64>)| {
            let found = line.values.iter().find(|value| value.0 == *direction && value.1 == *k);
            found.map_or_else(String::new, |value| tenth(value.2))
        };
        table.push(line.texts.iter().cloned().chain(at.iter().map(value)));
    }
    (!lines.is_empty()).then(|| Section::new(title, vec![Block::Table(table), Block::Note(note.to_owned())]))
}

/// The part of a name that tells two rows of a measure apart: ` (N), paper, m = 5`.
fn suffix(batch: &RecordBatch, row: usize) -> Result<String> {
    let mut suffix = String::new();
    let kept = batch.column_by_name("ground_truth").and_then(|column| column.as_boolean_opt());
    if kept.is_some_and(|kept| kept.is_valid(row) && !kept.value(row)) {
        suffix.push_str(" (N)");
    }
    // The cut-offs of a sum are those of the row that it stands in.
    let variant = text(batch, "variant", row)?.unwrap_or_default();
    let variant = variant.split("at ").next().unwrap_or_default().trim_end();
    if !variant.is_empty() {
        suffix.push_str(", ");
        suffix.push_str(variant);
    }
    let m = batch.column_by_name("m").and_then(|column| column.as_primitive_opt::<Int64Type>());
    if let Some(m) = m.filter(|m| m.is_valid(row)) {
        suffix.push_str(&format!(", m = {}", m.value(row)));
    }
    Ok(suffix)
}

fn text(batch: &RecordBatch, name: &str, row: usize) -> Result<Option<String>> {
    let column = tables::texts(batch, name)?;
    Ok(column.is_valid(row).then(|| column.value(row).to_owned()))
}
