//! Sections of a sweep: a table for each protocol, and the settings of the rows.

use super::curves;
use super::measures::SweepMeasure;
use super::printed::PrintedRow;
use super::read::SweepReport;
use super::table::{SweepRow, SweepTable, p_value, signed};
use crate::document::Span::{Code, Plain, Strong};
use crate::document::{Cell, PageBlock, PageColumn, PageTable, Section};
use crate::page_data::{DIRECTIONS, one_decimal};
use pairloom_base::error::{Result, TruncatedList};

/// Key figures that a page opens with.
const MAX_KEY_FIGURES: usize = 4;

/// Explanation of k-occurrences.
pub(super) const OCCURRENCES: &str = "Images that are the best one of so many captions, in percent. An image counts once \
    for each of its captions, and of these equal items the first is the best.";

/// Explanation of hs-sum over rows.
pub(super) const HS_SUM_OF_ROWS: &str = "hs-sum counts an image once for each of its captions, as papers do.";

/// Explanation of the hs-sum of other rows in the same table.
pub(super) const OTHER_HS_SUM: &str = "A matching has no such count: its hs-sum counts an image once, and is not compared with \
    the others.";

/// Mark of such an hs-sum.
const COUNTED_ONCE: &str = "images once";

/// Mark of a printed rsum that is the sum of the printed recalls.
const OUR_SUM: &str = "our sum";

/// Opening blocks of the page: the number of rows and runs, and the best row of each protocol.
pub(crate) fn intro(report: &SweepReport) -> Vec<PageBlock> {
    let runs = &report.runs;
    let rows = runs.rows().len();
    let count = |n: usize, name: &str| Strong(format!("{n} {name}{}", if n == 1 { "" } else { "s" }));
    let mut sentence = vec![count(rows, "row"), Plain(", ".to_owned()), count(runs.runs.len(), "run")];
    if runs.has_repetitions() {
        sentence.extend([Plain(", repeated over ".to_owned()), Code(report.repeats.clone())]);
    }
    sentence.push(Plain(".".to_owned()));
    let best = report.tables.iter().filter_map(|table| {
        let (row, rsum) = table.best().and_then(|row| Some((row, row.rsum()?)))?;
        let small = Some(format!("row {}", row.full_name(table.has_methods())));
        Some((format!("best rsum, {}", table.protocol), Cell { small, ..one_decimal(rsum.mean).into() }))
    });
    let mut blocks = vec![PageBlock::Intro(sentence)];
    blocks.extend((rows > 1).then(|| PageBlock::Numbers(best.take(MAX_KEY_FIGURES).collect())));
    blocks
}

/// All sections.
///
/// # Errors
/// Internal errors of the plot only.
pub(crate) fn sections(report: &SweepReport) -> Result<Vec<Section>> {
    let mut sections: Vec<Section> = report.tables.iter().map(|table| results(report, table)).collect();
    sections.extend(curves::section(report)?);
    if !report.row_settings.is_empty() {
        let mut table = PageTable::new(&[&report.runs.row_header, "settings"], &[]);
        for row in &report.row_settings {
            table.push([row.row.as_str(), &row.settings]);
        }
        let note = PageBlock::Note("Settings in which the rows differ, each in one of its runs.".to_owned());
        sections.push(Section::new("Settings of the rows", vec![PageBlock::Table(table), note]));
    }
    Ok(sections)
}

/// Section of a protocol.
fn results(report: &SweepReport, table: &SweepTable) -> Section {
    let mut blocks = vec![PageBlock::Table(measures(report, table)), PageBlock::Note(note(report, table))];
    blocks.extend(printed_note(report, table).map(PageBlock::Note));
    if let Some(relevance) = report.relevance.as_ref().filter(|_| !table.ncs_measures.is_empty()) {
        let note = format!(
            "NCS by the relevance {relevance}, in percent, as published code computes it: φ of what was found over φ of \
             what could be found. Nsum: sum of the NCS; (N): without the query's own matches. In small print or brackets: \
             the printed value."
        );
        let ncs = other_measures(report, table, &table.ncs_measures);
        blocks.extend([PageBlock::Heading("NCS".to_owned()), PageBlock::Table(ncs), PageBlock::Note(note)]);
    }
    if table.has_printed_occurrences() {
        let hubs = other_measures(report, table, &table.occurrence_measures);
        blocks.extend([
            PageBlock::Heading("Hubs".to_owned()),
            PageBlock::Table(hubs),
            PageBlock::Note(OCCURRENCES.to_owned()),
        ]);
    }
    if !table.rank_measures.is_empty() {
        let ranks = other_measures(report, table, &table.rank_measures);
        blocks.extend([PageBlock::Heading("Ranks".to_owned()), PageBlock::Table(ranks)]);
    }
    Section::new(table.protocol.clone(), blocks)
}

