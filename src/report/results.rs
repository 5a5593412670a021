//! Sections of results: key figures and recall, graded and binary relevance, significance of differences, and agreement with
//! human ratings.

use std::collections::BTreeSet;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;

use super::document::Span::{Code, Plain};
use super::document::{Cell, PageBlock, PageColumn, PageColumnKind, PageRow, PageTable, Section};
use super::page_data::{self, DIRECTIONS, ResultRow, SummaryResults, one_decimal};
use pairloom_base::error::Result;
use pairloom_stage::StageContext;
use pairloom_tables as tables;

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
        note.push_str(" So is the 95 % confidence interval of a recall: Wilson's, and for captions that of the bootstrap over images. It covers the test images, not the seeds.");
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
pub(super) fn graded_sections(cx: &mut StageContext<'_>) -> Result<Vec<Section>> {
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
                page_data::method_of_row(&batch, row)?,
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
        measure_section("Relevance beyond one hit", table, &with_cutoff, &columns, GRADED_NOTE),
        measure_section("Relevance as a whole", whole, &without_cutoff, &both(None), NOTE_OF_SETS),
    ];
    Ok(sections.into_iter().flatten().collect())
}

const GRADED_NOTE: &str = "Percent. Set recall: share of the relevant items among the first K. Semantic Recall: the same of the m \
                    neighbours with the largest φ (paper), or of the items of m neighbouring images (official). NCS: φ of \
                    what was found over φ of what could be found. (N): the query's own matches are deleted. Sum: of NCS at \
                    all K in both directions.";
const NOTE_OF_SETS: &str = "Percent. R is the number of relevant items: a query's own matches, its m neighbours with the \
                            largest φ, or the items that people rated high or judged relevant. MRR: mean reciprocal rank of the \
                            best match.";

/// Section of `lines`, with a column for each (direction, cut-off) in `columns`; `None` without lines.
fn measure_section(
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

const SIGNIFICANCE_NOTE: &str = "Differences between two results A and B of the same queries. In small print or brackets: the settings of A and of B \
     that differ, in the evaluation and in all that it follows from. The interval is that of the paired bootstrap over \
     images, p that of the randomisation test (two-sided, not corrected for the number of rows). Both cover the choice of \
     the test images, not that of the seeds: models of two seeds differ significantly too. Wins and losses are hits at all \
     cut-offs of A only and of B only.";

/// What the interval of a difference covers.
const COVERED: &str = "test images, not seeds";

/// Section of the `significance_tests` in `inputs`: rsum of each result (A) and of its baseline (B), and the
/// significance of the difference.
pub(super) fn significance_section(cx: &mut StageContext<'_>, inputs: &[String]) -> Result<Section> {
    let numbers = ["rsum of A", "rsum of B", "A − B", "95 %", "p", "wins", "losses"];
    let mut table = PageTable::new(&["protocol", "A", "B"], &numbers);
    for input in inputs {
        while let Some(batch) = cx.read_next(input)? {
            add_rows(&batch, &mut table)?;
        }
    }
    Ok(Section::new("Significance", vec![PageBlock::Table(table), PageBlock::Note(SIGNIFICANCE_NOTE.to_owned())]))
}

fn add_rows(batch: &RecordBatch, table: &mut PageTable) -> Result<()> {
    let text = |name: &str| tables::text_column(batch, name);
    let (protocols, measures) = (text("protocol")?, text("measure")?);
    let names = [
        (text("method")?, text("parameters")?, text("settings")?),
        (text("baseline")?, text("baseline_parameters")?, text("baseline_settings")?),
    ];
    let number = |name: &str| tables::float_column(batch, name);
    let (value, baseline, difference) = (number("value")?, number("baseline_value")?, number("difference")?);
    let (low, high, p) = (number("ci95_low")?, number("ci95_high")?, number("p_value")?);
    let (wins, losses) = (tables::int_column(batch, "wins")?, tables::int_column(batch, "losses")?);
    for row in (0..batch.num_rows()).filter(|&row| measures.value(row) == "rsum") {
        let [method, other] = names.map(|(name, parameters, settings)| {
            let numbers = parameters.is_valid(row).then(|| format!(", {}", parameters.value(row)));
            let small = settings.is_valid(row).then(|| settings.value(row).to_owned());
            Cell { small, ..format!("{}{}", name.value(row), numbers.unwrap_or_default()).into() }
        });
        table.push([
            protocols.value(row).into(),
            method,
            other,
            one_decimal(value.value(row)).into(),
            one_decimal(baseline.value(row)).into(),
            format!("{:+.1}", difference.value(row)).into(),
            Cell {
                small: Some(COVERED.to_owned()),
                ..format!("{:+.1} … {:+.1}", low.value(row), high.value(row)).into()
            },
            format!("{:.4}", p.value(row)).into(),
            wins.value(row).to_string().into(),
            losses.value(row).to_string().into(),
        ]);
    }
    Ok(())
}

const AGREEMENT_NOTE: &str =
    "Correlation of each score with the n ratings of the same pairs. A score that is the same for all pairs has 0.";

/// Section of the `correlations` in `input`: correlation of scores with human ratings, beside published values.
pub(super) fn agreement_section(cx: &mut StageContext<'_>, input: &str) -> Result<Section> {
    let numbers = ["n", "paper: Pearson", "here: Pearson", "difference", "Spearman", "τ-b", "τ-c"];
    let mut table = PageTable::new(&["score", "pairs"], &numbers);
    while let Some(batch) = cx.read_next(input)? {
        let (scores, pairs) = (tables::text_column(&batch, "score")?, tables::text_column(&batch, "pairs")?);
        let (n, published) = (tables::int_column(&batch, "n_ratings")?, tables::float_column(&batch, "published")?);
        let pearson = tables::float_column(&batch, "pearson")?;
        for row in 0..batch.num_rows() {
            let here = pearson.value(row);
            let paper = published.is_valid(row).then(|| published.value(row));
            let mut cells = vec![
                scores.value(row).to_owned(),
                pairs.value(row).to_owned(),
                n.value(row).to_string(),
                paper.map_or_else(String::new, |paper| format!("{paper:.3}")),
                format!("{here:.4}"),
                paper.map_or_else(String::new, |paper| format!("{:+.4}", here - paper)),
            ];
            for name in ["spearman", "kendall_b", "kendall_c"] {
                cells.push(format!("{:.4}", tables::float_column(&batch, name)?.value(row)));
            }
            table.push(cells);
        }
    }
    Ok(Section::new("Agreement with people", vec![PageBlock::Table(table), PageBlock::Note(AGREEMENT_NOTE.to_owned())]))
}
