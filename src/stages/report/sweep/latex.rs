//! LaTeX rendering of a sweep: one `table` for each protocol, with the rules of booktabs.

use super::latex_text::{escaped, mean, number};
use super::measures::SweepMeasure;
use super::read::SweepReport;
use super::table::{SweepRow, SweepTable, SweepValue};
use super::texts::{p_value, signed};
use crate::stages::report::page_data::DIRECTIONS;

/// File with the tables of all protocols.
pub(in crate::stages::report) fn file(title: &str, report: &SweepReport) -> String {
    let head = format!("% Made by Pairloom {}.\n% Needs \\usepackage{{booktabs}}.\n", env!("CARGO_PKG_VERSION"));
    let of_protocol = |table: &SweepTable| {
        let main = LatexTable { report, table, measures: &table.measures, relevance: None }.render(title);
        let ncs = report.relevance.as_deref().filter(|_| !table.ncs_measures.is_empty());
        let ncs = ncs.map(|of| LatexTable { report, table, measures: &table.ncs_measures, relevance: Some(of) });
        main + &ncs.map_or_else(String::new, |ncs| ncs.render(title))
    };
    head + &report.tables.iter().map(of_protocol).collect::<String>()
}

/// Table of a protocol.
struct LatexTable<'r> {
    report: &'r SweepReport,
    table: &'r SweepTable,
    measures: &'r [SweepMeasure],
    /// Relevance, in a table of NCS. Such a table has no column after the measures.
    relevance: Option<&'r str>,
}