/// Table of recalls, rsum and hs-sum, with the differences.
fn measures(report: &SweepReport, table: &SweepTable) -> PageTable {
    let mut page = table_of(report, table, &table.measures);
    let mut names = Vec::new();
    if table.has_repetitions() {
        names.push("runs".to_owned());
    }
    if table.has_printed_rsum() {
        names.push("to printed".to_owned());
    }
    let baselines = table.baselines();
    if table.has_comparisons() {
        names.extend([format!("to {}", baseline_name(&baselines)), "p".to_owned()]);
    }
    page.columns.extend(names.into_iter().map(PageColumn::number));
    for row in &table.rows {
        let mut cells = cells(table, row, &table.measures);
        if table.has_repetitions() {
            cells.push(row.results.len().to_string().into());
        }
        if table.has_printed_rsum() {
            let printed = row.printed_value(SweepMeasure::Rsum).map(one_decimal);
            let small =
                printed.map(|value| if row.has_computed_rsum() { format!("{value}, {OUR_SUM}") } else { value });
            cells.push(Cell { small, ..row.printed_difference().map_or_else(String::new, signed).into() });
        }
        if table.has_comparisons() {
            let comparison = row.comparison.as_ref();
            let name = comparison.filter(|_| baselines.len() > 1).map(|of| of.baseline.clone());
            let fewer = comparison.filter(|of| of.n < row.results.len()).map(|of| format!("over {}", of.n));
            let difference = comparison.map_or_else(String::new, |of| signed(of.difference));
            cells.push(Cell { small: joined(name, fewer, ", "), ..difference.into() });
            let test = comparison.and_then(|of| of.test);
            let small = test.map(|test| p_value(test.sign_flip_p));
            cells.push(Cell { small, ..test.map_or_else(String::new, |test| p_value(test.t_test_p)).into() });
        }
        page.push(cells);
    }
    page
}

/// Name of the baseline in headings, or what rows with several ones are compared with.
pub(super) fn baseline_name<'b>(baselines: &[&'b str]) -> &'b str {
    if let [only] = baselines { only } else { "baseline" }
}

/// Two texts, each of which may be missing.
fn joined(first: Option<String>, second: Option<String>, between: &str) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}{between}{second}")),
        (first, second) => first.or(second),
    }
}

/// Table of measures other than recall.
fn other_measures(report: &SweepReport, table: &SweepTable, measures: &[SweepMeasure]) -> PageTable {
    let mut page = table_of(report, table, measures);
    for row in &table.rows {
        page.push(cells(table, row, measures));
    }
    page
}

/// Table without rows, with the columns of the names and of measures.
fn table_of(report: &SweepReport, table: &SweepTable, measures: &[SweepMeasure]) -> PageTable {
    let method = table.has_methods().then_some("method");
    let texts: Vec<&str> = std::iter::once(report.runs.row_header.as_str()).chain(method).collect();
    let mut page = PageTable::new(&texts, &[]);
    page.columns.extend(measures.iter().map(|measure| PageColumn {
        group: measure.direction().map(|direction| DIRECTIONS[direction]),
        ..PageColumn::number(measure.heading())
    }));
    page
}

/// Cells of the names and of measures: the mean with its deviation, and in small print the interval of the mean rsum or
/// the printed value.
fn cells(table: &SweepTable, row: &SweepRow, measures: &[SweepMeasure]) -> Vec<Cell> {
    let method = format!("{}{}", row.method, if row.transductive { " (transductive)" } else { "" });
    let printed = row.printed.as_ref();
    // Once for all methods of a row.
    let first = table.rows.iter().find(|other| other.row == row.row && other.printed.is_some());
    let about = printed.filter(|_| first.is_some_and(|first| std::ptr::eq(first, row))).and_then(PrintedRow::about);
    let mut cells = vec![Cell { small: about, ..row.row.clone().into() }];
    let printed_method = printed.and_then(|printed| printed.printed_method.clone());
    cells.extend(table.has_methods().then(|| Cell { small: printed_method, ..method.into() }));
    for &measure in measures {
        let value = row.value(measure);
        let statistics = value.and_then(|value| value.statistics);
        let text = statistics.map_or_else(String::new, |of| measure.text(of.mean));
        let deviation = statistics.and_then(|of| of.standard_deviation).map(|deviation| measure.text(deviation));
        let interval = statistics.and_then(|of| of.ci95);
        let small = if measure == SweepMeasure::Rsum {
            interval.map(|(low, high)| format!("{}–{}", measure.text(low), measure.text(high)))
        } else {
            row.printed_value(measure).map(|value| measure.text(value))
        };
        let is_once = measure == SweepMeasure::HsSum && table.is_other_hs_sum(row);
        let small = joined(small, is_once.then(|| COUNTED_ONCE.to_owned()), "; ");
        cells.push(Cell { small, deviation, strong: value.is_some_and(|value| value.is_best), ..text.into() });
    }
    cells
}

