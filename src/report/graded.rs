//! Sections of `metrics` other than recall: graded and binary relevance.

use std::collections::BTreeSet;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;

use super::document::{PageBlock, Section};
use super::page_data::{DIRECTIONS, one_decimal};
use super::read;
use super::table::{PageColumn, PageTable};
use pairloom_base::error::Result;
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Names of the measures that are shown, in `metrics` and on the page. Variants of them are available by SQL only.
const SHOWN_MEASURES: [(&str, &str); 8] = [
    ("recall", "recall, one hit"),
    ("set_recall", "set recall"),
    ("semantic_recall", "Semantic Recall"),
    ("ncs", "NCS"),
    ("nsum", "NCS"),
    ("map_at_r", "mAP@R"),
    ("mrr", "MRR"),
    ("r_precision", "R-precision"),
];

/// Row of a section: its text cells, and its values as (direction, cut-off, value).
struct MeasureRow {
    texts: [String; 4],
    values: Vec<(String, Option<i64>, f64)>,
}

/// Sections of the measures with cut-offs and of those without. Recall of the queries' own matches is omitted, as it is
/// among the results.
pub(super) fn sections(cx: &mut StageContext<'_>) -> Result<Vec<Section>> {
    let (mut with_cutoff, mut without_cutoff): (Vec<MeasureRow>, Vec<MeasureRow>) = (Vec::new(), Vec::new());
    while let Some(batch) = cx.read_next("metrics")? {
        let (k, values) = (tables::int_column(&batch, "k")?, tables::float_column(&batch, "value")?);
        for row in 0..batch.num_rows() {
            let measure = tables::text_column(&batch, "measure")?.value(row);
            let relevance = text(&batch, "relevance", row)?;
            let Some((_, name)) = SHOWN_MEASURES.iter().find(|(shown, _)| *shown == measure) else { continue };
            if relevance.is_none() && measure == "recall" {
                continue;
            }
            let has_cutoff = k.is_valid(row) || measure == "nsum";
            let lines = if has_cutoff { &mut with_cutoff } else { &mut without_cutoff };
            let texts = [
                tables::text_column(&batch, "protocol")?.value(row).to_owned(),
                read::method(&batch, row)?,
                relevance.unwrap_or_else(|| "own matches".to_owned()),
                format!("{name}{}", suffix(&batch, row)?),
            ];
            let direction = tables::text_column(&batch, "direction")?.value(row).to_owned();
            let value = (direction, k.is_valid(row).then(|| k.value(row)), values.value(row));
            match lines.iter_mut().find(|line| line.texts == texts) {
                Some(line) => line.values.push(value),
                None => lines.push(MeasureRow { texts, values: vec![value] }),
            }
        }
    }
    let cutoffs: BTreeSet<i64> =
        with_cutoff.iter().flat_map(|line| line.values.iter().filter_map(|value| value.1)).collect();
    let both = |k: Option<i64>| [("i2t", k), ("t2i", k)];
    let mut columns: Vec<_> =
        both(None).iter().flat_map(|(side, _)| cutoffs.iter().map(|&k| (*side, Some(k)))).collect();
    columns.push(("both", None));
    let texts = ["protocol", "method", "relevant", "measure"];
    let mut table = PageTable::new(&texts, &[]);
    for group in DIRECTIONS {
        table.group(group, cutoffs.iter().map(|k| format!("@{k}")));
    }
    table.columns.push(PageColumn::number("sum"));
    let whole = PageTable::new(&texts, &DIRECTIONS.map(|direction| direction.short));
    let sections = [
        section("Relevance beyond one hit", table, &with_cutoff, &columns, NOTE),
        section("Relevance as a whole", whole, &without_cutoff, &both(None), NOTE_OF_SETS),
    ];
    Ok(sections.into_iter().flatten().collect())
}

const NOTE: &str = "Percent. Set recall: share of the relevant items among the first K. Semantic Recall: the same of the m \
                    neighbours with the largest φ (paper), or of the items of m neighbouring images (official). NCS: φ of \
                    what was found over φ of what could be found. (N): the query's own matches are deleted. Sum: of NCS at \
                    all K in both directions.";
const NOTE_OF_SETS: &str = "Percent. R is the number of relevant items: a query's own matches, its m neighbours with the \
                            largest φ, or the items that people rated high or judged relevant. MRR: mean reciprocal rank of the \
                            best match.";

/// Section of `lines`, with a column for each (direction, cut-off) in `columns`; `None` without lines.
fn section(
    title: &str,
    mut table: PageTable,
    lines: &[MeasureRow],
    columns: &[(&str, Option<i64>)],
    note: &str,
) -> Option<Section> {
    for line in lines {
        let value = |(direction, k): &(&str, Option<i64>)| {
            let found = line.values.iter().find(|value| value.0 == *direction && value.1 == *k);
            found.map_or_else(String::new, |value| one_decimal(value.2))
        };
        table.push(line.texts.iter().cloned().chain(columns.iter().map(value)));
    }
    (!lines.is_empty()).then(|| Section::new(title, vec![PageBlock::Table(table), PageBlock::Note(note.to_owned())]))
}

/// Suffix that distinguishes rows of one measure, such as ` (N), paper, m = 5`.
fn suffix(batch: &RecordBatch, row: usize) -> Result<String> {
    let mut suffix = String::new();
    let kept = batch.column_by_name("ground_truth").and_then(|column| column.as_boolean_opt());
    if kept.is_some_and(|kept| kept.is_valid(row) && !kept.value(row)) {
        suffix.push_str(" (N)");
    }
    // The cut-offs in the variant of a sum are already those of its row.
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
    let column = tables::text_column(batch, name)?;
    Ok(column.is_valid(row).then(|| column.value(row).to_owned()))
}