impl LatexTable<'_> {
    fn render(&self, title: &str) -> String {
        let table = self.table;
        let texts = self.text_headings();
        let others = self.other_headings();
        let numbers = self.measures.len() + others.len();
        let (groups, rules) = self.groups(texts.len(), others.len());
        let measures = self.measures.iter().map(|measure| escaped(&measure.heading()));
        let headings: Vec<String> = texts.iter().cloned().chain(measures).chain(others).collect();
        let rows: String = table.rows.iter().map(|row| self.row(row)).collect();
        format!(
            "\n\\begin{{table}}\n\\centering\n\\caption{{{}}}\n\\label{{tab:{}}}\n\\footnotesize\n\\setlength{{\\tabcolsep}}{{3pt}}\n\
             % Wider than the text, it is centred.\n\\makebox[\\linewidth][c]{{%\n\\begin{{tabular}}{{{}{}}}\n\\toprule\n{groups}{rules}{} \\\\\n\
             \\midrule\n{rows}\\bottomrule\n\\end{{tabular}}}}\n\\end{{table}}\n",
            self.caption(title),
            label(&table.protocol) + if self.relevance.is_some() { "-ncs" } else { "" },
            "l".repeat(texts.len()),
            "r".repeat(numbers),
            headings.join(" & "),
        )
    }

    fn text_headings(&self) -> Vec<String> {
        let method = self.table.has_methods().then(|| "method".to_owned());
        std::iter::once(escaped(&self.report.runs.row_header)).chain(method).collect()
    }

    /// Headings of the columns after the measures.
    fn other_headings(&self) -> Vec<String> {
        let mut headings = Vec::new();
        if self.relevance.is_some() {
            return headings;
        }
        if self.table.has_repetitions() {
            headings.push("runs".to_owned());
        }
        if self.table.has_printed_rsum() {
            headings.push("to printed".to_owned());
        }
        if let Some(baseline) = &self.report.baseline
            && self.table.has_comparisons()
        {
            headings.extend([format!("to {}", escaped(baseline)), "$p$".to_owned()]);
        }
        headings
    }

    /// Line of the names of the two directions, and the rules below them.
    fn groups(&self, n_texts: usize, n_others: usize) -> (String, String) {
        let mut cells = vec![String::new(); n_texts];
        let mut rules = String::new();
        let mut column = n_texts + 1;
        for measures in self.measures.chunk_by(|left, right| left.direction() == right.direction()) {
            let last = column + measures.len() - 1;
            match measures[0].direction() {
                Some(direction) => {
                    let name = escaped(DIRECTIONS[direction].name);
                    cells.push(format!("\\multicolumn{{{}}}{{c}}{{{name}}}", measures.len()));
                    rules += &format!("\\cmidrule(lr){{{column}-{last}}}");
                }
                None => cells.extend(measures.iter().map(|_| String::new())),
            }
            column = last + 1;
        }
        cells.extend((0..n_others).map(|_| String::new()));
        (format!("{} \\\\\n", cells.join(" & ")), format!("{rules}\n"))
    }

    /// Line of a row, and the line of its printed values.
    fn row(&self, row: &SweepRow) -> String {
        let has_methods = self.table.has_methods();
        let mut cells = vec![escaped(&row.row)];
        cells.extend(has_methods.then(|| escaped(&row.method)));
        cells.extend(self.measures.iter().map(|measure| value(*measure, row.value(*measure))));
        if self.relevance.is_some() {
            return format!("{} \\\\\n{}", cells.join(" & "), self.printed(row, cells.len()));
        }
        if self.table.has_repetitions() {
            cells.push(number(&row.results.len().to_string()));
        }
        if self.table.has_printed_rsum() {
            cells.push(row.printed_difference().map_or_else(String::new, |difference| number(&signed(difference))));
        }
        if self.table.has_comparisons() {
            let comparison = row.comparison;
            cells.push(comparison.map_or_else(String::new, |of| number(&signed(of.difference))));
            let test = comparison.and_then(|of| of.test);
            cells.push(test.map_or_else(String::new, |test| number(&p_value(test.t_test_p))));
        }
        format!("{} \\\\\n{}", cells.join(" & "), self.printed(row, cells.len()))
    }

    fn printed(&self, row: &SweepRow, n_cells: usize) -> String {
        let Some(printed) = &row.printed else { return String::new() };
        let mut cells = vec!["\\quad printed".to_owned()];
        cells.extend(self.table.has_methods().then(String::new));
        let value = |measure: &SweepMeasure| {
            printed.value(*measure).map_or_else(String::new, |value| number(&measure.text(value)))
        };
        cells.extend(self.measures.iter().map(value));
        let small = |cell: String| if cell.is_empty() { cell } else { format!("\\scriptsize {cell}") };
        let mut cells: Vec<String> = cells.into_iter().map(small).collect();
        cells.resize(n_cells, String::new());
        format!("{} \\\\\n", cells.join(" & "))
    }

    fn caption(&self, title: &str) -> String {
        let mut caption = format!("{}: {}.", escaped(title), escaped(&self.table.protocol));
        if let Some(relevance) = self.relevance {
            caption += &format!(" NCS by {}; (N): without the query's own matches.", escaped(relevance));
        }
        if self.table.has_repetitions() {
            caption += &format!(" Mean $\\pm$ sample standard deviation over {}.", escaped(&self.report.repeats));
        }
        if self.table.rows.len() > 1 {
            caption += " Best mean in bold.";
        }
        if let Some(printed) = &self.report.printed {
            let tables: Vec<String> = printed.tables.iter().map(|table| escaped(table)).collect();
            caption += &format!(" Printed: {}, table {}, single runs", escaped(&printed.paper), tables.join(", "));
            let others = &self.table.remarks.other_protocols;
            if !others.is_empty() {
                caption += &format!(", of other data ({})", escaped(&others.join(", ")));
            }
            caption += ".";
        }
        if let Some(baseline) = &self.report.baseline
            && self.table.has_repetitions()
            && self.table.has_comparisons()
            && self.relevance.is_none()
        {
            caption += &format!(" $p$: paired $t$-test of rsum against row {}.", escaped(baseline));
        }
        caption
    }
}

fn value(measure: SweepMeasure, value: Option<SweepValue>) -> String {
    let Some((value, statistics)) = value.and_then(|value| Some((value, value.statistics?))) else {
        return String::new();
    };
    let deviation = statistics.standard_deviation.map(|deviation| measure.text(deviation));
    mean(&measure.text(statistics.mean), deviation.as_deref(), value.is_best)
}

/// Label of a protocol: lower-case letters, digits and hyphens.
fn label(protocol: &str) -> String {
    protocol.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}