/// Explanation of the numbers of a table.
fn note(report: &SweepReport, table: &SweepTable) -> String {
    let (images, captions) = table.pool;
    let mut note = format!("Pool of {images} images and {captions} captions.");
    if table.has_repetitions() {
        note.push_str(&format!(
            " Mean ± sample standard deviation over the runs of a row, which differ in {}. Below rsum, in small print or \
             brackets: the 95 % interval of its mean by Student's t. It covers the choice of {}, not that of the test \
             images.",
            report.repeats, report.repeats
        ));
    }
    if table.has_hs_sum_of_rows() {
        note.push(' ');
        note.push_str(HS_SUM_OF_ROWS);
    }
    if table.has_other_hs_sums() {
        note.push_str(&format!(" {OTHER_HS_SUM} It is marked: {COUNTED_ONCE}."));
    }
    if table.rows.len() > 1 {
        note.push_str(" Bold: the best mean of a column, as shown.");
    }
    if table.has_comparisons() {
        let baselines = table.baselines();
        let row = if baselines.len() > 1 { "the row in small print or brackets" } else { "this row" };
        note.push_str(&format!(" to {}: difference in rsum to {row}, ", baseline_name(&baselines)));
        note.push_str(if table.has_repetitions() {
            "the mean over the runs that both rows have (their number below it, if it is less). p: paired t-test over these \
             runs, and in small print or brackets \
             the sign-flip test, which cannot be below 2/2ⁿ for n runs; both two-sided, not corrected for the number of \
             rows."
        } else {
            "of one run each, which no test can tell from chance."
        });
    }
    if table.rows.iter().any(|row| row.transductive) {
        note.push_str(" Transductive: the method uses all test queries together.");
    }
    note
}

/// Explanation of the printed values.
fn printed_note(report: &SweepReport, table: &SweepTable) -> Option<String> {
    let printed = report.printed.as_ref()?;
    let remarks = &table.remarks;
    let mut note = format!(
        "Printed: {}, table {}; papers print single runs. The printed value stands in small print or brackets below ours. \
         Below the name of a row: model, objective and features of the printed one; below a method: its printed name.",
        printed.paper,
        printed.tables.join(", ")
    );
    if table.has_printed_rsum() {
        note.push_str(" to printed: our mean rsum minus the printed one, which stands below it.");
    }
    if table.has_computed_rsum() {
        note.push_str(&format!(" {OUR_SUM}: the paper prints no rsum, and this is the sum of its six recalls."));
    }
    if !remarks.other_protocols.is_empty() {
        note.push_str(&format!(
            " The printed values are of other data, {}: their order can be compared, their size cannot.",
            remarks.other_protocols.join(", ")
        ));
    }
    if !remarks.same_images.is_empty() {
        note.push_str(&format!(
            " The printed values are of {}: the same images, and all but one of the 5,000 captions.",
            remarks.same_images.join(", ")
        ));
    }
    if !remarks.without_protocol.is_empty() {
        note.push_str(&format!(
            " The paper prints no protocol for {}, so the printed values may be of other pools of the data set.",
            remarks.without_protocol.join(", ")
        ));
    }
    if printed.is_without_sums {
        note.push_str(" Printed sums are of R@1, R@5 and R@10 and are left out, because ours are of other recalls.");
    } else if table.rows.iter().any(SweepRow::has_other_hs_sum) {
        note.push_str(" Papers count an image once for each of its captions in hs-sum; ours counts it once.");
    }
    for (list, text) in [
        (&remarks.without, "Rows that the table of the paper does not have"),
        (&remarks.ambiguous, "Rows that the table has several of, so none is shown"),
        (&remarks.left_over, "Printed rows that the sweep does not have"),
    ] {
        if !list.is_empty() {
            let names: TruncatedList = list.iter().collect();
            note.push_str(&format!(" {text}: {}.", names.join(", ")));
        }
    }
    Some(note)
}
